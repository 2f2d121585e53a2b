"""An Iceberg table as a source: which data files each batch reads, what waits, what a fork gets, and what was expired.

The tables are made by pyiceberg, with offsets as Iceberg's source writes them; tests/engines/test_iceberg_source.py has
a stream.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from streamwarden.adapters.iceberg.table import table_in
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.errors import CheckpointError, TableInputGone
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.base import FinishedRun
from streamwarden.sources.iceberg.source import IcebergSource
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range

SCHEMA = pa.schema([("n", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


class Stream:
    """A stream that reads a table of a Hadoop catalog."""

    def __init__(self, root: Path) -> None:
        (root / "checkpoint").mkdir()
        catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
        catalog.create_namespace("n")
        self.table = catalog.create_table("n.t", SCHEMA, location=f"file://{root}/table")
        self.published = 0
        self.publish()
        self.spec = StreamSpec(
            name="s",
            job="/none.py",
            checkpoint=str(root / "checkpoint"),
            source=IcebergSource(path=str(root / "table")),
            sink=ParquetSink(path=str(root / "out")),
        )

    def publish(self) -> None:
        """Give the newest metadata the name that a Hadoop catalog gives it."""
        self.published += 1
        newest = Path(self.table.metadata_location.removeprefix("file://"))
        newest.with_name(f"v{self.published}.metadata.json").write_bytes(newest.read_bytes())

    def append(self, *numbers: int) -> int:
        """One snapshot with one file; returns its id."""
        at = [datetime(2013, 1, 1, number, tzinfo=UTC) for number in numbers]
        self.table.append(pa.table([pa.array(numbers, pa.int64()), pa.array(at, SCHEMA.field("at").type)], SCHEMA))
        self.publish()
        return self.newest

    @property
    def newest(self) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    @property
    def source(self) -> IcebergSource:
        assert isinstance(self.spec.source, IcebergSource)
        return self.spec.source

    def plan(self, *ends: tuple[int, int]) -> None:
        """Committed batches that end at (snapshot, position)."""
        root = Path(self.spec.checkpoint)
        (root / "metadata").write_text(json.dumps({"id": "00000001-0000-0000-0000-000000000000"}))
        for folder in ("offsets", "commits"):
            (root / folder).mkdir(exist_ok=True)
        conf = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
        for batch, (snapshot, position) in enumerate(ends):
            offset = {"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": False}
            (root / "offsets" / str(batch)).write_text(f"v1\n{conf}\n{json.dumps(offset)}")
            (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def read(self) -> dict[int, list[object]]:
        """Batch -> the numbers of the rows that it reads."""
        found = self.source.files_read(self.spec, checkpoint_of(self.spec), range(100))
        return {batch: self.numbers(files) for batch, files in found.items()}

    def waiting(self) -> list[object]:
        return self.numbers(self.source.unread(self.spec, checkpoint_of(self.spec)).files)

    def numbers(self, files: Any) -> list[object]:
        return [row["n"] for table in self.source.rows(self.spec, files) for row in table.to_pylist()]


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def test_a_query_reads_each_snapshot_of_the_history_once(stream: Stream) -> None:
    first, second, third = stream.append(0), stream.append(1, 2), stream.append(3)
    stream.plan((first, 1), (third, 0))
    assert stream.read() == {0: [0], 1: [1, 2]}
    assert stream.waiting() == [3]
    stream.plan((second, 0))
    assert stream.read()[0] == [0], "behind the whole of the snapshot before it"


def test_a_query_without_a_checkpoint_reads_from_the_oldest_snapshot_or_from_a_time(stream: Stream) -> None:
    stream.append(0)
    second = stream.append(1)
    assert stream.numbers(stream.source.unread(stream.spec, None).files) == [0, 1]
    snapshot = stream.table.snapshot_by_id(second)
    assert snapshot is not None
    later = replace(stream.source, starting_timestamp=snapshot.timestamp_ms)
    assert stream.numbers(later.unread(stream.spec, None).files) == [1]


def test_a_snapshot_that_overwrites_or_deletes_is_not_read(stream: Stream) -> None:
    first = stream.append(0)
    stream.append(1)
    stream.table.delete("n = 1")
    stream.publish()
    stream.append(2)
    stream.plan((first, 1))
    assert stream.waiting() == [1, 2]


def test_an_empty_table_has_nothing_that_waits(stream: Stream, tmp_path: Path) -> None:
    assert stream.source.waiting(stream.spec, checkpoint_of(stream.spec)).count == 0
    none = replace(stream.spec, source=IcebergSource(path=str(tmp_path / "none")))
    assert IcebergSource.waiting(none.source, none, checkpoint_of(none)).count == 0  # type: ignore[arg-type]


def test_what_waits_is_counted_with_the_pace_of_recent_batches(stream: Stream) -> None:
    first, second = stream.append(0), stream.append(1)
    stream.append(2)
    stream.plan((first, 1), (second, 1))
    found = stream.source.waiting(stream.spec, checkpoint_of(stream.spec))
    assert (found.count, found.planned, found.planned_batches, found.lost) == (1, 1, 1, {})


def expired(stream: Stream) -> None:
    """The metadata of the newest version without its oldest snapshot, as `expire_snapshots` leaves it."""
    file = Path(stream.spec.source.path or "") / "metadata" / f"v{stream.published}.metadata.json"
    document = json.loads(file.read_text())
    document["snapshots"] = document["snapshots"][1:]
    file.write_text(json.dumps(document))


def test_a_snapshot_that_was_expired_below_the_offset_is_lost_input(stream: Stream) -> None:
    first = stream.append(0)
    stream.append(1)
    stream.plan((first, 1))
    stream.source.require_planned(stream.spec)  # negative control: nothing is gone yet
    expired(stream)
    (lost,) = stream.source.waiting(stream.spec, checkpoint_of(stream.spec)).lost
    assert str(first) in lost
    with pytest.raises(TableInputGone, match=str(first)):
        stream.source.require_planned(stream.spec)


def test_an_expired_snapshot_that_was_read_is_no_loss(stream: Stream) -> None:
    stream.append(0)
    second = stream.append(1)
    stream.plan((second, 1))
    expired(stream)
    stream.source.require_planned(stream.spec)
    assert not stream.source.waiting(stream.spec, checkpoint_of(stream.spec)).lost


def test_the_rows_of_each_batch_are_read_back_as_lines(stream: Stream, tmp_path: Path) -> None:
    first = stream.append(0)
    stream.append(1)
    stream.plan((first, 1))
    run = FinishedRun(checkpoint=checkpoint_of(stream.spec), committed=0, into=tmp_path / "lines", bounded_from=0)
    given = stream.source.read_back(stream.spec, run)
    assert [path.read_text() for path in given.files[0]] == ['{"n": 0, "at": "2013-01-01T00:00:00.000Z"}\n']
    assert [json.loads(path.read_text())["n"] for path in given.inputs] == [0, 1], "and what was never read"


def test_an_audit_gets_the_files_of_its_batches_with_the_columns_of_the_table(stream: Stream) -> None:
    first, second = stream.append(0), stream.append(1)
    stream.plan((first, 1), (second, 1))
    described: Any = IcebergSource.audited(stream.spec, checkpoint_of(stream.spec), Range(after=0, upto=1))
    assert [batch for _, batch, _ in described["files"]] == [1]
    assert [(one["name"], one["type"]) for one in described["schema"]["fields"]] == [("n", "long"), ("at", "timestamp")]


def test_an_audit_of_a_table_with_a_renamed_column_is_refused(stream: Stream) -> None:
    """Spark's parquet reader would find no such column in the older files, and give null."""
    first = stream.append(0)
    with stream.table.update_schema() as update:
        update.rename_column("n", "number")
    stream.publish()
    stream.plan((first, 1))
    described: Any = IcebergSource.audited(stream.spec, checkpoint_of(stream.spec), Range(after=-1, upto=0))
    assert "renamed" in described["refused"]


