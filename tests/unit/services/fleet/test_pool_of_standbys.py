"""The pool of a host, with a sleeping process in the place of each standby: who takes, keeps and ends one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.lifecycle.supervision.pool import UNUSED_AFTER
from streamwarden.lifecycle.supervision.standby import ORPHANED_AFTER
from streamwarden.services.fleet.launching.launch import driver_environment
from streamwarden.services.fleet.standbys.pool import (
    WORK,
    PoolStart,
    hand_over,
    has_living,
    leave_pool,
    pool_folder,
    sweep_pool,
    take_from_pool,
    use,
    users,
)
from streamwarden.services.fleet.standbys.pool_start import of_forks, pool_document, pool_start
from streamwarden.services.fleet.standbys.waiting import Choice, waiting
from streamwarden.services.forks.spec import run_name
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.streams.standbys import FIT, LEASE, Standbys

START = PoolStart(fit=FIT, settings={"spark.sql.shuffle.partitions": "8"}, work=None, size=2, only_first=False)


class Pool(Standbys):
    """The pool of a data folder."""

    def __init__(self, data: Path) -> None:
        super().__init__(pool_folder(data))
        self.data = data

    def join(self, name: str, *streams: str, ready: bool = True, alone: bool = False) -> Path:
        """Args: alone: it is for forks, and works in a folder of its own."""
        work = self.drivers / name / WORK
        if alone:
            work.mkdir(parents=True)
        folder = self.add(name, ready=ready, work=work if alone else None)
        (folder / files.USERS).mkdir()
        for stream in streams:
            use(folder, stream)
        return folder

    def take(self, **changes: Any) -> Choice:
        return take_from_pool(self.data, replace(START, **changes), time.time())


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(tmp_path)
    yield made
    made.close()


def test_each_launch_takes_another_one_and_the_last_is_told_that_none_waits(pool: Pool) -> None:
    both = {pool.join("pool-1", "counts"), pool.join("pool-2", "counts")}
    taken = [pool.take() for _ in range(3)]
    assert {choice.folder for choice in taken[:2]} == both
    assert all(choice.pooled for choice in taken[:2])
    assert taken[2].folder is None
    assert taken[2].because == "no standby of the pool waits"


def test_one_of_another_fit_goes_on_waiting_for_its_own_streams(pool: Pool) -> None:
    folder = pool.join("pool-1", "counts")
    choice = pool.take(fit=replace(FIT, environment="another"))
    assert choice.because == "the standbys of the pool have another environment"
    assert [standby.folder for standby in waiting(pool.drivers)] == [folder]


def test_one_that_still_starts_is_not_taken(pool: Pool) -> None:
    pool.join("pool-1", "counts", ready=False)
    assert pool.take().because.endswith("not ready yet, or did not answer")


def test_a_promotion_gives_it_the_folder_of_a_driver_with_its_log_and_processes(pool: Pool, tmp_path: Path) -> None:
    home, folder = pool.join("pool-1", "counts"), tmp_path / "drivers" / "counts" / "counts-1"
    folder.mkdir(parents=True)
    (home / files.LOG).write_text("warm\n")
    assert files.driver_of(home) == home
    hand_over(home, folder, LEASE, START)
    assert files.driver_of(home) == folder
    assert files.read_lease(folder) == LEASE
    assert files.read_process(folder) == files.read_process(home)
    with (home / files.LOG).open("a") as log:
        log.write("promoted\n")
    assert (folder / files.LOG).read_text() == "warm\npromoted\n"


def test_it_ends_with_the_last_stream_that_may_use_it(pool: Pool) -> None:
    folder = pool.join("pool-1", "counts", "sums")
    leave_pool(pool.drivers, "counts")
    assert users(folder, time.time()) == ["sums"]
    leave_pool(pool.drivers, "another")
    assert waiting(pool.drivers) != []
    leave_pool(pool.drivers, "sums")
    assert (folder / files.DISMISSED).exists()


def test_a_stream_that_crashed_keeps_it_until_its_restart_would_be_late(pool: Pool) -> None:
    folder = pool.join("pool-1", "counts", "sums")
    ago = time.time() - UNUSED_AFTER - 1
    os.utime(folder / files.USERS / "sums", (ago, ago))
    assert users(folder, time.time()) == ["counts"]
    leave_pool(pool.drivers, "counts")
    assert not (folder / files.DISMISSED).exists()
    assert users(folder, time.time() + ORPHANED_AFTER, ORPHANED_AFTER) == []


def test_what_a_restarted_host_left_is_removed_and_what_lives_stays(pool: Pool) -> None:
    gone, living = pool.join("pool-1", "counts"), pool.join("pool-2", "counts")
    pool.children[0].kill()
    pool.children[0].wait()
    sweep_pool(pool.drivers)
    assert not gone.exists()
    assert living.exists()


def test_the_processes_of_a_standby_for_forks_go_on_in_the_working_folder_of_the_fork(
    pool: Pool, tmp_path: Path
) -> None:
    work, folder = tmp_path / "drills" / "run" / "work", tmp_path / "drivers" / "fork" / "fork-1"
    (work / "input").mkdir(parents=True)
    (work / "marker").write_text("seen")
    folder.mkdir(parents=True)
    stream, home = pool.join("pool-1", "counts"), pool.join("pool-2", "counts", alone=True)
    (home / WORK / "warehouse").mkdir()
    taken = pool.take(work=work)
    assert taken.folder == home
    assert pool.take().folder == stream
    (home / files.LOG).touch()
    hand_over(home, folder, LEASE, replace(START, work=work))
    process = pool.children[1]
    assert Path(f"/proc/{process.pid}/cwd").readlink() == work
    assert sorted(path.name for path in work.iterdir()) == ["input", "marker"]
    (home / WORK / "new").touch()
    assert (work / "new").exists(), "the path that the JVM knows leads there"


def test_a_paused_driver_of_a_fork_still_works_in_its_folder_and_a_dead_one_does_not(pool: Pool) -> None:
    pool.join("pool-1", "counts")
    assert has_living(pool.drivers)
    os.kill(pool.children[0].pid, signal.SIGSTOP)
    assert has_living(pool.drivers)
    pool.children[0].kill()
    pool.children[0].wait()
    assert not has_living(pool.drivers)


class TestStart:
    """How a launch is compared with the pool."""

    def start(self, project: Path, **changes: object) -> PoolStart | None:
        spec = StreamSpec(
            name="counts", job=str(project / "job.py"), checkpoint=str(project / "cp"), project=str(project)
        )
        spec = replace(spec, **changes)  # type: ignore[arg-type]
        return pool_start(spec, project, driver_environment(spec, project, "sqlite://", None, own_spark=True), None)

    def test_two_streams_of_a_project_come_to_the_same_digest(self, tmp_path: Path) -> None:
        self.count(tmp_path, "count: 2\n")
        one, other = self.start(tmp_path), self.start(tmp_path, name="sums", checkpoint="/elsewhere")
        assert one is not None
        assert other is not None
        assert one.fit == other.fit
        assert one.size == 2

    def test_a_project_without_a_count_has_no_pool(self, tmp_path: Path) -> None:
        assert self.start(tmp_path) is None
        self.count(tmp_path, "count: 0\n")
        assert self.start(tmp_path) is None

    def test_a_fork_finds_the_standbys_that_were_prepared_for_the_forks_of_its_stream(self, tmp_path: Path) -> None:
        self.count(tmp_path, "count: 0\ndrills: 1\n")
        run, home = tmp_path / "drills" / "run" / "work", tmp_path / "drivers" / ".pool" / "pool-1" / "work"
        for work in (run, home):
            work.mkdir(parents=True)
        spark = SparkSpec(conf={RETAIN: "100000"})
        fork = self.start(tmp_path, name=run_name("counts", "run"), data=str(run), spark=spark)
        declared = StreamSpec(name="counts", job=str(tmp_path / "job.py"), checkpoint="/cp", project=str(tmp_path))
        prepared = of_forks(declared, home)
        standby = pool_start(
            prepared, tmp_path, driver_environment(prepared, tmp_path, "sqlite://", None, own_spark=True), None
        )
        assert fork is not None
        assert standby is not None
        assert fork.fit == standby.fit
        assert fork.only_first, "the stream itself would have no pool: its drill measures a cold restart"
        assert pool_document(declared, None) == {"count": 0, "drills": 1, "command": None}
        assert pool_document(prepared, None) is None

    def test_a_stream_with_executors_has_none(self, tmp_path: Path) -> None:
        self.count(tmp_path, "count: 2\n")
        assert self.start(tmp_path, spark=SparkSpec(master="yarn")) is None

    @staticmethod
    def count(project: Path, text: str) -> None:
        (project / "config").mkdir()
        (project / "config" / "standbys.yaml").write_text(text)
