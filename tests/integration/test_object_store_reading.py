"""A checkpoint that a real Spark wrote, put into an object store: it reads and forks as on a disk.

No Spark runs. The store checks signatures, so each reader has to find the connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import CheckpointReport, read_checkpoint
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.savepoints.verification import Fault
from streamwarden.services.forks.forks import clear, fork
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Condition, Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StorageSpec, StreamSpec
from support.checkpoints.recorded import Archives
from support.servers.object_store import BUCKET, ObjectStore, Versions, running

NAME, FILES, LAST = "spark-4.3.0-changelog", 17, 13
ROOT = f"s3a://{BUCKET}/{NAME}"
SPEC = StreamSpec(
    name="a",
    job="/p/a.py",
    checkpoint=f"{ROOT}/checkpoint",
    source=FilesSource(path=f"{ROOT}/input", max_files_per_trigger=1),
    sink=ParquetSink(path=f"{ROOT}/output"),
    storage=StorageSpec(connection="lake"),
)


@dataclass
class Stored:
    store: ObjectStore
    local: Path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stored]:
    root = tmp_path_factory.mktemp("archives")
    local = Archives(root).unpack(NAME, tmp_path_factory.mktemp("local") / NAME).parent
    with running(jars=False) as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_LAKE", store.connection())
        store.put(local, NAME, moved=(local.as_uri(), ROOT))
        client = store.client()
        for number in range(FILES):
            client.put_object(Bucket=BUCKET, Key=f"{NAME}/input/in {number:03d}.json", Body=b"{}\n")
        yield Stored(store, local)


def report() -> CheckpointReport:
    return read_checkpoint(open_path(SPEC.checkpoint, "lake"), output=open_path(SPEC.sink.path, "lake"))


def test_the_inspector_finds_what_it_finds_on_a_disk(stored: Stored) -> None:
    local = stored.local
    here = read_checkpoint(open_path(local / "checkpoint"), output=open_path(local / "output"))
    there = report()
    assert there.findings == here.findings == ()
    assert (there.stores, there.operators, there.sink_newest) == (here.stores, here.operators, LAST)
    assert there.path == SPEC.checkpoint


def test_the_output_is_read_through_its_manifest_and_a_lost_file_is_noticed(stored: Stored) -> None:
    whole = read_output(str(SPEC.sink.path), connection="lake", committed=LAST)
    assert whole.rows == read_output(stored.local / "output", committed=LAST).rows
    assert len(whole.rows) > 0
    assert whole.problems == whole.orphans == ()
    assert whole.manifest is not None
    lost = whole.manifest.files[0]
    with stored.store.without(lost.removeprefix(f"s3a://{BUCKET}/")):
        name = lost.rpartition("/")[2]
        problems = read_output(str(SPEC.sink.path), connection="lake", committed=LAST).problems
        assert problems == (f"the manifest names {name}, which is not there",)
        assert [(found.consequence.value, found.path) for found in report().findings] == [("loses", name)]


def test_health_sees_what_waits(stored: Stored) -> None:
    seen = probe(SPEC)
    assert seen.problems == ()
    assert seen.waiting is not None
    assert seen.waiting.count == FILES - LAST
    assert seen.state


@pytest.mark.parametrize(("rewind", "batch", "unseen"), [(0, 13, 4), (2, 11, 5), ("all", None, 17)])
def test_a_fork_is_local_and_names_nothing_of_the_store(
    stored: Stored, rewind: int | str, batch: int | None, unseen: int, tmp_path: Path
) -> None:
    made = fork(SPEC, into=tmp_path / "f", rewind=rewind)  # type: ignore[arg-type]
    assert (made.batch, made.inputs, made.unseen) == (batch, FILES, unseen)
    assert (made.spec.in_object_store, made.spec.connections) == (frozenset(), ())
    if batch is not None:
        read = read_checkpoint(open_path(made.spec.checkpoint), output=open_path(made.spec.sink.path))
        assert (read.findings, read.position.committed) == ((), batch)
        logs = [
            path for path in (tmp_path / "f").rglob("*") if {"_spark_metadata", "sources", "_metadata"} & {*path.parts}
        ]
        assert not [path for path in logs if path.is_file() and b"s3a" in path.read_bytes()]


def test_a_fork_in_the_store_is_made_of_copies_there_and_goes_without_a_trace(stored: Stored, tmp_path: Path) -> None:
    """With keys that have to be encoded, and beside a folder whose name begins with its own."""
    at = f"s3a://{BUCKET}/drills of mine/1"
    stored.store.client().put_object(Bucket=BUCKET, Key="drills of mine/12/precious", Body=b"")
    before = stored.store.versions()
    made = fork(SPEC, into=tmp_path / "f", at=at, rewind=2)
    assert (made.batch, made.unseen, made.spec.checkpoint) == (LAST - 2, 5, f"{at}/checkpoint")
    read = read_checkpoint(open_path(made.spec.checkpoint, "lake"), output=open_path(made.spec.sink.path, "lake"))
    assert (read.findings, read.position.committed, read.sink_newest) == ((), LAST - 2, LAST - 2)
    origin, copy = (stored.store.versions(f"{each}/checkpoint/state/") for each in (NAME, "drills of mine/1"))
    digests = {key.removeprefix(NAME): digest for key, (digest, _) in origin.items()}
    assert copy
    told = {
        key.removeprefix("drills of mine/1"): digest for key, (digest, _) in copy.items() if "/_metadata/" not in key
    }
    assert told == {key: digests[key] for key in told}
    clear(tmp_path / "f", made.spec)
    after = stored.store.versions()
    assert {key: after.get(key) for key in before} == before
    assert after.keys() - before.keys() <= {"drills of mine/1/"}, "at most the sign of a folder"


@pytest.mark.parametrize("at", [f"s3a://{BUCKET}/backups", None], ids=["in the store", "on this host"])
def test_a_savepoint_of_a_checkpoint_in_the_store(stored: Stored, tmp_path: Path, at: str | None) -> None:
    """The store copies by itself what stays in it. A byte that is changed is named, and nothing is left at the end."""
    spec = replace(SPEC, data=str(tmp_path), savepoints=SavepointsSpec(folder=at))
    before = objects(stored)
    savepoints, saved = Savepoints.of(spec), create(spec, None, Author(by="ann", reason=""))
    assert (saved.batch, saved.sink.newest, verify(savepoints, saved)) == (LAST, LAST, ())
    assert [entry.condition for entry in savepoints.entries()] == [Condition.COMPLETE]
    file = savepoints.place(saved.id) / next(file.path for file in saved.files if file.path.endswith(".sst"))
    content = file.read()
    if at is None:
        Path(file.path).unlink()
    file.write(bytes([content[0] ^ 1]) + content[1:])
    assert [fault.fault for fault in verify(savepoints, saved)] == [Fault.DIGEST]
    delete(savepoints, saved.id)
    assert savepoints.ids() == []
    assert objects(stored) == before


def objects(stored: Stored) -> Versions:
    """All but the marker of the folder that holds savepoints, which stays when it is empty."""
    return {key: version for key, version in stored.store.versions().items() if key.rstrip("/") != "backups"}


def test_what_the_store_refuses_is_said(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        read_checkpoint(open_path(f"s3a://{BUCKET}/nowhere", "lake"))
    with pytest.raises(CheckpointError, match="NO_SUCH_BUCKET"):
        read_checkpoint(open_path("s3a://nobodys/checkpoint", "lake"))
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", stored.store.connection(secret="of-somebody-else"))
    (problem,) = probe(SPEC).problems
    assert "SIGNATURE_DOES_NOT_MATCH" in problem
    with pytest.raises(CheckpointError, match="SIGNATURE_DOES_NOT_MATCH"):
        fork(SPEC, into=tmp_path / "f")
    assert not list((tmp_path / "f").glob("*"))
    with pytest.raises(VerificationError, match="SIGNATURE_DOES_NOT_MATCH"):
        read_output(str(SPEC.sink.path), connection="lake")
    unknown = replace(SPEC, storage=StorageSpec(connection="nowhere"))
    assert "AIRFLOW_CONN_NOWHERE" in probe(unknown).problems[0]
