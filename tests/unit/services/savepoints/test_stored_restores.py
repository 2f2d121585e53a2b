"""A stream in an object store is put back to a savepoint; a restore that was killed completes when it is run again.

Nothing is renamed in a store. So at each moment either Spark refuses the checkpoint, or it is a whole one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.sink import read_sink_manifest
from streamwarden.errors import CheckpointError, LaunchRefused
from streamwarden.health.quarantine import mark_of
from streamwarden.lifecycle.exchanges.exchange import journal_of
from streamwarden.services.exchanges.exchanging import Exchanged
from streamwarden.services.fleet import launch_check
from streamwarden.services.fleet.launch_check import require_fit
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.previewing import preview_restore
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.rewinding import Target, rewind
from streamwarden.services.state.compacting import planned
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.servers.bucket import Bucket, bucket, stored

ANN = Author(by="ann", reason="a wrong job")
ASKED = Request(author=ANN)
ROOT = "s3a://lake/a stream"
BATCH, NEWEST = 2, 5

Objects = dict[str, bytes]


class Killed(BaseException):
    """Ends a restore as SIGKILL does, as far as the store sees it."""


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    extra = json.dumps({"endpoint_url": "http://store:9000"})
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "extra": extra}))
    return bucket(monkeypatch)


@pytest.fixture
def spec(lake: Bucket, unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """Batches 0 to 5 are committed; a savepoint in the store has batch 2; the quarantine has rows of both."""
    unpack("spark-4.0.1-changelog", tmp_path / "origin")
    local = replace(stream_of(tmp_path / "origin", files=0), data=str(tmp_path / "data"))
    made = replace(stored(lake, local, ROOT), quarantine=f"{ROOT}/quarantine")
    query_id = json.loads((checkpoint_of(made) / "metadata").read())["id"]
    for batch in (BATCH, NEWEST):
        lake.pipe_file(f"{ROOT}/quarantine/query={query_id}/batch={batch}/part.json", b"{}")
    lake.pipe_file(f"{ROOT}/quarantine/{mark_of(query_id)}", str(NEWEST).encode())
    made = replace(made, savepoints=SavepointsSpec(folder="s3a://lake/backups"))
    create(made, BATCH, ANN)
    return made


def below(objects: Objects, folder: str) -> Objects:
    """Path below a folder of the stream -> content of its objects."""
    prefix = f"{ROOT}/{folder}/".removeprefix("s3a://")
    return {key.removeprefix(prefix): content for key, content in objects.items() if key.startswith(prefix)}


def is_at(spec: StreamSpec, batch: int) -> bool:
    """Whether checkpoint and output are those of a query that has committed this batch, and whole."""
    report = read_checkpoint(checkpoint_of(spec), output=open_path(str(spec.sink.path), "lake"))
    assert report.findings == ()
    return report.position.committed == report.sink_newest == batch


def require_kept(lake: Bucket, done: Exchanged, before: Objects) -> None:
    """Nothing that the stream had is lost, and nothing that the restore needed is left."""
    now, stamp = lake.contents(), done.exchange.stamp
    assert below(before, "checkpoint").items() <= below(now, f"checkpoint.before-{stamp}").items()
    for part in ("output", "quarantine"):
        had = {name: content for name, content in below(before, part).items() if not name.startswith("_done-")}
        assert had.items() <= (below(now, part) | below(now, f"{part}/_set_aside-{stamp}")).items()
    left = (".prepared-", ".restored-", "checkpoint.exchange.json")
    assert not [key for key in now if any(name in key for name in left)]


def test_a_stream_is_put_back_and_nothing_is_lost(lake: Bucket, spec: StreamSpec, store: Store) -> None:
    before = lake.contents()
    preview = preview_restore(spec, None)
    assert (preview.quarantined, lake.contents()) == (1, before)
    done = restore(store, spec, None, ASKED)
    assert is_at(spec, BATCH)
    assert (done.resumed, done.aside) == (False, f"{ROOT}/checkpoint.before-{done.exchange.stamp}")
    require_kept(lake, done, before)
    here, query_id = below(lake.contents(), "quarantine"), done.exchange.query_id
    assert [name for name in here if name.startswith("query=")] == [f"query={query_id}/batch={BATCH}/part.json"]
    assert here[mark_of(query_id)] == str(BATCH).encode()
    require_fit(store, spec, "d", {}, at=0.0)


def test_a_stream_is_rewound(lake: Bucket, spec: StreamSpec, store: Store) -> None:
    """Also one whose file names the folder with a slash at its end."""
    rewind(store, replace(spec, checkpoint=f"{spec.checkpoint}/"), Target(batch=3), ASKED)
    assert is_at(spec, 3)
    names = {key.split("/")[2].partition("-")[0] for key in lake.contents() if key.startswith("lake/a stream/")}
    assert names == {"checkpoint", "checkpoint.before", "output", "quarantine"}


def test_a_checkpoint_that_is_gone_is_restored(lake: Bucket, spec: StreamSpec, store: Store) -> None:
    lake.rm(spec.checkpoint, recursive=True)
    assert restore(store, spec, None, ASKED).aside is None
    assert is_at(spec, BATCH)


def changes_of(lake: Bucket, store: Store, spec: StreamSpec) -> list[tuple[str, str]]:
    """The action and the folder of each change that a restore makes."""
    changes: list[tuple[str, str]] = []
    lake.before_change = lambda action, path: changes.append((action, _part(path)))
    restore(store, spec, None, ASKED)
    lake.before_change = lambda action, path: None
    return changes


def _part(path: str) -> str:
    """The folder that a change is in, and the file if it stands for something."""
    names = path.replace("s3a://", "").strip("/").split("/")
    last = names[-1] if names[-1] in ("metadata", "_exchange", "exchange.json") else ""
    return "/".join([*names[1:3], "manifest" if "_spark_metadata" in path else "", last])


def killed_before(lake: Bucket, step: int, store: Store, spec: StreamSpec) -> None:
    left = step

    def count(action: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    lake.before_change = count
    with pytest.raises(Killed):
        restore(store, spec, None, ASKED)
    lake.before_change = lambda action, path: None


def test_kill_9_at_any_step_is_completed_by_the_next_run(lake: Bucket, spec: StreamSpec, store: Store) -> None:
    """Before the first change of each kind, and in the middle of many."""
    before, folders, old = lake.contents(), set(lake.pseudo_dirs), below(lake.contents(), "checkpoint")
    objects = dict(lake.store)
    changes = changes_of(lake, store, spec)
    new, seen = below(lake.contents(), "checkpoint"), set()
    of_kind: dict[tuple[str, str], list[int]] = {}
    for step, change in enumerate(changes):
        of_kind.setdefault(change, []).append(step)
    for step in sorted({step for steps in of_kind.values() for step in (steps[0], steps[len(steps) // 2])}):
        lake.store, lake.pseudo_dirs = dict(objects), list(folders)
        killed_before(lake, step, store, spec)
        now, begun = below(lake.contents(), "checkpoint"), lake.exists(journal_of(spec.checkpoint))
        closed = "exchange" in json.loads(now.get("metadata", b"{}"))
        assert closed or now in (old, new), "nobody opens what is half of each"
        if closed:
            said = [finding.what for finding in read_checkpoint(checkpoint_of(spec)).findings]
            assert f"an exchange of the checkpoint was interrupted: {journal_of(spec.checkpoint)}" in said
        manifest = read_sink_manifest(open_path(str(spec.sink.path), "lake"))
        assert manifest is not None
        assert not manifest.missing, "a reader finds a whole manifest at each moment"
        if begun:
            with pytest.raises(LaunchRefused, match=r"a restore of .* was interrupted"):
                require_fit(store, spec, "d", {}, at=0.0)
        else:
            assert before.items() <= lake.contents().items() or now == new
        again = restore(store, spec, None, ASKED)
        assert again.resumed is begun
        assert is_at(spec, BATCH)
        if begun:
            require_kept(lake, again, before)
        seen.add((begun, closed))
    assert seen == {(False, False), (True, False), (True, True)}


def test_a_copy_that_is_not_whole_removes_nothing(
    lake: Bucket, spec: StreamSpec, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: the store answers that it has copied, and has not."""
    old = below(lake.contents(), "checkpoint")

    def lost(path1: str, path2: str, **options: object) -> None:
        if ".before-" in path2 and path2.endswith("offsets/5"):
            return
        Bucket.cp_file(lake, path1, path2)

    with monkeypatch.context() as patch:
        patch.setattr(lake, "cp_file", lost)
        with pytest.raises(CheckpointError, match="the copy has None bytes"):
            restore(store, spec, None, ASKED)
    assert below(lake.contents(), "checkpoint") == old
    assert restore(store, spec, None, ASKED).resumed
    assert is_at(spec, BATCH)


