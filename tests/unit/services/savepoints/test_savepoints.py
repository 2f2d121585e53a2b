"""Savepoints of checkpoints that real Sparks wrote: what they contain, and what an interruption leaves.

That Spark continues from them rightly is shown by tests/spark/proofs/test_fork_run.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.filesystem import FileSystem
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.plan import CopyStep
from streamwarden.lifecycle.savepoints.savepoint import CLAIM, MANIFEST, Savepoint
from streamwarden.lifecycle.savepoints.verification import Fault
from streamwarden.services.savepoints import creating
from streamwarden.services.savepoints.creating import create, gather
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.documents import schema
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Condition, Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import NAMES, Unpack, remove, rewrite, stream_of
from support.checkpoints.recorded import replace as replace_file
from support.killed import killed_at

ANN = Author(by="ann@host (command line)", reason="before the upgrade", spark="4.3.0")
NEWEST = 13


def saved_stream(unpack: Unpack, name: str, root: Path) -> StreamSpec:
    unpack(name, root)
    spec = stream_of(root, files=0)
    Path(spec.job).write_text("def build(spark, spec): ...\n")
    return replace(spec, data=str(root.parent / "data"))


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """RocksDB with changelogs; batches 0 to 13 are committed. Both compactible logs were compacted at 9."""
    return saved_stream(unpack, "spark-4.3.0-changelog", tmp_path / "with space")


def folder_of(spec: StreamSpec, savepoint: Savepoint) -> Path:
    return Path(Savepoints.of(spec).place(savepoint.id).path)


def contents(spec: StreamSpec) -> dict[str, bytes]:
    roots = (Path(spec.checkpoint), Path(str(spec.sink.path)))
    return {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_a_savepoint_is_a_whole_checkpoint(name: str, unpack: Unpack, tmp_path: Path) -> None:
    """Of both backends, both checkpoint formats, every kind of operator, and older Sparks."""
    spec = saved_stream(unpack, name, tmp_path / "origin")
    before = contents(spec)
    saved = create(spec, None, ANN)
    folder = folder_of(spec, saved)
    report = read_checkpoint(open_path(folder / "checkpoint"), output=open_path(folder / "output"))
    assert report.findings == ()
    assert report.position.query_id == saved.query_id == log_position(open_path(spec.checkpoint)).query_id
    assert report.position.committed == report.position.planned == saved.batch
    assert report.sink_newest == saved.batch
    assert {store.replay.newest for store in report.stores} <= {saved.batch + 1}
    assert verify(Savepoints.of(spec), saved) == ()
    assert contents(spec) == before


@pytest.mark.parametrize("name", ["spark-4.3.0-changelog", "spark-4.3.0-rocksdb", "spark-4.3.0-hdfs"])
def test_a_savepoint_can_be_taken_at_each_batch_that_is_kept(name: str, unpack: Unpack, tmp_path: Path) -> None:
    spec = saved_stream(unpack, name, tmp_path / "origin")
    newest = log_position(open_path(spec.checkpoint)).committed
    assert newest is not None
    for batch in range(newest + 1):
        folder = folder_of(spec, saved := create(spec, batch, ANN))
        report = read_checkpoint(open_path(folder / "checkpoint"), output=open_path(folder / "output"))
        assert (saved.batch, report.position.committed, report.findings) == (batch, batch, ())


def test_only_what_the_batch_needs_is_taken_by_links(spec: StreamSpec) -> None:
    """Spark purges the rest while a long copy goes on."""
    saved = create(spec, None, ANN)
    paths = [file.path for file in saved.files]
    assert [path for path in paths if "/offsets/" in path] == [f"checkpoint/offsets/{n}" for n in (12, NEWEST)]
    assert "output/_spark_metadata/9.compact" in paths
    assert not [path for path in paths if path.endswith("_spark_metadata/8")]
    tables = [path for path in paths if "/SSTs/" in path]
    assert 0 < len(tables) < len(list(Path(spec.checkpoint).rglob("SSTs/*.sst")))
    for path in paths:
        origin = Path(spec.checkpoint).parent / path
        assert origin.samefile(folder_of(spec, saved) / path), "linked, not copied"


def test_the_manifest_says_what_was_saved_and_fits_its_schema(spec: StreamSpec) -> None:
    saved = create(spec, None, ANN)
    document = json.loads((folder_of(spec, saved) / MANIFEST).read_text())
    jsonschema.validate(document, schema())
    for without in ("query_id", "files", "batch"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: value for key, value in document.items() if key != without}, schema())
    assert Savepoints.of(spec).get() == saved
    assert (document["batch"], document["by"], document["reason"], document["spark"]) == (
        NEWEST,
        "ann@host (command line)",
        "before the upgrade",
        "4.3.0",
    )
    assert document["job"]["text"] == "def build(spark, spec): ...\n"
    assert document["declaration"] is None, "this stream has no file"
    assert document["sink"] == {"kind": "parquet", "place": spec.sink.path, "newest": NEWEST, "unread": ""}
    operator = document["operators"][0]
    assert (operator["name"], operator["partitions"]) == ("stateStoreSave", document["partitions"])
    assert operator["schemas"][0]["families"][0]["value"] == ["count long", "sum long"]


def test_no_secret_of_the_project_reaches_the_manifest(spec: StreamSpec) -> None:
    Path(spec.job).write_text('OPTIONS = {"password": "hunter-two-2"}\n')
    saved = create(spec, None, ANN)
    assert "hunter-two-2" not in (folder_of(spec, saved) / MANIFEST).read_text()
    assert saved.job is not None
    assert "OPTIONS" in saved.job.text


def test_an_output_that_does_not_answer_is_recorded_as_such(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_NOWHERE", "kafka://127.0.0.1:1")
    away = replace(spec, sink=KafkaSink(connection="not_there", topic="t", key=("k",)))
    saved = create(away, None, ANN)
    assert saved.sink.newest is None
    assert "not_there" in saved.sink.unread
    assert not [file.path for file in saved.files if file.path.startswith("output/")]


def change_one_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    replace_file(path, bytes(content))


def test_verify_names_each_file_that_is_not_as_it_was_saved(spec: StreamSpec) -> None:
    saved = create(spec, None, ANN)
    folder = folder_of(spec, saved)
    tables = sorted(path for path in folder.rglob("*.sst"))
    change_one_byte(tables[0])
    replace_file(folder / "checkpoint/offsets/12", b"v1\n")
    (folder / "checkpoint/commits/13").unlink()
    (folder / "checkpoint/state/extra").write_text("x")
    assert {(fault.path, fault.fault) for fault in verify(Savepoints.of(spec), saved)} == {
        (str(tables[0].relative_to(folder)), Fault.DIGEST),
        ("checkpoint/offsets/12", Fault.SIZE),
        ("checkpoint/commits/13", Fault.MISSING),
        ("checkpoint/state/extra", Fault.EXTRA),
    }


def test_a_damaged_checkpoint_has_no_savepoint(spec: StreamSpec) -> None:
    """Negative control: what Spark refuses is not kept as if it could be restored."""
    newest = sorted(Path(spec.checkpoint, "state/0/0").glob("*.changelog"), key=lambda path: int(path.stem))[-1]
    rewrite(newest, newest.read_bytes()[:12])
    with pytest.raises(CheckpointError, match=r"the copy is damaged, as its original is: state/0/0/14.changelog"):
        create(spec, None, ANN)
    assert list(Savepoints.of(spec).entries()) == []


def test_a_batch_that_is_not_kept_names_those_that_are(spec: StreamSpec) -> None:
    remove(Path(spec.checkpoint) / "offsets/4")
    with pytest.raises(CheckpointError) as refused:
        create(spec, 4, ANN)
    assert "batch 4: offsets/4 is gone" in refused.value.observed
    assert refused.value.next_step == "name one of the batches 0-3, 6-13"
    with pytest.raises(CheckpointError, match="commits/99 is gone or was never written"):
        create(spec, 99, ANN)
    assert not Path(spec.data).exists()


def test_a_query_without_a_commit_has_no_savepoint(tmp_path: Path) -> None:
    (tmp_path / "origin/checkpoint").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="no batch is committed yet"):
        gather(replace(stream_of(tmp_path / "origin", files=0), data=str(tmp_path)), None)


def in_the_middle(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """`happens` before anything is copied, and after all was planned."""
    genuine = creating.carry_out

    def carry_out(steps: Iterable[CopyStep], origin: FileSystem, connection: str | None) -> None:
        happens()
        genuine(steps, origin, connection)

    monkeypatch.setattr(creating, "carry_out", carry_out)


def test_a_purge_in_the_middle_is_noticed_and_the_copy_is_made_again(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query commits batch 13 while batch 12 is copied, and Spark purges what batch 12 needs."""
    last = Path(spec.checkpoint) / "commits/13"
    content = last.read_bytes()
    remove(last)

    def commits_and_purges() -> None:
        if not last.exists():
            last.write_bytes(content)
            remove(Path(spec.checkpoint) / "commits/11")

    in_the_middle(monkeypatch, commits_and_purges)
    saved = create(spec, None, ANN)
    assert saved.batch == NEWEST
    assert verify(Savepoints.of(spec), saved) == ()


