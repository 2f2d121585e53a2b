"""Forks from savepoints, of checkpoints that real Sparks wrote.

That Spark continues from them rightly is shown by tests/spark/proofs/test_fork_run.py.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of

ANN = Author(by="ann", reason="")


def saved(unpack: Unpack, name: str, root: Path, batch: int | None = None) -> tuple[StreamSpec, Savepoint]:
    unpack(name, root)
    spec = replace(stream_of(root, files=17), data=str(root.parent / "data"))
    if "join" in name:
        spec = replace(spec, source=replace(spec.source, path=str(root), parts=("input", "other")))
    return spec, create(spec, batch, ANN)


@pytest.mark.parametrize("batch", [13, 7])
def test_a_fork_continues_after_the_savepoints_batch(unpack: Unpack, tmp_path: Path, batch: int) -> None:
    """Also after the stream's own checkpoint is gone, and its manifest goes on."""
    spec, savepoint = saved(unpack, "spark-4.3.0-changelog", tmp_path / "with space", batch)
    shutil.rmtree(spec.checkpoint)
    made = fork_from(spec, savepoint, tmp_path / "fork")
    report = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path))
    assert report.findings == ()
    assert (made.batch, report.position.committed, report.sink_newest) == (batch, batch, batch)
    assert made.unseen == 17 - min(batch + 1, 13)
    assert made.query_id != savepoint.query_id


@pytest.mark.parametrize("name", ["spark-4.3.0-processor", "spark-4.3.0-join-columns"])
def test_an_operator_of_the_fork_names_the_forks_own_schema(name: str, unpack: Unpack, tmp_path: Path) -> None:
    """The savepoint's names that of the original, as it has to after a restore."""
    spec, savepoint = saved(unpack, name, tmp_path / "origin")
    made = fork_from(spec, savepoint, tmp_path / "fork")
    metadata = next(Path(made.spec.checkpoint, "state/0/_metadata/v2").iterdir())
    (store, *_) = json.loads(metadata.read_text().split("\n")[1])["stateStoreInfo"]
    assert all(to_path(path).startswith(made.spec.checkpoint) for path in store["stateSchemaFilePaths"])
    assert read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path)).findings == ()


def test_a_savepoint_that_is_not_as_it_was_saved_is_not_forked(unpack: Unpack, tmp_path: Path) -> None:
    spec, savepoint = saved(unpack, "spark-4.3.0-changelog", tmp_path / "origin")
    Path(Savepoints.of(spec).place(savepoint.id).path, "checkpoint/commits/13").unlink()
    with pytest.raises(CheckpointError, match="is not as it was saved: checkpoint/commits/13 is no such file"):
        fork_from(spec, savepoint, tmp_path / "fork")
    assert not (tmp_path / "fork").exists()


def test_a_script_is_not_forked_from_a_savepoint(unpack: Unpack, tmp_path: Path) -> None:
    spec, savepoint = saved(unpack, "spark-4.3.0-changelog", tmp_path / "origin")
    Path(spec.job).write_text("spark.readStream\n")
    with pytest.raises(CheckpointError, match="is a script"):
        fork_from(spec, savepoint, tmp_path / "fork")
