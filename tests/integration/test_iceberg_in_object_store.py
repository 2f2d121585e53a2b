"""An Iceberg table in an object store: its batches, its rows and its fork, read without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from streamwarden.adapters.iceberg.metadata import BATCH, QUERY
from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.storage.object_stores import access
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sources.iceberg.source import IcebergSource
from streamwarden.stream.spec import StorageSpec, StreamSpec
from support.servers.object_store import BUCKET, ObjectStore, running

TABLE = f"s3a://{BUCKET}/lake/n/t"


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with running(jars=False) as store, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_LAKE", store.connection())
        yield store


def stored_table(root: Path) -> StreamSpec:
    """A stream whose batches 0 and 1 are in a table of the store, with three rows each."""
    known = access("lake")
    catalog = SqlCatalog(
        "c",
        **{
            "uri": f"sqlite:///{root}/catalog.db",
            "warehouse": f"s3a://{BUCKET}/lake",
            "s3.endpoint": known.endpoint,
            "s3.access-key-id": known.key,
            "s3.secret-access-key": known.secret,
            "s3.region": known.region,
        },
    )
    catalog.create_namespace("n")
    rows = pa.table({"k": pa.array(range(3), pa.int64())})
    table = catalog.create_table("n.t", rows.schema, location=TABLE)
    for batch in (0, 1):
        table.append(rows, snapshot_properties={QUERY: "mine", BATCH: str(batch)})
    newest = open_path(table.metadata_location, "lake").read()
    (open_path(TABLE, "lake") / "metadata" / "v3.metadata.json").write(newest)
    (root / "checkpoint").mkdir()
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": "mine"}))
    return StreamSpec(
        name="s",
        job="/j.py",
        checkpoint=str(root / "checkpoint"),
        sink=IcebergSink(path=TABLE),
        storage=StorageSpec(connection="lake"),
    )


def test_it_reads_and_forks_as_on_a_disk(store: ObjectStore, tmp_path: Path) -> None:
    spec = stored_table(tmp_path)
    sink = spec.sink
    assert isinstance(sink, IcebergSink)
    output = sink.read(spec, {}, committed=1, first=0, deduplicated=True)
    assert (output.count, output.problems) == (6, ())
    end = sink.end(spec, ["mine"], {}, 0.0)
    assert end is not None
    assert end.batch == 1
    forked = replace(spec, name="s__fork", sink=replace(sink, path=f"s3a://{BUCKET}/drills/output"))
    assert sink.copy(spec, forked, rewind=1, query_id="mine") == 1
    assert isinstance(forked.sink, IcebergSink)
    output = forked.sink.read(forked, {}, committed=0, first=1, deduplicated=True)
    assert (output.count, output.problems) == (3, ())
    (lost,) = [key for key in store.keys("lake/n/t/data") if "00000-0-" in key][:1]
    with store.without(lost):
        output = sink.read(spec, {}, committed=1, first=0, deduplicated=True)
        assert (output.count, len(output.problems)) == (3, 1)


def test_a_wrong_secret_is_an_error_and_no_empty_table(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stored_table(tmp_path)
    assert isinstance(spec.sink, IcebergSink)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", store.connection(secret="wrong"))
    with pytest.raises(VerificationError, match="the table cannot be read"):
        spec.sink.read(spec, {}, committed=1, first=0, deduplicated=True)


def test_a_stream_reads_it_and_is_not_forked(store: ObjectStore, tmp_path: Path) -> None:
    """A fork's table on this host would name files that only the origin's connection reaches."""
    spec = replace(stored_table(tmp_path), source=IcebergSource(path=TABLE))
    assert isinstance(spec.source, IcebergSource)
    read = spec.source.rows(spec, spec.source.unread(spec, None).files)
    assert [number for table in read for number in table["k"].to_pylist()] == [0, 1, 2, 0, 1, 2]
    fork = forked_spec(spec, Places.under(str(tmp_path / "fork")), Feed.ORIGIN)
    with pytest.raises(CheckpointError, match="object store"):
        spec.source.take_input(spec, fork, None, Feed.ORIGIN)
