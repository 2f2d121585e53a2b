"""The drill that restores the newest savepoint of a stream, with real Spark: it passes, and each way in which a
savepoint may be wrong is found."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST, Savepoint
from streamwarden.services.replay.replay import replay
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec
from support.spark.drill_project import await_commits, drill_project, restore_newest_savepoint

pytestmark = [pytest.mark.spark, pytest.mark.full]

FEW = 12_000
ANN = Author(by="ann", reason="a test")
"""Batches 0 to 11 of the stream read two of 24 files each."""


def folder_of(workspace: Workspace, saved: Savepoint) -> Path:
    return Path(Savepoints.of(workspace.stream("flights")).place(saved.id).path)


def forge(folder: Path, path: str, content: bytes) -> None:
    """Replace a file of the savepoint, and its size and digest in the manifest, as if it had been saved so."""
    (folder / path).unlink()
    (folder / path).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    for file in manifest["files"]:
        if file["path"] == path:
            file |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_each_way_in_which_a_savepoint_is_wrong_is_found(tmp_path: Path) -> None:
    replay(tmp_path / "flights", rows_per_file=500, limit=FEW)
    source = "{{path: {inputs}, format: json, max_files_per_trigger: 2}}"
    few: dict[str, Any] = {"inputs": tmp_path / "flights", "min_records": 1000, "source": source}
    with drill_project(tmp_path, fault="controlled_restart", **few) as workspace:
        spec = workspace.stream("flights")
        none = restore_newest_savepoint(workspace)
        assert verdict_word(none) == "ABORTED"
        assert "streamwarden savepoint create flights" in none.reason
        workspace.fleet.start(spec, launched_by="test")
        await_commits(Path(spec.checkpoint), 12)
        workspace.fleet.stop("flights", requested_by="test", reason="it has read its input")
        saved, changes = with_changes(spec)
        folder, verdicts = folder_of(workspace, saved), {}
        whole = {path: (folder / path).read_bytes() for path in changes}
        assert_passed(restore_newest_savepoint(workspace), saved)
        for what, content in (("lost", None), ("cut off", whole[changes[0]][:-9])):
            (folder / changes[0]).unlink(missing_ok=True)
            if content is not None:
                (folder / changes[0]).write_bytes(content)
            verdicts[what] = restore_newest_savepoint(workspace)
        forge(folder, changes[0], whole[changes[0]])
        for path in changes:
            own = Path(spec.checkpoint) / Path(path).relative_to("checkpoint")
            forge(folder, path, own.with_name(f"{saved.batch}.changelog").read_bytes())
        verdicts["another version's"] = restore_newest_savepoint(workspace)
    assert {what: verdict_word(run) for what, run in verdicts.items()} == dict.fromkeys(verdicts, "DEVIATED"), {
        what: run.reason for what, run in verdicts.items()
    }


def with_changes(spec: StreamSpec) -> tuple[Savepoint, list[str]]:
    """A savepoint of an older batch whose state is loaded with a changelog of that batch, and these changelogs."""
    for batch in (5, 6, 7):
        saved = create(spec, batch, ANN)
        changes = [file.path for file in saved.files if file.path.endswith(f"/{batch + 1}.changelog")]
        if changes:
            return saved, changes
    raise AssertionError("each batch has a snapshot")


def assert_passed(run: DrillRun, saved: Savepoint) -> None:
    assert run.passed, run.reason
    assert run.facts["reconciliation"]["expected"] > 100
    assert run.facts["twin"]["first"] == saved.batch + 1
    assert run.facts["twin"]["last"] >= 11
