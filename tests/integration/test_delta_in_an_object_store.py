"""A Delta table in an object store is read, forked and compared before a launch as one on a disk. The store is moto's
server; delta-rs makes the table, and no Spark runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from streamwarden.adapters.delta.table import opened, storage_options
from streamwarden.adapters.storage.files import open_path
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.delta import forks
from streamwarden.sinks.delta.output import read_table
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sources.delta.source import DeltaSource
from streamwarden.stream.spec import StorageSpec, StreamSpec
from support.servers.object_store import BUCKET, ObjectStore, running

QUERY, FORKED = "00000001-0000-0000-0000-000000000000", "00000002-0000-0000-0000-000000000000"


def stream(name: str, query: str) -> StreamSpec:
    """A stream in the store, with the checkpoint of the query."""
    checkpoint = f"s3a://{BUCKET}/{name}/checkpoint"
    open_path(f"{checkpoint}/metadata", "lake").write(f'{{"id":"{query}"}}'.encode())
    sink = DeltaSink(path=f"s3a://{BUCKET}/{name}/table")
    return StreamSpec(name="s", job="/n.py", checkpoint=checkpoint, sink=sink, storage=StorageSpec(connection="lake"))


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with running(jars=False) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_LAKE", made.connection())
        yield made


@pytest.fixture(scope="module")
def spec(store: ObjectStore) -> StreamSpec:
    """Two batches of two rows."""
    made = stream("origin", QUERY)
    path = str(made.sink.path)
    for batch in range(2):
        rows = pa.table({"n": pa.array([2 * batch, 2 * batch + 1], pa.int64())})
        properties = CommitProperties(app_transactions=[Transaction(QUERY, batch)])
        options = storage_options(path, "lake")
        write_deltalake(path, rows, mode="append", commit_properties=properties, storage_options=options)
    return made


def numbers(of: StreamSpec, committed: int) -> list[object]:
    output = read_table(of, committed=committed)
    assert output.problems == ()
    return sorted(number for (number,) in output.rows)  # type: ignore[type-var]


def test_the_table_is_read_and_a_lost_file_is_noticed(spec: StreamSpec, store: ObjectStore) -> None:
    assert numbers(spec, 1) == [0, 1, 2, 3]
    lost = next(key for key in store.keys("origin") if key.endswith(".parquet"))
    with store.without(lost):
        output = read_table(spec, committed=1)
        assert (output.count, [p for p in output.problems if "is not there" in p] != []) == (2, True)


def test_a_launch_is_compared_with_it(spec: StreamSpec) -> None:
    end = spec.sink.end(spec, [QUERY], os.environ, 0.0)  # type: ignore[attr-defined]
    assert end.batch == 1


def test_a_fork_gets_copies_in_the_store(spec: StreamSpec) -> None:
    made = stream("fork", FORKED)
    assert forks.copy(spec, made, rewind=1, query_id=FORKED) == 1
    assert numbers(made, 0) == [0, 1]


def test_a_store_that_refuses_is_an_error_and_not_an_empty_table(
    spec: StreamSpec, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", store.connection(secret="wrong"))
    with pytest.raises(CheckpointError, match="cannot be read"):
        opened(str(spec.sink.path), "lake")


def test_a_stream_reads_it_and_its_fork_reads_copies_on_this_host(spec: StreamSpec, tmp_path: Path) -> None:
    reading = replace(spec, source=DeltaSource(path=str(spec.sink.path)))
    fork = forked_spec(reading, Places.under(str(tmp_path)), Feed.ORIGIN)
    assert isinstance(reading.source, DeltaSource)
    assert isinstance(fork.source, DeltaSource)
    assert reading.source.take_input(reading, fork, None, Feed.ORIGIN).unseen == 2
    files = fork.source.unread(fork, None).files
    assert all(file.path.startswith(str(tmp_path)) for file in files)
    for one in (reading, fork):
        read = one.source.rows(one, one.source.unread(one, None).files)  # type: ignore[attr-defined]
        assert sorted(n for table in read for n in table["n"].to_pylist()) == [0, 1, 2, 3]
