"""A driver's part in a pool of standbys: which it says that it uses, when it asks for one, what it ends and reports."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest

from streamwarden.adapters import processes
from streamwarden.health.signals.series import POOL_BYTES
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.pool import POOL
from streamwarden.lifecycle.supervision.standby import Fit, StandbyRecord, digest
from streamwarden.services.fleet.launching.deployed_code import shipped_code_of
from streamwarden.services.fleet.standbys.pool import pool_folder, use
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.standby.pool_watch import PoolWatch
from streamwarden.stream.spec import StreamSpec


class Link:
    """Keeps what the watch reports."""

    started = object()

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.measured: list[Measurement] = []

    def event(self, kind: str, **detail: str) -> None:
        assert kind == POOL
        self.seen.append(f"{detail['ready']} of {detail['size']}")

    def measure(self, measurements: Iterable[Measurement]) -> None:
        self.measured += measurements


class Bench:
    """The driver of `counts`, whose project wants two standbys, and a sleeping process in the place of each."""

    def __init__(self, root: Path) -> None:
        job = root / "job.py"
        job.write_text("def build(spark, spec): ...\n")
        self.spec = StreamSpec(name="counts", job=str(job), checkpoint="/cp")
        self.pool = pool_folder(root)
        self.folder = root / "drivers" / "counts" / "counts-1"
        self.folder.mkdir(parents=True)
        files.write_document(self.folder / files.POOL, {"count": 2, "drills": 0, "command": None})
        self.link = Link()
        self.watch = PoolWatch(self.spec, self.folder, cast(StoreLink, self.link), ending=lambda: False)
        self.child = subprocess.Popen(["sleep", "600"])

    def asked(self) -> bool:
        """Whether the watch has asked; the supervisor process takes the request."""
        wanted = self.folder / files.POOL_WANTED
        found = wanted.exists()
        wanted.unlink(missing_ok=True)
        return found

    def standby(self, name: str, *, code: str = "", users: tuple[str, ...] = ("counts",), ready: bool = True) -> Path:
        folder = self.pool / name
        (folder / files.USERS).mkdir(parents=True)
        process = processes.identity(self.child.pid)
        assert process is not None
        files.write_process(folder, process)
        fit = Fit(file="a", code=code or digest(shipped_code_of(self.spec)), environment="c", command="d")
        record = StandbyRecord(
            stream="counts", leader="", leader_process=None, prepared_at=time.time(), fit=fit, watched={}
        )
        files.write_document(folder / files.STANDBY, record.to_document())
        for user in users:
            use(folder, user)
        if ready:
            (folder / files.READY).touch()
        return folder

    def settled(self) -> None:
        """The first batch is committed, and what the driver before used is forgotten."""
        self.watch.committed()
        self.watch.turn()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.child.kill()
    made.child.wait()


def test_it_asks_after_the_first_batch_and_for_one_standby_after_another(bench: Bench) -> None:
    bench.watch.turn()
    assert not bench.asked()
    bench.settled()
    assert bench.asked()
    first = bench.standby("one", ready=False)
    bench.watch.turn()
    assert not bench.asked(), "the first one still starts"
    (first / files.READY).touch()
    bench.watch.turn()
    assert bench.asked()
    bench.standby("two")
    bench.watch.turn()
    assert not bench.asked()
    assert bench.link.seen == ["0 of 2", "1 of 2", "2 of 2"]


def test_a_standby_of_older_packages_is_ended_and_one_that_the_stream_does_not_use_is_not(bench: Bench) -> None:
    bench.settled()
    older, strange = bench.standby("older", code="old"), bench.standby("strange", code="old", users=("another",))
    bench.watch.turn()
    assert (older / files.DISMISSED).exists()
    assert not (strange / files.DISMISSED).exists()


def test_what_the_driver_before_used_is_found_out_again(bench: Bench) -> None:
    left = bench.standby("left")
    bench.settled()
    assert not (left / files.USERS / "counts").exists()
    assert bench.asked()


def test_its_share_of_the_memory_is_that_of_one_of_two_streams(bench: Bench) -> None:
    bench.settled()
    folder = bench.standby("shared", users=("counts", "another"))
    used = processes.resident_bytes(cast(processes.ProcessIdentity, files.read_process(folder)))
    assert used
    bench.watch._measure_at = 0.0
    bench.watch.turn()
    assert [(taken.name, taken.value) for taken in bench.link.measured[-1:]] == [(POOL_BYTES, used / 2)]


@pytest.mark.parametrize(("users", "ended"), [(("counts",), True), (("counts", "another"), False)])
def test_the_last_stream_to_leave_ends_the_standby(bench: Bench, users: tuple[str, ...], ended: bool) -> None:
    bench.settled()
    folder = bench.standby("one", users=users)
    bench.watch.close(ExitRecord(kind=ExitKind.STOPPED, ended_at=time.time()), None)
    assert (folder / files.DISMISSED).exists() is ended


def test_a_driver_that_is_restarted_leaves_its_standbys(bench: Bench) -> None:
    bench.settled()
    folder = bench.standby("one")
    bench.watch.close(ExitRecord(kind=ExitKind.KILLED, ended_at=time.time(), signal=9), None)
    assert not (folder / files.DISMISSED).exists()
    assert (folder / files.USERS / "counts").exists()
