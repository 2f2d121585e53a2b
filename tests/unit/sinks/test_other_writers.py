"""Another program that writes a stream's table: what drills do to it leaves every row, and is seen in its history.

The tables are real: delta-rs and pyiceberg write them. tests/engines/test_table_faults.py has those of Spark.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

from streamwarden.adapters.delta.log import LOG, is_hint_stale, versions
from streamwarden.adapters.iceberg.metadata import BATCH, QUERY, TableMetadata
from streamwarden.adapters.iceberg.table import HINT, METADATA, table_of
from streamwarden.adapters.storage.files import open_path
from streamwarden.drills.tables import ADDED_COLUMN, OtherWriter, Removed
from streamwarden.errors import BatchUnknown, DrillError
from streamwarden.lifecycle.failures.causes import cause_of
from streamwarden.lifecycle.failures.error_chain import ErrorLink
from streamwarden.sinks.base import Sink
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.iceberg.other_writer import FolderCatalog
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sinks.iceberg.writer import has_batch
from streamwarden.sinks.output import Output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StreamSpec

MINE = "query-1"


def rows(number: int) -> pa.Table:
    return pa.table({"k": pa.array([number, number], pa.int64())})


class Table:
    """A stream's table with the batches 0 and 1, and another writer of it."""

    def __init__(self, root: Path, kind: str) -> None:
        path = str(root / "lake" / "table")
        self.sink: Sink = DeltaSink(path=path) if kind == "delta" else IcebergSink(path=path)
        self.spec = StreamSpec(name="s", job="/j.py", checkpoint=str(root / "checkpoint"), sink=self.sink)
        (root / "checkpoint").mkdir(parents=True)
        (root / "checkpoint" / "metadata").write_text(json.dumps({"id": MINE}))
        if kind == "iceberg":
            catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
            catalog.create_namespace("n")
            made = catalog.create_table("n.t", rows(0).schema, location=f"file://{path}")
            first = Path(made.metadata_location.removeprefix("file://"))
            first.rename(first.with_name("v1.metadata.json"))
            (first.parent / HINT).write_text("1")
        for batch in (0, 1):
            self.write(batch)
        self.other: OtherWriter = self.sink.other_writer(self.spec)

    def write(self, batch: int, given: pa.Table | None = None) -> None:
        added = rows(batch) if given is None else given
        if isinstance(self.sink, DeltaSink):
            properties = CommitProperties(app_transactions=[Transaction(MINE, batch)])
            write_deltalake(self.sink.path, added, mode="append", commit_properties=properties)
            return
        table = FolderCatalog(self.spec).load()
        assert table is not None
        table.append(added, snapshot_properties={QUERY: MINE, BATCH: str(batch)})

    def read(self, committed: int = 1) -> Output:
        return self.sink.read(self.spec, {}, committed=committed, first=0, deduplicated=True)

    @property
    def keys(self) -> list[object]:
        return sorted(int(str(key)) for _, (key,) in self.read().keyed((), ("k",)))


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(tmp_path, request.param)


def test_commits_before_a_batch_stand_between_what_was_the_newest_version_and_its_own(table: Table) -> None:
    since = table.other.newest()
    assert table.other.commit()
    assert table.other.compact()
    assert table.other.commit_of(2, since) is None
    table.write(2)
    assert table.other.commit()
    found = table.other.commit_of(2, since)
    assert found is not None
    assert len(found.others) >= 2  # pyiceberg overwrites in two snapshots
    assert table.read(committed=2).problems == ()
    assert table.keys == [0, 0, 1, 1, 2, 2]


def test_a_batch_that_nobody_disturbed_has_none_between(table: Table) -> None:
    """The negative control: what came before it and after it does not count."""
    assert table.other.commit()
    since = table.other.newest()
    table.write(2)
    assert table.other.commit()
    found = table.other.commit_of(2, since)
    assert found is not None
    assert found.others == ()


