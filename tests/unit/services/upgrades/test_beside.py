"""A new version beside the old one is compared with it, and waited for.

Its process is simulated. Its checkpoint and its output are of a fork of what a real Spark wrote; tests/spark has
real versions.
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.services.forks.forks import fork
from streamwarden.services.twins.making import FORK, PROGRAM
from streamwarden.services.twins.running import PLAN, UPTO, Execution, Twin, Unexecuted
from streamwarden.services.upgrades import beside as besides
from streamwarden.services.upgrades.beside import Beside, clear
from streamwarden.services.upgrades.journals import BESIDE
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, rewrite
from support.streams.upgrades import lay_out

BATCH = 13
DONE = Execution(seconds={}, records=0, plan="")


@pytest.fixture
def spec(tmp_path: Path, unpack: Unpack) -> StreamSpec:
    return lay_out(tmp_path / "project", unpack)


@pytest.fixture
def version(spec: StreamSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    """It stands where the stream does, and the batches 11 to 13 were not compared yet."""
    monkeypatch.setattr(besides, "_POLL", 0.0)
    into = tmp_path / "upgrade" / BESIDE / FORK
    made = fork(spec, into=into)
    program = into / PROGRAM
    program.mkdir()
    (program / PLAN).write_text("")
    twin = Twin(spec=made.spec, places=Places.under(str(into)), run=spec, folder=program)
    running: Future[Execution | Unexecuted] = Future()
    return Beside(spec, twin, 10, (), False, running, tmp_path / "upgrade" / f"{BESIDE}.json", lambda text: None)


def other_rows(spec: StreamSpec) -> None:
    """One of the rows that the fork's newest batch wrote is another one."""
    manifest = Path(str(spec.sink.path), "_spark_metadata")
    entries = (manifest / str(batch) for batch in range(BATCH, 10, -1))
    entry = next(path for path in entries if len(path.read_text().splitlines()) > 1)
    lines = entry.read_text().splitlines()
    named = json.loads(lines[-1])  # the first of the files has no row
    path = Path(named["path"].removeprefix("file://"))
    table = pq.read_table(path)
    index = table.schema.get_field_index("n")
    changed = table.set_column(index, table.schema.field(index), pa.array([99] * table.num_rows, pa.int64()))
    path.unlink()
    pq.write_table(changed, path)
    rewrite(entry, "\n".join([*lines[:-1], json.dumps(named | {"size": path.stat().st_size})]).encode())


def test_the_rows_of_both_are_compared(version: Beside) -> None:
    found = version.follow(0)
    assert (found.old, found.new) == (found.new, found.old)
    assert found.old > 0
    assert not found.differs
    assert json.loads(version.evidence.read_text())["old"] == found.old
    assert version.follow(0) is found, "nothing is compared twice"


def test_a_difference_ends_it_unless_it_is_accepted(version: Beside) -> None:
    other_rows(version.twin.spec)
    found = version.follow(0)
    assert found.rows_differ
    assert any(found.samples.values())
    version.running.set_result(DONE)
    assert version.finish(BATCH) == "the output of its last batches differs"
    version.accepted = True
    assert version.finish(BATCH) == ""


def test_rows_that_are_gone_prove_nothing(version: Beside) -> None:
    data = next(Path(str(version.twin.spec.sink.path)).glob("*.parquet"))
    for path in data.parent.glob("*.parquet"):
        path.unlink()
    assert "not all there any more" in version.follow(0).unproven


def test_a_stream_that_stands_still_proves_nothing(version: Beside) -> None:
    version.compared = version._began = BATCH
    assert version.follow(0).unproven == "the stream has committed no batch meanwhile"


@pytest.mark.parametrize("result", [Unexecuted(batch=12, error="SparkException: no"), DONE])
def test_a_version_that_ends_is_said(version: Beside, result: Execution | Unexecuted) -> None:
    version.running.set_result(result)
    with pytest.raises(CheckpointError, match=r"SparkException: no|it ended"):
        version.follow(60)


def test_a_version_that_is_too_slow_is_said(version: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(besides, "PATIENCE", 0.0)
    commits = Path(version.twin.spec.checkpoint, "commits")
    for batch in range(BATCH - besides.NEAR, BATCH + 1):
        (commits / str(batch)).unlink()
    with pytest.raises(CheckpointError, match="it is 3 batches behind"):
        version.follow(0)
    with pytest.raises(CheckpointError, match="took longer"):
        version.finish(BATCH)


def test_a_stream_that_was_put_back_meanwhile_is_not_switched(version: Beside) -> None:
    """It has a batch of the same number, planned at another time."""
    plan = Path(version.stream.checkpoint, "offsets", str(BATCH))
    text = plan.read_text()
    at = json.loads(text.splitlines()[1])["batchTimestampMs"]
    rewrite(plan, text.replace(str(at), str(at + 1)).encode())
    version.running.set_result(DONE)
    assert "was put back meanwhile" in version.finish(BATCH)


def test_what_it_needed_is_removed_and_its_log_stays(version: Beside, tmp_path: Path) -> None:
    folder = tmp_path / "upgrade"
    (version.twin.folder / "twin.log").write_text("said")
    version.end()
    assert json.loads((version.twin.folder / UPTO).read_text()) == {"batch": -1}
    clear(version.stream, folder)
    assert [path.name for path in folder.iterdir()] == [f"{BESIDE}.log"]
    clear(version.stream, folder)
