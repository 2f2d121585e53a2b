"""The pool of a host, with a sleeping process in the place of each standby: who takes, keeps and ends one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.pool import UNUSED_AFTER
from streamwarden.lifecycle.supervision.standby import ORPHANED_AFTER
from streamwarden.services.fleet.launching.launch import driver_environment
from streamwarden.services.fleet.standbys.pool import (
    PoolStart,
    hand_over,
    leave_pool,
    pool_folder,
    sweep_pool,
    take_from_pool,
    use,
    users,
)
from streamwarden.services.fleet.standbys.pool_start import pool_start
from streamwarden.services.fleet.standbys.waiting import waiting
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.streams.standbys import FIT, LEASE, Standbys


class Pool(Standbys):
    """The pool of a data folder."""

    def __init__(self, data: Path) -> None:
        super().__init__(pool_folder(data))
        self.data = data

    def join(self, name: str, *streams: str, ready: bool = True) -> Path:
        folder = self.add(name, ready=ready)
        (folder / files.USERS).mkdir()
        for stream in streams:
            use(folder, stream)
        return folder


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    made = Pool(tmp_path)
    yield made
    made.close()


def test_each_launch_takes_another_one_and_the_last_is_told_that_none_waits(pool: Pool) -> None:
    both = {pool.join("pool-1", "counts"), pool.join("pool-2", "counts")}
    now = time.time()
    taken = [take_from_pool(pool.data, FIT, now) for _ in range(3)]
    assert {choice.folder for choice in taken[:2]} == both
    assert all(choice.pooled for choice in taken[:2])
    assert taken[2].folder is None
    assert taken[2].because == "no standby of the pool waits"


def test_one_of_another_fit_goes_on_waiting_for_its_own_streams(pool: Pool) -> None:
    folder = pool.join("pool-1", "counts")
    choice = take_from_pool(pool.data, replace(FIT, environment="another"), time.time())
    assert choice.because == "the standbys of the pool have another environment"
    assert [standby.folder for standby in waiting(pool.drivers)] == [folder]


def test_one_that_still_starts_is_not_taken(pool: Pool) -> None:
    pool.join("pool-1", "counts", ready=False)
    assert take_from_pool(pool.data, FIT, time.time()).because.endswith("not ready yet, or did not answer")


def test_a_promotion_gives_it_the_folder_of_a_driver_with_its_log_and_processes(pool: Pool, tmp_path: Path) -> None:
    home, folder = pool.join("pool-1", "counts"), tmp_path / "drivers" / "counts" / "counts-1"
    folder.mkdir(parents=True)
    (home / files.LOG).write_text("warm\n")
    assert files.driver_of(home) == home
    hand_over(home, folder, LEASE, {"spark.sql.shuffle.partitions": "8"})
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
        assert PoolStart.from_document(one.to_document()) == one

    def test_a_project_without_a_count_has_no_pool(self, tmp_path: Path) -> None:
        assert self.start(tmp_path) is None
        self.count(tmp_path, "count: 0\n")
        assert self.start(tmp_path) is None

    def test_a_stream_with_executors_has_none(self, tmp_path: Path) -> None:
        self.count(tmp_path, "count: 2\n")
        assert self.start(tmp_path, spark=SparkSpec(master="yarn")) is None

    @staticmethod
    def count(project: Path, text: str) -> None:
        (project / "config").mkdir()
        (project / "config" / "standbys.yaml").write_text(text)
