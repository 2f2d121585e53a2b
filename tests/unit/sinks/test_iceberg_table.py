"""An Iceberg table as Streamwarden reads it, without Spark: which batches it has, what contradicts the checkpoint, and
the table of a fork. The tables are real: pyiceberg writes them, with the properties that Spark's sink gives its
snapshots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from streamwarden.adapters.iceberg.metadata import BATCH, QUERY, TableMetadata
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import open_path
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.health.window import TableShape
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sinks.merging import columns_to_merge, merge_statement
from streamwarden.sinks.output import Output, WrittenFiles
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

MINE, OTHER = "query-1", "query-2"
Write = tuple[str | None, int]
"""The query and the batch of a snapshot; None: another program wrote it."""


def rows(count: int) -> pa.Table:
    return pa.table({"k": pa.array(range(count), pa.int64()), "city": pa.array(["JFK"] * count, pa.string())})


class Stream:
    """A stream's table and checkpoint in a folder, without Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spec = StreamSpec(
            name="s", job="/j.py", checkpoint=str(root / "checkpoint"), sink=IcebergSink(path=str(root / "table"))
        )
        (root / "checkpoint").mkdir()
        (root / "checkpoint" / "metadata").write_text(json.dumps({"id": MINE}))
        catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
        catalog.create_namespace("n")
        self.table = catalog.create_table("n.t", rows(0).schema, location=f"file://{root}/table")
        self._published = 0

    def write(self, *writes: Write) -> None:
        """Append one snapshot for each, of 10 rows, or of none for a batch with an odd number."""
        for query, batch in writes:
            given = {} if query is None else {QUERY: query, BATCH: str(batch)}
            self.table.append(rows(0 if batch % 2 else 10), snapshot_properties=given)
            self.publish()

    def publish(self) -> None:
        """Give the newest metadata the name that a Hadoop catalog gives it."""
        self._published += 1
        newest = Path(self.table.metadata_location.removeprefix("file://"))
        newest.with_name(f"v{self._published}.metadata.json").write_bytes(newest.read_bytes())

    def known(self) -> TableMetadata:
        table = table_of(self.spec)
        assert table is not None
        return table

    def read(self, committed: int | None, first: int = 0) -> Output:
        assert isinstance(self.spec.sink, IcebergSink)
        return self.spec.sink.read(self.spec, {}, committed=committed, first=first, deduplicated=True)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path)


def sink_of(spec: StreamSpec) -> IcebergSink:
    assert isinstance(spec.sink, IcebergSink)
    return spec.sink


def test_each_row_names_the_batch_that_wrote_it(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2), (None, 0), (OTHER, 0))
    output = stream.read(committed=2)
    assert output.problems == ()
    assert (output.count, output.columns) == (40, ("k", "city"))
    found = [batch for part in output.parts if part.batches is not None for batch in part.batches.to_pylist()]
    assert sorted(found, key=str) == [0] * 10 + [2] * 10 + [None] * 20


@pytest.mark.parametrize(
    ("writes", "committed", "problem"),
    [
        (
            [(MINE, 0), (MINE, 1), (MINE, 2)],
            1,
            "the table has batches up to 2, and the checkpoint has committed batch 1",
        ),
        ([(MINE, 0), (MINE, 1)], 2, "the table has batches up to 1, and the checkpoint has committed batch 2"),
        ([(OTHER, 0)], 0, "the table has no batch of this query, and the checkpoint has committed batch 0"),
        ([(MINE, 0), (MINE, 2)], 2, "the table has no snapshot of the committed batches 1"),
        ([(MINE, 0), (MINE, 0)], 0, "the table has the rows of the batches 0 more than once"),
    ],
)
def test_what_snapshots_and_commits_say_differently_is_a_problem(
    stream: Stream, writes: Sequence[Write], committed: int, problem: str
) -> None:
    stream.write(*writes)
    assert stream.read(committed).problems == (problem,)


def test_an_update_may_be_repeated_because_the_same_rows_replace_themselves(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 0))
    stream.spec = replace(stream.spec, sink=replace(stream.spec.sink, mode=OutputMode.UPDATE, key=("k",)))
    output = stream.read(0)
    assert output.problems == ()
    assert all(part.batches is None for part in output.parts), "a merge writes rows of other batches again"


def audited(stream: Stream, after: int, upto: int) -> WrittenFiles:
    written = sink_of(stream.spec).written(stream.spec, Range(after=after, upto=upto), None)
    assert written is not None
    return written


def test_an_audit_reads_the_files_of_its_batches_also_after_they_were_compacted(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2), (OTHER, 2), (MINE, 4))
    files = [audited(stream, -1, batch) for batch in (0, 2)]
    assert [(len(each.uris), each.problems) for each in files] == [(1, ()), (2, ())]
    stream.table.overwrite(rows(40))
    stream.publish()
    assert audited(stream, -1, 2) == files[-1]
    assert len(audited(stream, 0, 2).uris) == 1


