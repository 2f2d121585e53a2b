"""How a driver in cluster mode ended, where no supervisor process saw it: its cluster says so, or a kill of ours."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.services.fleet.exits.log_tail import end_of_log
from streamwarden.services.fleet.fleet import Fleet

GONE = ProcessIdentity(host=this_host(), pid=2**22 + 7, started_at=1)
"""No process has such a number."""


def driver(store: Store, root: Path, process: ProcessIdentity | None, mode: str = "cluster") -> DriverRecord:
    """A driver whose folder says that it was submitted to a cluster."""
    folder = root / "var" / "drivers" / "counts" / "counts-1"
    folder.mkdir(parents=True)
    files.write_spec(folder, {"name": "counts", "spark": {"master": "yarn", "deploy_mode": mode}})
    record = DriverRecord(
        driver_id="counts-1",
        stream="counts",
        checkpoint=str(root / "checkpoint"),
        token=1,
        folder=str(folder),
        launched_by="test",
        launched_at=1_000_000.0,
        process=process,
    )
    store.drivers.launched(record)
    return record


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(store_url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("process", "said", "cause"),
    [(GONE, "FAILED: exit code 137", "container_lost"), (None, "FAILED: no such queue", None)],
)
def test_what_the_cluster_says_has_a_cause_of_its_own_once_the_driver_ran(
    process: ProcessIdentity | None, said: str, cause: str | None, store: Store, tmp_path: Path
) -> None:
    record = driver(store, tmp_path, process)
    end = Fleet(store, tmp_path / "var").conclude(record.driver_id, said)
    assert end is not None
    assert (end.kind, end.cause, end.curable, end.message) == (ExitKind.FAILED, cause, True, said)


@pytest.mark.parametrize(("mode", "cause"), [("cluster", "container_lost"), ("client", None)])
def test_a_driver_that_vanished_was_lost_with_its_container(
    mode: str, cause: str | None, store: Store, tmp_path: Path
) -> None:
    """One in client mode has a supervisor process, which was lost with it."""
    record = driver(store, tmp_path, GONE, mode)
    end = Fleet(store, tmp_path / "var").observe(record.driver_id).exit
    assert end is not None
    assert end.cause == cause


def test_the_word_of_the_driver_itself_wins(store: Store, tmp_path: Path) -> None:
    record = driver(store, tmp_path, GONE)
    own = ExitRecord(kind=ExitKind.STOPPED, ended_at=1_000_500.0, message="stopped by ann")
    files.write_outcome(Path(record.folder), own)
    end = Fleet(store, tmp_path / "var").conclude(record.driver_id, "FAILED")
    assert end is not None
    assert (end.kind, end.message) == (own.kind, own.message)


def test_a_kill_records_the_signal_that_nobody_else_saw(store: Store, tmp_path: Path) -> None:
    """What the cluster says afterwards adds nothing. A second kill finds no process."""
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        record, fleet = driver(store, tmp_path, processes.identity(child.pid)), Fleet(store, tmp_path / "var")
        assert fleet.kill(record.driver_id)
        end = fleet.conclude(record.driver_id, "FAILED: exit code 137")
        assert end is not None
        assert (end.kind, end.signal) == (ExitKind.KILLED, 9)
        assert not fleet.kill(record.driver_id)
    finally:
        child.kill()
        child.wait()


def test_a_driver_on_a_host_that_cannot_be_seen_is_not_killed_without_its_manager(store: Store, tmp_path: Path) -> None:
    """In client mode nothing but its own host can kill it."""
    elsewhere = ProcessIdentity(host="node1/boot/1", pid=7, started_at=1)
    record = driver(store, tmp_path, elsewhere, "client")
    assert not Fleet(store, tmp_path / "var").kill(record.driver_id)
    assert not (Path(record.folder) / files.EXIT).exists()


def test_a_log_that_is_in_the_cluster_is_looked_for_there(store: Store, tmp_path: Path) -> None:
    record = driver(store, tmp_path, GONE)
    with pytest.raises(ProcessError, match="yarn logs -applicationId") as raised:
        end_of_log(record, 10)
    assert raised.value.where == str(Path(record.folder) / files.LOG)