def test_a_copy_that_is_always_too_slow_ends_with_an_error_and_leaves_nothing(
    spec: StreamSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def purges() -> None:
        tries.append(1)
        raise FileNotFoundError(2, "No such file or directory", f"{spec.checkpoint}/offsets/12")

    in_the_middle(monkeypatch, purges)
    with pytest.raises(CheckpointError, match=r"Spark purged .*/offsets/12 while it was copied, 5 times in a row"):
        create(spec, None, ANN)
    assert len(tries) == creating.ATTEMPTS
    assert Savepoints.of(spec).ids() == []


def test_a_full_disk_ends_with_an_error_and_leaves_nothing(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room() -> None:
        raise OSError(28, "No space left on device")

    in_the_middle(monkeypatch, no_room)
    with pytest.raises(CheckpointError, match="No space left on device"):
        create(spec, None, ANN)
    assert Savepoints.of(spec).ids() == []


def long_ago(step: int) -> Callable[[], float]:
    """Of a folder without a claim, whose process may be about to write it: a minute later nobody is."""
    return partial(float, time.time() - 3600 + step)


def test_kill_9_at_any_step_of_create_leaves_a_savepoint_or_none(unpack: Unpack, tmp_path: Path) -> None:
    """And the next `create` removes what is left."""
    spec = saved_stream(unpack, "spark-4.0.1-hdfs", tmp_path / "origin")
    savepoints, before, seen = Savepoints.of(spec), contents(spec), set()
    step = 1
    while killed_at(step, partial(create, spec, None, ANN, now=long_ago(step))):
        step += 1
        for entry in savepoints.entries():
            seen.add(entry.condition)
            if entry.savepoint is not None:
                assert verify(savepoints, entry.savepoint) == ()
                delete(savepoints, entry.id)
        assert len(savepoints.ids()) <= 1, "the next one removed what the one before left"
    assert step > 20
    assert seen == {Condition.INCOMPLETE, Condition.COMPLETE}, "a claim outlives its manifest for a moment"
    assert [entry.condition for entry in savepoints.entries()] == [Condition.COMPLETE]
    assert contents(spec) == before


def test_kill_9_at_any_step_of_delete_leaves_a_savepoint_or_none(unpack: Unpack, tmp_path: Path) -> None:
    """And to delete it again completes."""
    spec = saved_stream(unpack, "spark-4.0.1-hdfs", tmp_path / "origin")
    savepoints, step, killed = Savepoints.of(spec), 0, True
    while killed:
        step += 1
        name = create(spec, None, ANN, now=long_ago(step)).id
        killed = killed_at(step, partial(delete, savepoints, name))
        for entry in savepoints.entries():
            assert entry.savepoint is None or verify(savepoints, entry.savepoint) == ()
            delete(savepoints, entry.id)
        assert savepoints.ids() == []
    assert step > 20


def test_one_that_is_being_created_is_left_alone(spec: StreamSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoints, seen = Savepoints.of(spec), []

    def looks() -> None:
        if not seen:
            seen.extend(savepoints.entries())
            with pytest.raises(CheckpointError, match="is being created or deleted"):
                delete(savepoints, seen[0].id)
            with pytest.raises(CheckpointError, match="is in progress"):
                savepoints.get(seen[0].id)
            assert create(spec, None, ANN).id > seen[0].id, "in the same second, under another name"

    in_the_middle(monkeypatch, looks)
    first = create(spec, None, ANN)
    assert [entry.condition for entry in seen] == [Condition.IN_PROGRESS]
    assert [entry.id for entry in savepoints.entries()][1:] == [first.id]


def test_a_claim_of_another_host_is_trusted_for_a_day(spec: StreamSpec) -> None:
    savepoints = Savepoints.of(spec)
    folder = Path(savepoints.place("20251125T204502Z").path)
    folder.mkdir(parents=True)
    claim = {"process": {"host": "elsewhere", "pid": 1, "started_at": 1}, "at": time.time()}
    (folder / CLAIM).write_text(json.dumps(claim))
    assert [entry.condition for entry in savepoints.entries()] == [Condition.IN_PROGRESS]
    (folder / CLAIM).write_text(json.dumps({**claim, "at": time.time() - 25 * 3600}))
    assert [entry.condition for entry in savepoints.entries()] == [Condition.INCOMPLETE]
    create(spec, None, ANN)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: "[]", "is damaged"),
        (lambda text: text.replace('"batch": 13', '"batch": "many"'), "is damaged"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "has format 2"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_listed_and_refused(
    spec: StreamSpec, change: Callable[[str], str], message: str
) -> None:
    saved = create(spec, None, ANN)
    manifest = folder_of(spec, saved) / MANIFEST
    manifest.write_text(change(manifest.read_text()))
    savepoints = Savepoints.of(spec)
    assert [entry.condition for entry in savepoints.entries()] == [Condition.UNREADABLE]
    with pytest.raises(CheckpointError, match=message):
        savepoints.get(saved.id)
    create(spec, None, ANN)
    assert manifest.exists(), "only what an interruption left is removed by itself"
    delete(savepoints, saved.id)
    assert len(savepoints.ids()) == 1


@pytest.mark.parametrize("name", ["..", "../../checkpoint", "20251125T204502Z"])
def test_what_is_no_savepoint_is_not_deleted(spec: StreamSpec, name: str) -> None:
    before = contents(spec)
    with pytest.raises(CheckpointError, match="has no savepoint"):
        delete(Savepoints.of(spec), name)
    assert contents(spec) == before


def test_savepoints_are_where_the_streams_file_says(spec: StreamSpec, tmp_path: Path) -> None:
    elsewhere = replace(spec, savepoints=SavepointsSpec(folder=str(tmp_path / "backups")))
    saved = create(elsewhere, None, ANN)
    assert (tmp_path / "backups/minutes" / saved.id / MANIFEST).is_file()
    assert Savepoints.of(spec).ids() == []
