"""The driver's watch over its standby: when it asks for one, when it keeps one, what it reports."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from streamwarden.adapters import processes
from streamwarden.health.signals.series import STANDBY_BYTES
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.standby import ANSWERED_WITHIN, STANDBY, Fit, StandbyRecord
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.services.fleet.standbys.waiting import signature
from streamwarden.spark.driver.control import Ending, Reason
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.standby.keeper import LONGEST_PAUSE, PREPARED_WITHIN, Asked, restarts
from streamwarden.spark.standby.watch import StandbyWatch
from streamwarden.stream.spec import Standby, StreamSpec


class Link:
    """Keeps what the watch reports."""

    started = object()

    def __init__(self) -> None:
        self.events: list[dict[str, str]] = []
        self.measured: list[Measurement] = []

    def event(self, kind: str, **detail: str) -> None:
        assert kind == STANDBY
        self.events.append(detail)

    def measure(self, measurements: Iterable[Measurement]) -> None:
        self.measured += measurements


class Bench:
    """A driver's folder, with a watch whose turns the test takes, and a sleeping process as its standby."""

    def __init__(self, root: Path) -> None:
        self.job = root / "job.py"
        self.job.write_text("def build(spark, spec): ...\n")
        self.spec = StreamSpec(name="counts", job=str(self.job), checkpoint="/cp", standby=Standby.WARM)
        self.folder = root / "drivers" / "counts" / "counts-1"
        self.folder.mkdir(parents=True)
        self.link, self.ending = Link(), False
        self.watch = StandbyWatch(self.spec, self.folder, cast(StoreLink, self.link), ending=lambda: self.ending)
        self.child = subprocess.Popen(["sleep", "600"])

    @property
    def wanted(self) -> bool:
        return (self.folder / files.WANTED).exists()

    def standby(self, *, ready: bool = True) -> Path:
        folder = self.folder.with_name("counts-2")
        folder.mkdir()
        process = processes.identity(self.child.pid)
        assert process is not None
        files.write_process(folder, process)
        record = StandbyRecord(
            stream="counts",
            leader="counts-1",
            leader_process=None,
            prepared_at=0.0,
            fit=Fit(file="a", code="b", environment="c", command="d"),
            watched={str(self.job): signature(self.job)},
        )
        files.write_document(folder / files.STANDBY, record.to_document())
        if ready:
            (folder / files.READY).touch()
        return folder


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.child.kill()
    made.child.wait()


def test_a_driver_asks_for_a_standby_after_its_first_batch_and_not_before(bench: Bench) -> None:
    bench.watch.turn()
    assert not bench.wanted
    bench.watch.committed()
    bench.watch.turn()
    assert bench.wanted


def test_a_driver_that_is_being_stopped_asks_for_none(bench: Bench) -> None:
    bench.watch.committed()
    bench.ending = True
    bench.watch.turn()
    assert not bench.wanted


def test_a_standby_is_reported_when_it_starts_when_it_waits_and_when_it_is_gone_and_is_measured(bench: Bench) -> None:
    bench.watch.committed()
    folder = bench.standby(ready=False)
    bench.watch.turn()
    (folder / files.READY).touch()
    bench.watch.turn()
    bench.watch.turn()
    files.settle_standby(folder, files.PROMOTED)
    bench.watch.turn()
    assert [event.get("ready") for event in bench.link.events] == ["false", "true", None]
    assert [taken.name for taken in bench.link.measured] == [STANDBY_BYTES]
    assert bench.link.measured[0].value > 0


def test_a_standby_of_older_code_is_ended_and_another_asked_for(bench: Bench) -> None:
    bench.watch.committed()
    folder = bench.standby()
    bench.watch.turn()
    assert not bench.wanted
    bench.job.write_text("def build(spark, spec): return None\n")
    bench.watch.turn()
    assert (folder / files.DISMISSED).exists()
    bench.watch.turn()
    assert bench.wanted


def test_a_standby_whose_jvm_fell_silent_is_ended(bench: Bench) -> None:
    bench.watch.committed()
    folder = bench.standby()
    long_ago = time.time() - ANSWERED_WITHIN - 1
    os.utime(folder / files.READY, (long_ago, long_ago))
    bench.watch.turn()
    assert (folder / files.DISMISSED).exists()


def test_a_standby_that_never_comes_is_asked_for_ever_more_seldom() -> None:
    first = Asked(100.0, 1)
    assert Asked().may_ask(0.0)
    assert not first.may_ask(100.0 + PREPARED_WITHIN)
    assert first.may_ask(100.0 + PREPARED_WITHIN + 1)
    assert not Asked(100.0, 3).may_ask(100.0 + 4 * PREPARED_WITHIN)
    assert Asked(100.0, 50).may_ask(100.0 + LONGEST_PAUSE + 1)


REQUEST = StopRequest(
    driver_id="counts-1", requested_by="ann", reason="test", requested_at=0.0, batch_deadline=1.0, kill_deadline=2.0
)


@pytest.mark.parametrize(
    ("kind", "changes", "restart", "kept"),
    [
        (ExitKind.KILLED, {}, None, True),
        (ExitKind.FAILED, {}, None, True),
        (ExitKind.FAILED, {"curable": False}, None, False),
        (ExitKind.STOPPED, {}, True, True),
        (ExitKind.STOPPED, {}, False, False),
        (ExitKind.COMPLETED, {}, None, False),
        (ExitKind.FENCED, {}, None, False),
    ],
)
def test_the_standby_stays_only_if_a_supervisor_may_start_the_stream_again(
    bench: Bench, kind: ExitKind, changes: dict[str, Any], restart: bool | None, kept: bool
) -> None:
    folder = bench.standby()
    outcome = ExitRecord(kind=kind, ended_at=1.0, **changes)
    request = None if restart is None else replace(REQUEST, restart=restart)
    ending = None if request is None else Ending(Reason.STOP_REQUESTED, "test", request)
    assert restarts(outcome, ending) is kept
    bench.watch.close(outcome, ending)
    assert (folder / files.STANDBY).exists() is kept