def test_a_cleaned_table_has_its_rows_and_none_of_its_old_versions(table: Table) -> None:
    assert table.other.compact()
    removed = table.other.clean()
    assert len(removed.data) == 2
    assert removed.versions
    assert table.keys == [0, 0, 1, 1]
    folder = Path(str(table.spec.sink.path))
    assert {file.name for file in folder.rglob("*.parquet")}.isdisjoint(name.split("/")[-1] for name in removed.data)
    table.write(2)
    assert table.keys == [0, 0, 1, 1, 2, 2]


def test_the_newest_batch_is_known_after_a_cleaning_in_delta_and_not_in_iceberg(table: Table) -> None:
    table.other.compact()
    table.other.clean()
    end = table.sink.end(table.spec, [MINE], {}, 0.0)
    assert (None if end is None else end.batch) == (1 if isinstance(table.sink, DeltaSink) else None)


def test_a_table_whose_file_of_the_log_is_lost_is_read_all_the_same(table: Table) -> None:
    lost = table.other.lose_log_file()
    folder = Path(str(table.spec.sink.path))
    assert lost is not None
    assert not (folder / lost).exists()
    assert table.keys == [0, 0, 1, 1]
    assert table.sink.shape(table.spec) is not None
    assert table.other.lose_log_file() == lost


def test_a_log_without_its_first_commits_keeps_its_checkpoint(tmp_path: Path) -> None:
    table = Table(tmp_path, "delta")
    table.other.clean()
    log = Path(str(table.spec.sink.path)) / LOG
    before = sorted(log.iterdir())
    assert table.other.lose_log_file() is None
    assert sorted(log.iterdir()) == before


def test_delta_rs_itself_does_not_open_a_log_whose_checkpoint_is_lost(tmp_path: Path) -> None:
    """The negative control of the reader's way around it."""
    table = Table(tmp_path, "delta")
    table.other.lose_log_file()
    assert is_hint_stale(open_path(str(table.spec.sink.path)))
    with pytest.raises(Exception, match="_last_checkpoint"):
        DeltaTable(str(table.spec.sink.path))


def test_two_writers_never_make_the_same_version_of_an_iceberg_table(tmp_path: Path) -> None:
    table = Table(tmp_path, "iceberg")
    catalog = FolderCatalog(table.spec)
    slow, fast = catalog.load(), catalog.load()
    assert slow is not None
    assert fast is not None
    before = table_of(table.spec)
    assert before is not None
    fast.append(rows(9))
    taken = (Path(before.file).parent / f"v{before.version + 1}.metadata.json").read_bytes()
    with pytest.raises(CommitFailedException):
        slow.append(rows(8))
    assert (Path(before.file).parent / f"v{before.version + 1}.metadata.json").read_bytes() == taken
    assert table.keys == [0, 0, 1, 1, 9, 9]
    assert not list(Path(before.file).parent.glob("*.part"))


def test_a_snapshot_that_a_stream_has_staged_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    """It has the next number of the table, although readers do not see it yet."""
    table = Table(tmp_path, "iceberg")
    slow, before = FolderCatalog(table.spec).load(), table_of(table.spec)
    assert slow is not None
    assert before is not None
    staged = {**before.document, "last-sequence-number": before.document["last-sequence-number"] + 1}
    (Path(before.file).parent / f"v{before.version + 1}.metadata.json").write_text(json.dumps(staged))
    with pytest.raises(CommitFailedException):
        slow.append(rows(8))


def test_a_column_that_a_drill_added_is_left_out_of_the_output_while_it_has_only_nulls(table: Table) -> None:
    assert table.other.add_column(ADDED_COLUMN)
    assert list(table.other.columns()) == ["k", ADDED_COLUMN]
    output = table.read()
    assert (output.columns, table.keys) == (("k",), [0, 0, 1, 1])
    assert output.notes["only_nulls"] == ADDED_COLUMN


