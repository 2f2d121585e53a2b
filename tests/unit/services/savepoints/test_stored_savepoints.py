"""Savepoints of a checkpoint in an object store, and savepoints that are in one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.sink import newest_entry
from streamwarden.lifecycle.savepoints.savepoint import CLAIM, MANIFEST
from streamwarden.lifecycle.savepoints.verification import Fault
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Condition, Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spec import StorageSpec, StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.servers.bucket import Bucket, bucket, stored

ANN = Author(by="ann", reason="")
ROOT, BACKUPS = "s3a://lake/a stream", "s3a://lake/backups"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    extra = json.dumps({"endpoint_url": "http://store:9000"})
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "extra": extra}))
    return bucket(monkeypatch)


@pytest.fixture
def local(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    spec = replace(stream_of(tmp_path / "origin", files=0), data=str(tmp_path / "data"))
    return replace(spec, savepoints=SavepointsSpec(folder=BACKUPS), storage=StorageSpec(connection="lake"))


@pytest.mark.parametrize("origin", ["in the store", "on this host"])
def test_a_savepoint_in_the_store_is_whole(lake: Bucket, local: StreamSpec, origin: str) -> None:
    """The store copies what is in it; what is on this host is uploaded."""
    spec = stored(lake, local, ROOT) if origin == "in the store" else local
    before = lake.contents()
    saved = create(spec, None, ANN)
    here = f"{BACKUPS}/minutes/{saved.id}"
    report = read_checkpoint(open_path(f"{here}/checkpoint", "lake"))
    assert report.findings == ()
    assert report.position.committed == saved.batch == newest_entry(open_path(f"{here}/output", "lake")) == 13
    assert verify(Savepoints.of(spec), saved) == ()
    after = lake.contents()
    assert {key: after[key] for key in before} == before
    key = next(file.path for file in saved.files if file.path.endswith(".sst"))
    lake.pipe_file(f"{here}/{key}", after[f"lake/backups/minutes/{saved.id}/{key}"][::-1])
    assert [(fault.path, fault.fault) for fault in verify(Savepoints.of(spec), saved)] == [(key, Fault.DIGEST)]
    delete(Savepoints.of(spec), saved.id)
    assert lake.contents() == before


def test_what_an_interruption_left_in_the_store_is_removed(lake: Bucket, local: StreamSpec) -> None:
    saved = create(local, None, ANN)
    lake.rm_file(f"{BACKUPS}/minutes/{saved.id}/{MANIFEST}")
    claim = {"process": {"host": "gone", "pid": 1, "started_at": 1}, "at": 0.0}
    lake.pipe_file(f"{BACKUPS}/minutes/{saved.id}/{CLAIM}", json.dumps(claim).encode())
    assert [entry.condition for entry in Savepoints.of(local).entries()] == [Condition.INCOMPLETE]
    another = create(local, None, ANN)
    assert {key.split("/")[3] for key in lake.contents()} == {another.id}


def test_a_checkpoint_in_the_store_is_saved_on_this_host(lake: Bucket, local: StreamSpec) -> None:
    spec = replace(stored(lake, local, ROOT), savepoints=SavepointsSpec())
    before = lake.contents()
    saved = create(spec, None, ANN)
    assert verify(Savepoints.of(spec), saved) == ()
    assert (Path(spec.data) / "savepoints/minutes" / saved.id / MANIFEST).is_file()
    assert lake.contents() == before
