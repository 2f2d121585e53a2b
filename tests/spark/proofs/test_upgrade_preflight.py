"""New versions of a job are tried on forks of a checkpoint that a real Spark wrote. The stream is not touched.

One of them runs beside the old one: the newest batches of the checkpoint come back while it follows, and it takes over.
tests/spark/drivers has streams that run meanwhile and go on.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.lifecycle.upgrades.changes import What
from streamwarden.lifecycle.upgrades.journal import Step, Upgrade
from streamwarden.lifecycle.upgrades.preflight import Preflight, obstacles
from streamwarden.services.exchanges.exchanging import exchange
from streamwarden.services.upgrades.beside import beside, clear
from streamwarden.services.upgrades.preflight import preflight
from streamwarden.services.upgrades.proposal import propose
from streamwarden.services.upgrades.taking_over import TakeOver, fork_of
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


def test_a_version_beside_executes_the_batches_that_come_and_takes_over(
    tmp_path: Path, unpack: Unpack, store_url: str
) -> None:
    spec, folder = lay_out(tmp_path / "project", unpack), tmp_path / "upgrade"
    new = version(tmp_path / "project", "other", 'F.count("*").alias("n")', 'F.sum(F.lit(2)).alias("n")')
    later = [Path(spec.checkpoint, log, str(batch)) for batch in range(10, 14) for log in ("offsets", "commits")]
    before = states_and_logs(spec.checkpoint)
    for path in later:
        path.rename(path.with_name(f".{path.name}"))
    proposal = propose(spec, new, None, DEFAULTS)
    with beside(proposal, folder, 0.0, lambda text: None, left_out=(), accepted=True) as green:
        for path in later:
            path.with_name(f".{path.name}").rename(path)
        green.follow(0)
        assert green.finish(13) == ""
    found = green.found
    assert found.old > found.changed > 0, "the windows that were complete before it are still those of the old one"
    assert found.key == ("start", "key")
    upgrade = Upgrade(
        id="u", stream=spec.name, step=Step.SWAPPED, by="ann", reason="", before="", after="", watch=0, batch=13
    )
    with Store(store_url) as store:
        store.migrate()
        exchange(store, spec, partial(TakeOver, spec, upgrade, fork_of(folder)), None)
    now, of_fork = states_and_logs(spec.checkpoint), states_and_logs(green.twin.spec.checkpoint)
    logs = [name for name in now if not name.startswith(("state/", "commits/"))]
    assert {"metadata", "offsets/13", "sources/0/12"} <= set(logs)
    assert [name for name in logs if now[name] != before[name]] == []
    states = [name for name in now if name.startswith("state/") and "/_metadata/" not in name]
    assert [name for name in states if now[name] != of_fork[name]] == []
    assert [name for name in states if now[name] != before.get(name)] != []
    clear(spec, folder)
    assert {path.name for path in folder.iterdir()} == {"beside.log", "beside.json"}


def states_and_logs(checkpoint: str) -> dict[str, bytes]:
    files = (path for path in Path(checkpoint).rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(checkpoint)): path.read_bytes() for path in files}


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