def test_a_column_that_a_drill_added_counts_if_it_has_a_value(table: Table) -> None:
    """The negative control."""
    table.other.add_column(ADDED_COLUMN)
    table.write(2, pa.table({"k": pa.array([2], pa.int64()), ADDED_COLUMN: ["x"]}))
    assert table.read(committed=2).columns == ("k", ADDED_COLUMN)


def test_another_column_with_nothing_but_nulls_counts(table: Table) -> None:
    table.other.add_column("other")
    assert table.read().columns == ("k", "other")


def expired(root: Path) -> Table:
    """A table whose snapshots of the query are all expired, after another program's compaction."""
    table = Table(root, "iceberg")
    table.other.compact()
    table.other.clean()
    return table


def known(table: Table) -> TableMetadata:
    found = table_of(table.spec)
    assert found is not None
    return found


def test_a_batch_that_an_earlier_driver_planned_is_not_written_if_all_snapshots_of_the_query_are_expired(
    tmp_path: Path,
) -> None:
    table = expired(tmp_path)
    with pytest.raises(BatchUnknown, match="an earlier driver may have written batch 2"):
        has_batch(known(table), MINE, 2, planned_before=2)


@pytest.mark.parametrize(("marked", "there"), [(2, True), (1, False)])
def test_a_snapshot_without_rows_says_whether_the_table_has_that_batch(
    marked: int, there: bool, tmp_path: Path
) -> None:
    """The way out that the error names."""
    table = expired(tmp_path)
    loaded = FolderCatalog(table.spec).load()
    assert loaded is not None
    nothing = loaded.schema().as_arrow().empty_table()
    loaded.append(nothing, snapshot_properties={QUERY: MINE, BATCH: str(marked)})
    assert has_batch(known(table), MINE, 2, planned_before=2) is there
    assert table.keys == [0, 0, 1, 1]


def test_a_batch_that_this_driver_planned_itself_is_written(tmp_path: Path) -> None:
    """The negative controls: no earlier driver can have written it; or every snapshot is kept."""
    table = expired(tmp_path)
    assert not has_batch(known(table), MINE, 3, planned_before=2)
    assert not has_batch(known(table), MINE, 0, planned_before=None)
    whole = Table(tmp_path / "whole", "iceberg")
    assert has_batch(known(whole), MINE, 1, planned_before=2)
    assert not has_batch(known(whole), MINE, 2, planned_before=2)
    assert not has_batch(known(whole), "another query", 2, planned_before=2)


def test_the_exit_names_the_cause_and_the_way_out() -> None:
    cause = cause_of([ErrorLink(kind="streamwarden.errors.BatchUnknown", message="")])
    assert cause is not None
    assert (cause.code, cause.curable) == ("table_batch_unknown", False)


def test_a_table_that_no_batch_has_made_takes_no_commit(tmp_path: Path) -> None:
    for kind in (DeltaSink, IcebergSink):
        sink = kind(path=str(tmp_path / kind.__name__ / "table"))
        other = sink.other_writer(StreamSpec(name="s", job="/j.py", checkpoint=str(tmp_path), sink=sink))
        assert other.newest() is None
        assert not other.commit()
        assert not other.compact()
        assert other.clean() == Removed(data=(), log=(), versions=())


def test_a_folder_of_files_has_no_other_writer(tmp_path: Path) -> None:
    sink = ParquetSink(path=str(tmp_path))
    with pytest.raises(DrillError, match="no table of files"):
        sink.other_writer(StreamSpec(name="s", job="/j.py", checkpoint=str(tmp_path), sink=sink))


def test_a_commit_is_a_version_of_the_delta_log(tmp_path: Path) -> None:
    table = Table(tmp_path, "delta")
    before = versions(open_path(str(table.spec.sink.path)))
    assert table.other.commit()
    assert versions(open_path(str(table.spec.sink.path))) == [*before, before[-1] + 1]
    assert METADATA not in {file.name for file in Path(str(table.spec.sink.path)).iterdir()}
