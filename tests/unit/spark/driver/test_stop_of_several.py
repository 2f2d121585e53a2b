"""The end of a driver's queries: each at its own boundary, Spark after the last of them, and no driver without any."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.errors import LeaseLost
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.spark.driver import control as module
from streamwarden.spark.driver.control import Control, Ending, Reason
from streamwarden.spark.groups.engine import Engine
from streamwarden.spark.internals.graceful import Stop
from streamwarden.spark.internals.listener import QueryTerminated
from streamwarden.stream.spec import StreamSpec
from support.spark.drivers import until

ENOUGH = 20.0
"""Seconds after which a thread that still waits has failed the test."""


class Query:
    """A query that reaches its boundary when it is let."""

    def __init__(self) -> None:
        self.boundary = threading.Event()
        self.asked = threading.Event()
        self.active = True


class Queries:
    """The active ones, as the sessions know them."""

    def __init__(self, *queries: Query) -> None:
        self._queries = queries

    def active_queries(self) -> list[Query]:
        return [query for query in self._queries if query.active]


def stop(query: Query, give_up: Callable[[], bool]) -> Stop:
    query.asked.set()
    while not query.boundary.wait(0.01):
        if give_up():
            return Stop.GIVEN_UP
    query.active = False
    return Stop.AT_BOUNDARY


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[Query, Query]:
    monkeypatch.setattr(module, "stop_at_boundary", stop)
    return Query(), Query()


@dataclass
class Link:
    """The runs that were started, and how those ended that did."""

    lost: LeaseLost | None = None
    stop: StopRequest | None = None
    runs: set[str] = field(default_factory=set)
    terminated: dict[str, QueryTerminated] = field(default_factory=dict)

    def started(self, run: str) -> None:
        self.runs.add(run)

    def ended(self, run: str, error: str | None = None, *, query: str = "q") -> None:
        self.runs.add(run)
        self.terminated[run] = QueryTerminated(query, run, error, None)


PAIR = StreamSpec(name="pair", job="/j.py", checkpoint="/cp")


def control_of(pair: tuple[Query, ...], folder: Path, link: Link | None = None, spec: StreamSpec = PAIR) -> Control:
    others: Any = link
    sessions: Any = Queries(*pair)
    jvm = ProcessIdentity("h", 1, 1)
    engine = Engine(process=jvm, jvm=jvm)
    return Control(spec, folder, link=others, sessions=sessions, registry=others, engine=engine, finish=lambda: None)


def test_a_query_with_a_long_batch_holds_up_no_other_and_spark_waits_for_it(
    pair: tuple[Query, Query], tmp_path: Path
) -> None:
    control = control_of(pair, tmp_path)
    long, short = pair
    ends: list[bool] = []
    stopping = threading.Thread(target=lambda: ends.append(control._all_at_boundary(lambda: False)), daemon=True)
    stopping.start()
    assert all(query.asked.wait(ENOUGH) for query in pair), "both are asked before one has ended"
    short.boundary.set()
    until("the end of the short one", lambda: not short.active, ENOUGH)
    script = threading.Thread(target=control.await_boundaries, daemon=True)  # it saw that one end, and stops Spark
    script.start()
    script.join(0.2)
    assert script.is_alive()
    long.boundary.set()
    script.join(ENOUGH)
    stopping.join(ENOUGH)
    assert (script.is_alive(), ends) == (False, [True])


def test_where_it_is_given_up_spark_waits_no_longer(pair: tuple[Query, Query], tmp_path: Path) -> None:
    control = control_of(pair, tmp_path)
    assert control._all_at_boundary(lambda: True) is False
    control.await_boundaries()


def test_a_script_that_stops_spark_by_itself_waits_for_nothing(pair: tuple[Query, Query], tmp_path: Path) -> None:
    script = threading.Thread(target=control_of(pair, tmp_path).await_boundaries, daemon=True)
    script.start()
    script.join(ENOUGH)
    assert not script.is_alive()


def test_a_refused_query_makes_the_script_wait_for_the_batches_of_the_others(
    pair: tuple[Query, Query], tmp_path: Path
) -> None:
    """The refused query ends at once, and a script that waits for any of its queries then stops Spark."""
    control = control_of(pair, tmp_path, Link())
    control.refuse()
    script = threading.Thread(target=control.await_boundaries, daemon=True)
    script.start()
    script.join(0.2)
    assert script.is_alive(), "the next look at the queries is still to come"
    for query in pair:
        query.boundary.set()
    control._turn()
    script.join(ENOUGH)
    assert (script.is_alive(), control.ending and control.ending.reason) == (False, Reason.REFUSED)


@pytest.mark.parametrize("before", [True, False])
def test_after_the_end_of_the_queries_a_refusal_holds_up_no_script(
    pair: tuple[Query, Query], tmp_path: Path, before: bool
) -> None:
    control = control_of(pair, tmp_path, Link())
    fenced = Ending(Reason.LEASE_LOST, "replaced")
    for step in (control.refuse, lambda: control._end(fenced))[:: 1 if before else -1]:
        step()
    script = threading.Thread(target=control.await_boundaries, daemon=True)
    script.start()
    script.join(ENOUGH)
    assert not script.is_alive()


def failed() -> Link:
    link = Link()
    link.ended("run 1", "ValueError: poison")
    return link


def test_a_driver_whose_last_query_failed_ends_although_its_script_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script may look at its query in a loop instead of waiting for it."""
    control = control_of((), tmp_path, failed())
    assert not control._is_abandoned(), "it may start the query again, or end"
    monkeypatch.setattr(module, "SCRIPT_GRACE", 0.0)
    until("its end", control._is_abandoned, ENOUGH)


