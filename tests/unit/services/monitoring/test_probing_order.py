"""Streams on disks of this host are probed one after the other, those that need the network meanwhile in threads."""

import threading
from pathlib import Path

import pytest

from streamwarden.health.signals.services import needs_network
from streamwarden.services.monitoring.probing_order import ProbingOrder
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.streams.health_windows import spec

FAR = spec(name="far", source=KafkaSource(connection="events", topic="orders"))
NEAR = [spec(name=f"near{number}") for number in range(3)]


def thread_of(probed: StreamSpec) -> tuple[str, int]:
    return probed.name, threading.get_ident()


@pytest.mark.parametrize(
    ("probed", "expected"),
    [
        (spec(), False),
        (FAR, True),
        (spec(sink=PostgresqlSink(connection="db", table="t", key=("id",))), True),
        (spec(checkpoint="s3a://bucket/checkpoint"), True),
        (spec(source=FilesSource(path="hdfs://host/in")), True),
    ],
)
def test_what_needs_the_network_is_known_from_the_file(probed: StreamSpec, expected: bool) -> None:
    assert needs_network(probed) is expected


def test_only_what_needs_the_network_is_probed_in_other_threads_and_the_order_stays() -> None:
    found = ProbingOrder().each([*NEAR, FAR], thread_of)
    assert [name for name, _ in found] == ["near0", "near1", "near2", "far"]
    assert {name for name, thread in found if thread != threading.get_ident()} == {"far"}


def test_a_stream_that_waits_for_the_network_delays_none_of_a_disk() -> None:
    """The far one ends only after the near ones: one after the other they would never end."""
    near_ones = threading.Semaphore(0)

    def probe(probed: StreamSpec) -> str:
        if probed is not FAR:
            near_ones.release()
        elif not all(near_ones.acquire(timeout=30) for _ in NEAR):
            return "the others were not probed"
        return probed.name

    assert ProbingOrder().each([FAR, *NEAR], probe) == ["far", "near0", "near1", "near2"]


def test_once_its_patience_is_used_up_slow_disks_are_read_at_the_same_time() -> None:
    """Each probe waits for the other two: in one thread they would never end."""
    together = threading.Barrier(len(NEAR), timeout=30)

    def probe(probed: StreamSpec) -> str:
        together.wait()
        return probed.name

    assert ProbingOrder(patience=0.0).each(NEAR, probe) == ["near0", "near1", "near2"]


def test_what_a_disk_let_a_stream_wait_counts(tmp_path: Path) -> None:
    order, waited = ProbingOrder(patience=1e-9), threading.Event()

    def probe(probed: StreamSpec) -> int:
        waited.wait(0.001)
        return threading.get_ident()

    first, *others = order.each(NEAR, probe)
    assert first == threading.get_ident()
    assert threading.get_ident() not in others


def test_an_error_of_a_probe_is_raised() -> None:
    def probe(probed: StreamSpec) -> None:
        raise TimeoutError(probed.name)

    for specs in (NEAR, [FAR, FAR], NEAR[:1]):
        with pytest.raises(TimeoutError):
            ProbingOrder().each(specs, probe)
