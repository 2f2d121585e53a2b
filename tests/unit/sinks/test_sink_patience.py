"""For how long a table sink waits for a database that is away, without a server: connections to a closed port."""

from __future__ import annotations

import threading
import time

import pytest

from streamwarden.adapters.postgresql.access import access
from streamwarden.errors import SinkError, SinkInterrupted
from streamwarden.sinks.postgresql.sink import RETRY_FOR
from streamwarden.sinks.postgresql.table import Column, Target
from streamwarden.sinks.postgresql.transaction import TableSink, waits_for


def away(**options: object) -> TableSink:
    target = Target(schema=None, table="counts", columns=(Column("n", "integer"),))
    nowhere = access("warehouse", {"AIRFLOW_CONN_WAREHOUSE": "postgresql://ann:secret-word@127.0.0.1:1/x"})
    return TableSink(target, nowhere, stream="counts", token=1, **options)  # type: ignore[arg-type]


def test_a_host_whose_name_cannot_be_resolved_is_named() -> None:
    unknown = access("warehouse", {"AIRFLOW_CONN_WAREHOUSE": "postgresql://ann:x@no-such-host.invalid:5432/x"})
    target = Target(schema=None, table="counts", columns=(Column("n", "integer"),))
    with pytest.raises(SinkError, match="the name of the database's host cannot be resolved"):
        TableSink(target, unknown, stream="counts", token=1).prepare(None)


@pytest.mark.parametrize("patience", [0.0, 0.2, 16.0, RETRY_FOR, 600.0])
def test_the_waits_add_up_to_the_patience_and_none_is_long(patience: float) -> None:
    waits = waits_for(patience)
    assert sum(waits) == pytest.approx(patience)
    assert all(0 < wait <= 10 for wait in waits)
    assert waits[:3] == (0.5, 1.0, 2.0)[: len(waits)] or patience < 3.5


def test_a_failover_of_a_minute_is_waited_for_by_default() -> None:
    assert RETRY_FOR >= 120
    assert len([wait for wait in waits_for(RETRY_FOR) if wait <= 10]) >= 12


def test_attempts_that_take_long_themselves_do_not_stretch_the_patience() -> None:
    """A host that drops packets costs ten seconds an attempt."""
    now = [0.0]
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds + 10

    with pytest.raises(SinkError):
        away(waits=waits_for(120), patience=120, sleep=sleep, clock=lambda: now[0]).prepare(None)
    assert 120 <= now[0] <= 140


def test_a_stop_ends_the_wait_at_once() -> None:
    ending = threading.Event()
    began = time.monotonic()
    threading.Timer(0.05, ending.set).start()
    with pytest.raises(SinkInterrupted) as caught:
        away(waits=(60.0,), patience=60, ending=ending.is_set).prepare(None)
    assert time.monotonic() - began < 30, "not the minute that the wait would have taken"
    assert "nothing is lost" in caught.value.next_step
    assert "secret-word" not in str(caught.value)


def test_a_driver_that_has_to_end_makes_no_second_attempt() -> None:
    waited: list[float] = []
    with pytest.raises(SinkInterrupted):
        away(waits=(5.0, 5.0), patience=60, ending=lambda: True, sleep=waited.append).prepare(None)
    assert waited == [5.0]