def test_a_driver_with_a_query_that_runs_or_ended_well_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCRIPT_GRACE", -1.0)
    assert not control_of((), tmp_path, Link())._is_abandoned(), "none has started yet"
    other_runs, again, well = failed(), failed(), Link()
    other_runs.started("run of the other")
    again.ended("run 2")
    well.ended("run 1")
    for link in (other_runs, again, well):
        assert not control_of((), tmp_path, link)._is_abandoned()
    assert control_of((), tmp_path, failed())._is_abandoned()


def has(checkpoint: Path, log: str, batch: int) -> None:
    (checkpoint / log).mkdir(parents=True, exist_ok=True)
    (checkpoint / log / str(batch)).write_text("v1\n{}")


@pytest.mark.parametrize("committed", [2, 3], ids=["as it was planned", "by the driver before"])
def test_a_query_is_stopped_at_the_boundary_of_its_last_batch_and_the_driver_completes(
    pair: tuple[Query, Query], tmp_path: Path, committed: int
) -> None:
    """A driver that was killed in the last batch, or after it, has an end that is planned when the next one starts."""
    checkpoint, query = tmp_path / "cp", pair[0]
    control = control_of((query,), tmp_path, Link(), replace(PAIR, checkpoint=str(checkpoint), last_batch=3))
    control._measure_at = math.inf
    has(checkpoint, "offsets", 2)
    control._turn()
    assert not query.asked.is_set(), "the last batch is not planned"
    has(checkpoint, "offsets", 3)
    has(checkpoint, "commits", committed)
    query.boundary.set()
    control._turn()
    assert not query.active
    assert control.ending is None, "it was not made to end: the driver has come to its end"


def test_a_driver_that_is_fenced_in_its_last_batch_waits_for_no_boundary(
    pair: tuple[Query, Query], tmp_path: Path
) -> None:
    checkpoint, query = tmp_path / "cp", pair[0]
    link = Link()
    control = control_of((query,), tmp_path, link, replace(PAIR, checkpoint=str(checkpoint), last_batch=3))
    has(checkpoint, "offsets", 3)
    turn = threading.Thread(target=control._turn, daemon=True)
    turn.start()
    assert query.asked.wait(ENOUGH)
    link.lost = LeaseLost("replaced by d2")
    turn.join(ENOUGH)
    assert (turn.is_alive(), query.active) == (False, True), "the next turn cuts it"