def test_an_audit_names_a_lost_file_a_missing_batch_and_one_that_was_written_twice(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 2), (MINE, 2))
    whole = audited(stream, -1, 2)
    assert whole.problems == (
        "the table has no snapshot of the committed batch 1",
        "the table has the rows of batch 2 more than once",
    )
    lost = Path(whole.uris[0].removeprefix("file://"))
    lost.unlink()
    damaged = audited(stream, -1, 0)
    assert (damaged.uris, damaged.problems) == ((), (f"the snapshot of a batch names {lost.name}, which is not there",))


def test_an_audit_of_batches_whose_snapshots_were_expired_gives_no_verdict(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2))
    oldest = [snapshot.id for snapshot in stream.known().history][-1]
    stream.table.maintenance.expire_snapshots().by_id(oldest).commit()
    stream.publish()
    with pytest.raises(VerificationError, match="no longer has the snapshot of batch 0"):
        audited(stream, -1, 2)
    assert len(audited(stream, 0, 2).uris) == 1


def test_an_audit_of_merged_rows_is_not_possible(stream: Stream) -> None:
    stream.write((MINE, 0))
    merged = replace(stream.spec, sink=replace(stream.spec.sink, mode=OutputMode.UPDATE, key=("k",)))
    assert sink_of(merged).written(merged, Range(after=-1, upto=0), None) is None


def test_an_expired_snapshot_is_no_gap_because_its_rows_are_still_there(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2))
    oldest = [snapshot.id for snapshot in stream.known().history][-1]
    stream.table.maintenance.expire_snapshots().by_id(oldest).commit()
    stream.publish()
    assert (stream.known().is_whole, sorted(stream.known().batches([MINE]))) == (False, [1, 2])
    output = stream.read(2)
    assert (output.problems, output.count) == ((), 20)


def test_a_lost_data_file_is_a_problem_and_its_rows_are_not_read(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 2))
    lost = next((stream.root / "table" / "data").glob("*.parquet"))
    lost.unlink()
    output = stream.read(2, first=2)
    assert output.count == 10
    assert any(lost.name in problem for problem in output.problems)


def test_before_the_first_batch_there_is_no_table(tmp_path: Path) -> None:
    sink = IcebergSink(path=str(tmp_path / "none"))
    spec = StreamSpec(name="s", job="/j.py", checkpoint=str(tmp_path / "c"), sink=sink)
    assert sink.end(spec, [MINE], {}, 0.0) is None
    with pytest.raises(VerificationError, match="there is no table"):
        sink.read(spec, {}, committed=None, first=0, deduplicated=True)


def test_the_launch_check_sees_the_newest_batch_of_the_queries_that_count(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (OTHER, 7), (None, 0))
    end = sink_of(stream.spec).end(stream.spec, [MINE], {}, 0.0)
    assert end is not None
    assert end.batch == 1


def test_a_new_query_is_not_started_into_the_table_of_another_one(stream: Stream) -> None:
    stream.write((None, 0))
    assert sink_of(stream.spec).end(stream.spec, [MINE], {}, 0.0) is None
    stream.write((OTHER, 3), (OTHER, 4), (None, 0))
    end = sink_of(stream.spec).end(stream.spec, [MINE], {}, 0.0)
    assert end is not None
    assert (end.batch, OTHER in end.consequence) == (4, True)


def test_a_torn_metadata_file_is_named(stream: Stream) -> None:
    stream.write((MINE, 0))
    torn = stream.root / "table" / "metadata" / "v2.metadata.json"
    torn.write_text('{"location": ')
    with pytest.raises(CheckpointError, match=r"v2\.metadata\.json is no metadata"):
        table_of(stream.spec)


def fork_of(stream: Stream, query: str) -> StreamSpec:
    root = stream.root / "fork"
    (root / "checkpoint").mkdir(parents=True)
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": query}))
    sink = replace(stream.spec.sink, path=str(root / "output"))
    return replace(stream.spec, name="s__fork", checkpoint=str(root / "checkpoint"), sink=sink)


def test_a_fork_begins_with_the_rows_of_its_batch_and_copies_none(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2), (MINE, 3))
    forked = fork_of(stream, "fork-query")
    newest = sink_of(stream.spec).copy(stream.spec, forked, rewind=2, query_id="fork-query")
    assert newest == 3
    output = sink_of(forked).read(forked, {}, committed=1, first=2, deduplicated=True)
    assert (output.problems, output.count) == ((), 10)
    assert not (stream.root / "fork" / "output" / "data").exists()
    assert stream.read(3).count == 20
    table = table_of(forked)
    assert table is not None
    assert table.document["properties"]["gc.enabled"] == "false"


def test_a_fork_of_a_batch_without_a_snapshot_is_refused(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1))
    with pytest.raises(CheckpointError, match="no snapshot of batch -1 is kept: those of batches 0 to 1 are"):
        sink_of(stream.spec).copy(stream.spec, fork_of(stream, "q"), rewind=2, query_id="q")