def test_where_nothing_is_exchanged_is_said_before_anything_is_done(spec: StreamSpec, store: Store) -> None:
    for changed, asked in (
        (replace(spec, quarantine="memory://elsewhere"), partial(restore, store, savepoint=None, request=ASKED)),
        (replace(spec, checkpoint="memory://elsewhere"), partial(restore, store, savepoint=None, request=ASKED)),
        (spec, partial(planned, runs=False)),
    ):
        with pytest.raises(CheckpointError, match=r"in which nothing is exchanged|is not on a disk"):
            asked(spec=changed)


def test_a_store_that_does_not_answer_refuses_no_launch(
    lake: Bucket, spec: StreamSpec, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver needs it too, and waits for it; a checkpoint that is half exchanged, Spark refuses."""

    def away(path: str, **options: object) -> bytes:
        raise OSError(5, "no answer", path)

    lake.pipe_file(journal_of(spec.checkpoint), b'{"operation": "restore"}')
    monkeypatch.setattr(launch_check, "PAUSE", 0.0)
    with pytest.raises(LaunchRefused, match="a restore of the stream was interrupted"):
        require_fit(store, spec, "d", {}, at=0.0)
    monkeypatch.setattr(lake, "cat_file", away)
    require_fit(store, spec, "d", {}, at=0.0)
    with pytest.raises(CheckpointError, match="it cannot be seen whether an exchange"):
        restore(store, spec, None, ASKED)
