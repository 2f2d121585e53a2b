"""Old drills and killed audits lose their folders, drivers of a dead host their secrets; all that runs, and recent
drills, keep theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.surgery.assignment import Assignment
from streamwarden.lifecycle.surgery.rewriting import Keys
from streamwarden.services.housekeeping import KEEP, RemovedFolders, sweep
from streamwarden.services.state.assigning import Setting
from streamwarden.services.state.deleting import Deletion
from streamwarden.services.state.looks import Looks, Wanted
from streamwarden.services.state.requested.assignments import Assignments
from streamwarden.services.state.requested.deletions import Deletions

NOW = 1_800_000_000.0
OLD, RECENT = NOW - KEEP - 1, NOW - KEEP + 1


def drill(store: Store, data: Path, name: str, ended_at: float | None) -> Path:
    status = DrillStatus.RUNNING if ended_at is None else DrillStatus.COMPLETED
    run = DrillRun(run_id=name, drill="kill_driver", stream="s", started_at=OLD - 60, status=status)
    store.journals.save(replace(run, ended_at=ended_at))
    folder = data / "drills" / name / "fork"
    folder.mkdir(parents=True)
    return folder.parent


def driver(store: Store, data: Path, stream: str, ended_at: float | None, number: int = 0) -> Path:
    """The folder of the stream's drivers, with a driver of a host that is not this one."""
    folder = data / "drivers" / stream / f"{stream}-20260101T000000-{number:08}"
    (folder / files.TEMPORARY).mkdir(parents=True)
    files.write_spec(folder, {"spark": {"conf": {"spark.ssl.keyPassword": "hunter2-hunter2"}}})
    files.write_text(folder / files.PROPERTIES, "spark.ssl.keyPassword=hunter2-hunter2\n")
    files.write_process(folder, ProcessIdentity(host="dead/boot/1", pid=1, started_at=1))
    record = DriverRecord(
        driver_id=folder.name,
        stream=stream,
        checkpoint=f"/{stream}",
        token=1,
        folder=str(folder),
        launched_by="test",
        launched_at=OLD - 60 + number,
    )
    store.drivers.launched(record)
    if ended_at is not None:
        store.drivers.exited(record.driver_id, ExitRecord(kind=ExitKind.COMPLETED, ended_at=ended_at))
    return folder.parent


def test_what_ended_long_ago_goes_and_all_else_stays(store: Store, tmp_path: Path) -> None:
    gone = [drill(store, tmp_path, "old", OLD), driver(store, tmp_path, "s__fork_1", OLD)]
    kept = [
        drill(store, tmp_path, "recent", RECENT),
        drill(store, tmp_path, "running", None),
        driver(store, tmp_path, "s__fork_2", RECENT),
        driver(store, tmp_path, "s__fork_3", None),
        driver(store, tmp_path, "s", OLD),
    ]
    (tmp_path / "drills" / "nobody_knows").mkdir()
    evidence = tmp_path / "audits" / "s" / "20260101T000000-batch-3.json"
    evidence.parent.mkdir(parents=True)
    evidence.write_text("{}")
    killed = tmp_path / "audits" / ".work" / "s-abc"
    (killed / "checkpoint").mkdir(parents=True)
    Looks(tmp_path, "s").ask("ann", Wanted(), NOW)
    Deletions(tmp_path, "s").ask("ann", Deletion(keys=Keys(fields=("4711",))), NOW)
    Assignments(tmp_path, "s").ask("ann", Setting(assignment=Assignment(keys=("4711",), value=("9",))), NOW)
    assert sweep(store, tmp_path, NOW) == RemovedFolders(
        drills=1, fork_drivers=1, drivers=0, audits=1, looks=1, changes=2
    )
    assert evidence.exists()
    assert not killed.exists()
    assert [path.exists() for path in gone] == [False, False]
    assert [path.exists() for path in kept] == [True] * 5
    assert (tmp_path / "drills" / "nobody_knows").exists()
    assert store.journals.get("old") is not None


def test_a_data_folder_that_has_seen_no_drill_is_swept_too(store: Store, tmp_path: Path) -> None:
    assert sweep(store, tmp_path / "none", NOW) == RemovedFolders(
        drills=0, fork_drivers=0, drivers=0, audits=0, looks=0, changes=0
    )


def test_drivers_of_a_dead_host_lose_their_secrets_and_the_old_ones_their_folders(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody saw their processes end: the store knows that their leases were taken over. The newest one may be cut off
    from the store and run: it keeps its temporary files. Of the one without a recorded end all stays."""
    monkeypatch.setattr("streamwarden.services.fleet.exits.cleaning.KEPT_FOLDERS", 2)
    for number, ended_at in enumerate((OLD, None, RECENT, RECENT, RECENT)):
        root = driver(store, tmp_path, "s", ended_at, number)
    assert sweep(store, tmp_path, NOW).drivers == 1
    kept = sorted(root.iterdir())
    assert [folder.name[-1] for folder in kept] == ["1", "2", "3", "4"]
    assert [_has_secret(folder) for folder in kept] == [True, False, False, False]
    assert [(folder / files.TEMPORARY).exists() for folder in kept] == [True, False, False, True]


def _has_secret(folder: Path) -> bool:
    return any("hunter2" in path.read_text() for path in folder.iterdir() if path.is_file())
