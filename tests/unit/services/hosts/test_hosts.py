"""Hosts report, are listed with their drivers, and are drained through the store."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.errors import ConfigError, HostUnfit
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ProcessIdentity
from streamwarden.lifecycle.forks.places import SUFFIX
from streamwarden.lifecycle.hosts.elsewhere import question
from streamwarden.lifecycle.hosts.report import SILENT_AFTER, HostState, host_name
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.hosts.placement import STORAGE_ID, require_fit_host, storage_id
from streamwarden.services.hosts.draining import drain_host
from streamwarden.services.hosts.listing import hosts
from streamwarden.services.hosts.reporting import HostReporter, memory, versions
from streamwarden.services.hosts.witness import Witness
from streamwarden.spark.watches.storage import unanswered
from streamwarden.stream.spec import StreamSpec, TriggerSpec

HERE = host_name(this_host())
ELSEWHERE = ProcessIdentity(host="elsewhere/boot/1", pid=7, started_at=1)
NOW = 1000.0


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as opened:
        yield opened


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "var"
    folder.mkdir()
    return folder


def driver(store: Store, data: Path, stream: str, process: ProcessIdentity) -> DriverRecord:
    """A driver with a lease until a minute after NOW."""
    record = DriverRecord(
        driver_id=f"{stream}-20260101T000000-00000001",
        stream=stream,
        checkpoint=f"{data}/cp/{stream}",
        token=1,
        folder=f"{data}/drivers/{stream}/{stream}-20260101T000000-00000001",
        launched_by="test",
        launched_at=NOW,
        process=process,
    )
    lease = store.leases.acquire(record.checkpoint, stream=stream, holder=record.driver_id, ttl=60, now=NOW)
    store.leases.bind(lease, process, ttl=60, now=NOW)
    store.drivers.launched(record)
    return record


def test_a_host_reports_what_it_has(store: Store, data: Path) -> None:
    HostReporter(store, data, clock=lambda: NOW).report()
    (host,) = hosts(store, NOW + 1)
    report = host.report
    assert report is not None
    assert (host.name, host.state, host.drivers) == (HERE, HostState.READY, ())
    assert (report.cores, report.memory_bytes) == (len(os.sched_getaffinity(0)), memory()[0])
    assert 0 < report.available_bytes < report.memory_bytes
    assert report.storage == (data / STORAGE_ID).read_text()
    assert {"streamwarden", "spark", "python", "java"} <= set(report.versions)
    assert hosts(store, NOW + SILENT_AFTER + 1)[0].state is HostState.SILENT


def test_a_version_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    assert set(versions({"JAVA_HOME": "/none", "PATH": ""}, [str(tmp_path)])) <= {"python", "java"}


def test_every_host_with_a_driver_is_listed_with_its_memory(store: Store, data: Path) -> None:
    driver(store, data, "counts", ELSEWHERE)
    driver(store, data, "sums", ELSEWHERE)
    taken = {"resident_bytes": (NOW - 10, 4e8), "standby_resident_bytes": (NOW - 8, 6e8)}
    for name, (at, value) in [*taken.items(), ("resident_bytes", (NOW, 5e8))]:
        measured = Measurement(stream="counts", name=name, at=at, value=value, unit="bytes", source="driver")
        store.measurements.add([measured, replace(measured, stream="sums", at=NOW - 600)])
    (host,) = hosts(store, NOW)
    assert (host.name, host.state) == ("elsewhere", HostState.UNKNOWN)
    assert [(placed.stream, placed.resident_bytes) for placed in host.drivers] == [("counts", 11e8), ("sums", None)]
    assert host.resident_bytes == 11e8


def test_a_drain_from_another_host_stops_its_drivers_and_no_others(
    store: Store, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The streams stay wanted: their supervisors start them on another host."""
    there = driver(store, data, "counts", ELSEWHERE)
    here = driver(store, data, "sums", replace(ELSEWHERE, host="third/boot/1"))
    fleet = Fleet(store, data, clock=lambda: NOW)
    monkeypatch.setattr(fleet, "wait_for_stop", lambda request: request)
    ended = drain_host(store, fleet, "elsewhere", by="ann", reason="reboot", now=NOW)
    assert ended == [store.stops.pending(there.driver_id)]
    assert store.stops.pending(there.driver_id).restart  # type: ignore[union-attr]
    assert store.stops.pending(here.driver_id) is None
    assert [host.state for host in hosts(store, NOW)] == [HostState.DRAINING, HostState.UNKNOWN]


