"""A stream in HDFS is put back to a savepoint by renames; a restore that was killed completes when it is run again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of, output_of
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.lifecycle.exchanges.exchange import journal_of
from streamwarden.services.forks.forks import clear, fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.servers.folder_as_hdfs import URL, FolderAsHdfs, folder_as_hdfs, stored

ANN = Author(by="ann", reason="a wrong job")
ASKED = Request(author=ANN)
BATCH, NEWEST = 2, 5


class Killed(BaseException):
    """Ends a restore as SIGKILL does, as far as HDFS sees it."""


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FolderAsHdfs:
    return folder_as_hdfs(monkeypatch, tmp_path / "lake")


@pytest.fixture
def spec(lake: FolderAsHdfs, unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """Batches 0 to 5 are committed; a savepoint in HDFS has batch 2."""
    unpack("spark-4.0.1-changelog", tmp_path / "origin")
    local = replace(stream_of(tmp_path / "origin", files=7), data=str(tmp_path / "data"))
    made = replace(stored(lake, local, "/a stream"), savepoints=SavepointsSpec(folder=f"{URL}/backups"))
    create(made, BATCH, ANN)
    return made


def is_at(spec: StreamSpec, batch: int) -> bool:
    report = read_checkpoint(checkpoint_of(spec), output=output_of(spec))
    assert report.findings == ()
    return report.position.committed == report.sink_newest == batch


def below(files: dict[str, bytes], folder: str) -> dict[str, bytes]:
    prefix = f"a stream/{folder}/"
    return {path.removeprefix(prefix): content for path, content in files.items() if path.startswith(prefix)}


def kill_before(lake: FolderAsHdfs, step: int) -> None:
    left = step

    def count(action: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    lake.before_change = count


def test_the_checkpoint_is_exchanged_by_renames_and_nothing_is_lost(
    lake: FolderAsHdfs, spec: StreamSpec, store: Store
) -> None:
    before, renamed = lake.files(), list[str]()
    lake.before_change = lambda action, path: renamed.append(path) if action == "rename" else None
    done = restore(store, spec, None, ASKED)
    assert is_at(spec, BATCH)
    aside = f"checkpoint.before-{done.exchange.stamp}"
    assert {f"{URL}/a stream/{aside}", spec.checkpoint} <= set(renamed)
    assert below(before, "checkpoint").items() - below(lake.files(), aside).items() == set()


def test_kill_9_at_any_step_is_completed_by_the_next_run(
    lake: FolderAsHdfs, spec: StreamSpec, store: Store, tmp_path: Path
) -> None:
    """Each state in between is, for whoever opens it, a whole checkpoint, or none, with a journal that says so."""
    shutil.copytree(lake.root, tmp_path / "kept")
    changes: list[str] = []
    lake.before_change = lambda action, path: changes.append(f"{action} {path}")
    restore(store, spec, None, ASKED)
    first = next(at for at, change in enumerate(changes) if change.endswith("exchange.json"))
    seen = set()
    for step in sorted({0, first // 2, *range(first, len(changes))}):
        shutil.rmtree(lake.root)
        shutil.copytree(tmp_path / "kept", lake.root)
        kill_before(lake, step)
        with pytest.raises(Killed):
            restore(store, spec, None, ASKED)
        lake.before_change = lambda action, path: None
        files = lake.files()
        begun, there = journal_of("a stream/checkpoint") in files, "a stream/checkpoint/metadata" in files
        assert begun or there
        again = restore(store, spec, None, ASKED)
        assert again.resumed is begun
        assert is_at(spec, BATCH)
        seen.add((begun, there))
    assert seen == {(False, True), (True, True), (True, False)}


@pytest.mark.parametrize("at", [None, f"{URL}/drills/1"], ids=["on this host", "in HDFS"])
def test_a_fork_is_made_and_goes(lake: FolderAsHdfs, spec: StreamSpec, tmp_path: Path, at: str | None) -> None:
    before = lake.files()
    made = fork(spec, into=tmp_path / "f", at=at, rewind=2)
    assert is_at(made.spec, NEWEST - 2)
    assert made.spec.stored == (frozenset({"checkpoint", "sink"}) if at else frozenset())
    clear(tmp_path / "f", made.spec)
    assert lake.files() == before
