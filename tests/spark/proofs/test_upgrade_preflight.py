"""New versions of a job are tried on forks of a checkpoint that a real Spark wrote. The stream is not touched."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from streamwarden.health.thresholds import DEFAULTS
from streamwarden.lifecycle.upgrades.changes import What
from streamwarden.lifecycle.upgrades.preflight import Preflight, obstacles
from streamwarden.services.upgrades.preflight import preflight
from streamwarden.services.upgrades.proposal import propose
from support.checkpoints.recorded import Archives, Unpack
from support.streams.upgrades import STREAM, lay_out, version

pytestmark = pytest.mark.spark


@pytest.fixture
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    return Archives(tmp_path_factory.mktemp("archives")).unpack


def digest(root: Path) -> str:
    """Names and contents of everything below, but for the bytecode that Python keeps of the jobs."""
    sha = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if "__pycache__" not in path.parts):
        sha.update(f"{path}\0".encode() + (path.read_bytes() if path.is_file() else b""))
    return sha.hexdigest()


def tried(project: Path, unpack: Unpack, old: str = "", new: str = "", batches: int = 2) -> Preflight:
    """The preflight of the job with `old` replaced by `new`; the stream is as it was before."""
    spec = lay_out(project, unpack)
    proposal = propose(spec, version(project, "changed", old, new), None, DEFAULTS)
    before = digest(project)
    found = preflight(proposal, project.parent / "forks", batches=batches)
    assert digest(project) == before
    left = {path.name for path in (project.parent / "forks").iterdir()}
    assert left - {"old.log"} == {"new.log", "outside.jsonl", "work.json"}
    assert found.outside == ()
    return found


def test_a_version_that_spark_refuses_is_refused_with_the_fields_that_changed(tmp_path: Path, unpack: Unpack) -> None:
    found = tried(tmp_path / "project", unpack, 'F.sum("id").alias("total")', 'F.sum(F.col("id") / 2).alias("total")')
    assert found.refused is not None
    assert found.refused.error_class == "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    assert found.refused.batch == 12
    (change,) = found.state
    assert (change.what, change.before, change.after) == (What.FIELD_TYPE, "sum long", "sum double")
    (obstacle,) = obstacles(found, accepted=True)
    assert "cast after the aggregation" in obstacle.next_step


@pytest.mark.full  # each of the two versions has a Spark of its own
def test_a_version_that_changes_nothing_is_shown_to_change_nothing(tmp_path: Path, unpack: Unpack) -> None:
    found = tried(tmp_path / "project", unpack, "windows = at.", "windows = at.where('true').")
    assert obstacles(found, accepted=False) == ()
    assert found.seen
    assert found.operators == ("stateStoreSave",)
    assert found.output is not None
    assert found.output.old == found.output.new > 0
    assert not found.output.differs


@pytest.mark.full  # as above
def test_what_spark_lets_pass_is_named_all_the_same(tmp_path: Path, unpack: Unpack) -> None:
    """Negative control: a maximum that goes on from a sum, a watermark that waits longer, partitions that stay."""
    spec = lay_out(tmp_path / "project", unpack)
    other = version(tmp_path / "project", "other", 'F.sum("id")', 'F.max("id")')
    other.write_text(other.read_text().replace('withWatermark("at", "60', 'withWatermark("at", "90'))
    file = tmp_path / "new.yaml"
    file.write_text(STREAM.replace("minutes.py", "other.py").replace("shuffle_partitions: 2", "shuffle_partitions: 8"))
    found = preflight(propose(spec, None, file, DEFAULTS), tmp_path / "forks", batches=3)
    assert found.refused is None
    assert [(change.before, change.after, change.silent) for change in found.state] == [("sum long", "max long", True)]
    assert [(setting.kept, setting.asked) for setting in found.settings] == [("2", "8")]
    assert found.watermarks
    assert found.output is not None
    assert not found.output.differs, "the windows that these batches close have no row that the new function saw"
    assert len(obstacles(found, accepted=False)) == 3
    assert obstacles(found, accepted=True) == ()