def test_a_host_that_nobody_knows_cannot_be_drained(store: Store, data: Path) -> None:
    with pytest.raises(ConfigError, match="no host 'nowhere'"):
        drain_host(store, Fleet(store, data), "nowhere", by="ann", reason="reboot", now=NOW)
    assert store.hosts.drained() == {}


def test_a_drained_host_starts_nothing_until_it_is_resumed(store: Store, data: Path) -> None:
    spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=f"{data}/cp")
    HostReporter(store, data, clock=lambda: NOW).report()
    drain_host(store, Fleet(store, data), HERE, by="ann", reason="reboot", now=NOW)
    with pytest.raises(HostUnfit, match="drained by ann: reboot"):
        Fleet(store, data).start(spec, launched_by="test")
    require_fit_host(store, replace(spec, name=f"counts{SUFFIX}1"), data)
    assert store.drivers.latest("counts") is None
    assert store.hosts.resume(HERE)
    assert not store.hosts.resume(HERE)
    require_fit_host(store, spec, data)


def test_a_host_without_the_checkpoint_leaves_the_stream_to_those_that_have_it(
    store: Store, data: Path, tmp_path: Path
) -> None:
    spec = StreamSpec(name="counts", job="/no/job.py", checkpoint=f"{data}/cp/counts")
    last = driver(store, data, "counts", ELSEWHERE)
    store.queries.started(
        QueryRecord(
            stream="counts",
            name="",
            checkpoint=spec.checkpoint,
            trigger=TriggerSpec(),
            driver_id=last.driver_id,
            query_id="q",
            run_id="r",
            first_at=NOW,
            started_at=NOW,
        )
    )
    mine = HostReporter(store, data, clock=lambda: NOW).report()
    store.hosts.report(replace(mine, name="elsewhere"))
    require_fit_host(store, spec, data)  # the same storage: it is gone, which the check of the launch refuses
    store.hosts.report(replace(mine, name="elsewhere", storage="other"))
    with pytest.raises(HostUnfit, match="different storage"):
        require_fit_host(store, spec, data)
    Path(spec.checkpoint).mkdir(parents=True)
    (Path(spec.checkpoint) / "metadata").touch()
    require_fit_host(store, spec, data)


def test_a_host_whose_storage_was_silent_leaves_the_stream_to_others_at_first(store: Store, data: Path) -> None:
    spec = StreamSpec(name="counts", job="/no/job.py", checkpoint="s3a://lake/counts")
    here = ProcessIdentity(host=this_host(), pid=7, started_at=1)
    last = driver(store, data, "counts", here)
    store.drivers.exited(last.driver_id, unanswered(spec.checkpoint, 60.0, None, at=time.time()))
    with pytest.raises(HostUnfit, match="did not answer"):
        require_fit_host(store, spec, data)
    away = driver(store, data, "others", ELSEWHERE)
    store.drivers.exited(away.driver_id, unanswered(spec.checkpoint, 60.0, None, at=time.time()))
    require_fit_host(store, replace(spec, name="others"), data)


def test_a_host_that_reads_a_checkpoint_says_so_once_to_the_driver_that_asks(
    store: Store, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "metadata").write_text('{"id":"q"}')
    last = driver(store, data, "counts", ELSEWHERE)
    mine = driver(store, data, "mine", ProcessIdentity(host=this_host(), pid=7, started_at=1))
    witness = Witness(store, clock=lambda: NOW)

    def answers(of: DriverRecord, at: float, metadata: str) -> list[DriverEvent]:
        asked = question(of.driver_id, at, checkpoint=str(tmp_path), connection=None, metadata=metadata)
        store.drivers.event(asked)
        witness.look()
        witness.look()
        return [event for event in store.drivers.events(of.driver_id) if event.detail.get("asked") == str(at)]

    assert [event.detail["host"] for event in answers(last, NOW - 1, '{"id":"q"}')] == [HERE]
    assert answers(last, NOW - 2, '{"id":"another"}') == []  # another checkpoint at the same path
    assert answers(last, NOW - 600, '{"id":"q"}') == []  # nobody waits for it any more
    assert answers(mine, NOW - 1, '{"id":"q"}') == []


def test_the_storage_keeps_its_id(data: Path) -> None:
    assert storage_id(data) is None
    made = storage_id(data, make=True)
    assert made
    assert storage_id(data, make=True) == storage_id(data) == made