def test_a_fork_from_the_beginning_has_the_columns_and_no_row(stream: Stream) -> None:
    stream.write((MINE, 0))
    forked = fork_of(stream, "q")
    sink_of(stream.spec).make_empty(stream.spec, forked)
    output = sink_of(forked).read(forked, {}, committed=None, first=0, deduplicated=True)
    assert (output.count, output.columns, output.problems) == (0, ("k", "city"), ())


def back_to(batch: int) -> Exchange:
    return Exchange(
        operation="restore",
        goes_back=True,
        subject="sp",
        command="",
        stream="s",
        query_id=MINE,
        batch=batch,
        stamp="now",
        by="ann",
        reason="test",
        checkpoint="/c",
    )


def test_a_restore_takes_later_batches_back_and_repeated_it_does_nothing(stream: Stream) -> None:
    stream.write((MINE, 0), (MINE, 1), (MINE, 2), (MINE, 3))
    sink = sink_of(stream.spec)
    plan = sink.plan_restore(stream.spec, back_to(1), open_path(stream.root))
    assert "2 snapshots after it are taken back" in plan.words
    assert sink.restore_output(stream.spec, back_to(1), b"")
    assert sink.restore_output(stream.spec, back_to(1), b"") == ""
    output = stream.read(committed=1)
    assert (output.count, output.problems) == (10, ())
    end = sink.end(stream.spec, [MINE], {}, 0.0)
    assert end is not None
    assert end.batch == 1


@pytest.mark.parametrize(
    ("writes", "batch", "why"),
    [
        ([(MINE, 0), (OTHER, 0)], 0, "another program has committed"),
        ([(MINE, 0), (None, 0), (MINE, 1)], 0, "another program has committed"),
        ([(MINE, 0)], 1, "no snapshot of batch 1"),
    ],
)
def test_a_restore_that_would_take_back_what_others_wrote_is_refused(
    stream: Stream, writes: Sequence[Write], batch: int, why: str
) -> None:
    stream.write(*writes)
    with pytest.raises(CheckpointError, match=why):
        sink_of(stream.spec).plan_restore(stream.spec, back_to(batch), open_path(stream.root))


@pytest.mark.parametrize(
    ("sink", "key"),
    [
        (IcebergSink(path="/t", mode=OutputMode.COMPLETE), "sink.mode"),
        (IcebergSink(path="s3a://lake/t"), "sink.path"),
        (IcebergSink(path="/t", mode=OutputMode.UPDATE), "sink.key"),
        (IcebergSink(path="/t", key=("k", "k")), "sink.key"),
        (IcebergSink(path="/t", mode=OutputMode.UPDATE, key=("k",), options={"a": "b"}), "sink.options"),
    ],
)
def test_what_the_declaration_may_not_say(sink: IcebergSink, key: str) -> None:
    assert [problem.dotted for problem in sink.problems()] == [key]


def test_a_null_in_the_key_equals_a_null() -> None:
    statement = merge_statement("c.`t`", "new_rows", ("a", "b`c"))
    assert "t.`a` <=> b.`a` AND t.`b``c` <=> b.`b``c`" in statement


def test_a_table_with_more_columns_than_the_batch_gets_those_of_the_batch() -> None:
    columns = columns_to_merge(["a", "n", "added"], ["A", "n"])
    statement = merge_statement("c.t", "b", ("a",), columns)
    assert "UPDATE SET t.`a` = b.`a`, t.`n` = b.`n` " in statement
    assert statement.endswith("INSERT (`a`, `n`) VALUES (b.`a`, b.`n`)")


def test_a_table_with_the_columns_of_the_batch_gets_them_all() -> None:
    """Also one that lacks a column: Delta takes it or leaves it, by its settings."""
    for table in (["a", "n"], ["a"]):
        assert merge_statement("c.t", "b", ("a",), columns_to_merge(table, ["a", "n"])).endswith("INSERT *")


def test_the_monitor_counts_the_files_and_the_manifests_of_the_table(stream: Stream) -> None:
    sink = sink_of(stream.spec)
    before = sink.shape(stream.spec)
    assert before is None
    stream.write((MINE, 0), (MINE, 1), (MINE, 2))
    shape = sink.shape(stream.spec)
    assert shape is not None
    assert (shape.files, shape.small, shape.log) == (2, 2, 2)
    assert shape.bytes == sum(file.stat().st_size for file in (stream.root / "table" / "data").glob("*.parquet"))
    assert shape.compact == "CALL streamwarden_iceberg.system.rewrite_data_files('table')"
    stream.table.overwrite(rows(40))
    stream.publish()
    compacted = sink.shape(stream.spec)
    assert compacted is not None
    assert compacted.files == 1


def test_a_small_file_is_as_old_as_the_snapshot_that_added_it(stream: Stream) -> None:
    stream.write(*[(MINE, 2 * batch) for batch in range(3)])
    known = stream.known()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableShape, "MANY", 2)
        shape = sink_of(stream.spec).shape(stream.spec)
    assert shape is not None
    assert shape.since == sorted(snapshot.at for snapshot in known.history)[1]