def test_a_fork_reads_a_table_of_its_own_with_the_snapshots_and_files_of_its_origin(
    stream: Stream, tmp_path: Path
) -> None:
    first, _ = stream.append(0), stream.append(1)
    stream.plan((first, 1))
    fork = forked_spec(stream.spec, Places.under(str(tmp_path / "fork")), Feed.ORIGIN)
    taken = stream.source.take_input(stream.spec, fork, stream.spec.checkpoint, Feed.ORIGIN)
    assert (taken.total, taken.unseen) == (2, 1)
    stream.append(2)
    mine, its = (table_in(str(spec.source.path), None) for spec in (stream.spec, fork))
    assert mine is not None
    assert its is not None
    assert [one.id for one in its.history] == [one.id for one in mine.history][1:], "all but what came later"
    assert IcebergSource.unplanned(fork.source, fork) == 2  # type: ignore[arg-type]


def test_a_fork_of_lost_input_is_refused(stream: Stream, tmp_path: Path) -> None:
    first = stream.append(0)
    stream.append(1)
    stream.plan((first, 1))
    expired(stream)
    fork = forked_spec(stream.spec, Places.under(str(tmp_path / "fork")), Feed.ORIGIN)
    with pytest.raises(CheckpointError, match="no longer has what the fork has to read"):
        stream.source.take_input(stream.spec, fork, stream.spec.checkpoint, Feed.ORIGIN)


@pytest.mark.parametrize("option", ["stream-from-timestamp", "streaming-max-rows-per-micro-batch", "Path"])
def test_what_has_a_key_of_its_own_is_no_option(option: str) -> None:
    (problem,) = IcebergSource(path="/t", options={option: "1"}).problems()
    assert problem.key == ("source", "options", option)
