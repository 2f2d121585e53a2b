"""Old drills and killed audits lose their folders; all that runs, and recent drills, keep theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
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


def driver(store: Store, data: Path, stream: str, ended_at: float | None) -> Path:
    folder = data / "drivers" / stream / f"{stream}-20260101T000000-00000000"
    folder.mkdir(parents=True)
    record = DriverRecord(
        driver_id=folder.name,
        stream=stream,
        checkpoint=f"/{stream}",
        token=1,
        folder=str(folder),
        launched_by="test",
        launched_at=OLD - 60,
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
    assert sweep(store, tmp_path, NOW) == RemovedFolders(drills=1, fork_drivers=1, audits=1, looks=1, changes=2)
    assert evidence.exists()
    assert not killed.exists()
    assert [path.exists() for path in gone] == [False, False]
    assert [path.exists() for path in kept] == [True] * 5
    assert (tmp_path / "drills" / "nobody_knows").exists()
    assert store.journals.get("old") is not None


def test_a_data_folder_that_has_seen_no_drill_is_swept_too(store: Store, tmp_path: Path) -> None:
    assert sweep(store, tmp_path / "none", NOW) == RemovedFolders(
        drills=0, fork_drivers=0, audits=0, looks=0, changes=0
    )
