"""What is recorded of a driver that has ended: whether it had committed a batch decides how soon it is restarted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from streamwarden.adapters.processes import this_host
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ProcessIdentity
from streamwarden.lifecycle.supervision.restart import Restart, decide
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spec import RestartPolicy

LAUNCHED, ENDED = 1_000_000.0, 1_000_600.0


@pytest.mark.parametrize(
    ("commits", "committed", "wait"),
    [
        ([], False, 30),
        ([-5.0], False, 30),  # the last batch of the driver before
        ([-5.0, 9.0], True, 0),
    ],
)
def test_a_batch_that_was_committed_since_the_launch_is_the_drivers_own(
    commits: list[float], committed: bool, wait: float, store_url: str, tmp_path: Path
) -> None:
    """Only then the first failure is followed by a restart at once."""
    for batch, after_launch in enumerate(commits):
        _log(tmp_path / "checkpoint", batch, LAUNCHED + after_launch)
    with Store(store_url) as store:
        exit = Fleet(store, tmp_path / "var").observe(_dead_driver(store, tmp_path)).exit
        assert exit is not None
        assert exit.committed is committed
        (record,) = store.drivers.history("counts", 0)
    assert record.exit == exit, "the store gives back what was recorded"
    decision = decide([record], RestartPolicy(), now=ENDED)
    assert isinstance(decision, Restart)
    assert decision.after == wait


def test_unreadable_checkpoint_gives_no_facts(store_url: str, tmp_path: Path) -> None:
    """Neither a commit nor a cut batch is claimed."""
    commits = tmp_path / "checkpoint" / "commits"
    commits.parent.mkdir()
    commits.symlink_to(commits)
    with Store(store_url) as store:
        exit = Fleet(store, tmp_path / "var").observe(_dead_driver(store, tmp_path)).exit
    assert exit is not None
    assert (exit.committed, exit.cut_batch) == (None, None)


@pytest.mark.parametrize(("at", "committed"), [(LAUNCHED - 5, None), (LAUNCHED + 5, True)])
def test_the_reports_tell_of_a_commit_where_the_checkpoint_cannot_be_read(
    at: float, committed: bool | None, store_url: str, tmp_path: Path
) -> None:
    """The folder with its spec is on a host that is lost, and an object store cannot be opened without it."""
    with Store(store_url) as store:
        driver_id = _dead_driver(store, tmp_path, host="lost/boot/1", checkpoint="s3a://lake/counts")
        shutil.rmtree(tmp_path / "var/drivers")
        store.batches.upsert_logged("counts", "q", 3, at - 1, at)
        exit = Fleet(store, tmp_path / "var").observe(driver_id).exit
    assert exit is not None
    assert exit.committed is committed


def test_a_driver_that_was_killed_after_a_stop_was_requested_did_not_fail(store_url: str, tmp_path: Path) -> None:
    """The same end without a request is a failure."""
    for requested in (False, True):
        with Store(store_url) as store:
            driver = _dead_driver(store, tmp_path / str(requested), number=1 + requested)
            if requested:
                times = {"requested_at": ENDED - 60, "batch_deadline": ENDED - 30, "kill_deadline": ENDED}
                request = StopRequest(driver_id=driver, requested_by="ann", reason="new schema", **times)
                files.write_stop(Path(store.drivers.history("counts", 0)[-1].folder), request)
            exit = Fleet(store, tmp_path / "var").observe(driver).exit
        assert exit is not None
        assert (exit.on_request, exit.is_failure) == (requested, not requested)


def test_the_secrets_of_a_driver_whose_host_is_lost_go_with_its_recorded_end(store_url: str, tmp_path: Path) -> None:
    """Its temporary files stay: it may be cut off from the store alone, and run on."""
    with Store(store_url) as store:
        driver_id = _dead_driver(store, tmp_path, host="lost/boot/1")
        folder = tmp_path / "var/drivers/counts" / driver_id
        (folder / files.EXIT).unlink()
        (folder / files.TEMPORARY).mkdir()
        files.write_spec(folder, {"spark": {"conf": {"spark.ssl.keyPassword": "hunter2-hunter2"}}})
        assert Fleet(store, tmp_path / "var").observe(driver_id).exit is not None  # it holds no lease
    assert not (folder / files.SECRETS).exists()
    assert (folder / files.TEMPORARY).exists()


def _log(checkpoint: Path, batch: int, at: float) -> None:
    for log in ("offsets", "commits"):
        path = checkpoint / log / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v1\n{}")
        os.utime(path, (at, at))


def _dead_driver(
    store: Store, root: Path, number: int = 1, host: str | None = None, checkpoint: str | None = None
) -> str:
    """A driver of this host that was launched at LAUNCHED and killed at ENDED."""
    driver_id = f"counts-20260101T000000-{number:08}"
    folder = root / "var/drivers/counts" / driver_id
    folder.mkdir(parents=True)
    files.write_document(folder / files.EXIT, {"exit_code": None, "signal": 9, "ended_at": ENDED})
    gone = ProcessIdentity(host=host or this_host(), pid=1, started_at=-1)
    store.drivers.launched(
        DriverRecord(
            driver_id=driver_id,
            stream="counts",
            checkpoint=checkpoint or str(root / "checkpoint"),
            token=1,
            folder=str(folder),
            launched_by="test",
            launched_at=LAUNCHED,
            process=gone,
            started_at=LAUNCHED + 5,
        )
    )
    return driver_id
