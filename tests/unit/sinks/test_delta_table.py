"""A Delta table is read by its log: what a batch of which query wrote, and what the log or the folder lacks.

The tables are made by delta-rs, with the action `txn` that Spark's sink writes; tests/engines/test_delta.py has those
of Spark.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from streamwarden.adapters.delta.log import LOG, commit_name, own_batches
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.batch_progress import ListedOutput, read_traces
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.health.window import TableShape
from streamwarden.services.fleet.recorded_starts import read_logs
from streamwarden.sinks.delta import forks
from streamwarden.sinks.delta.output import read_table
from streamwarden.sinks.delta.shape import shape_of
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.delta.written import written_files
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.balance import Range

QUERY, OTHER, FORKED = (f"0000000{n}-0000-0000-0000-000000000000" for n in (1, 2, 3))


def stream(root: Path, query: str = QUERY) -> StreamSpec:
    """A stream with a checkpoint of the query, and its output beside it."""
    (root / "checkpoint").mkdir(parents=True)
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": query}))
    sink = DeltaSink(path=str(root / "a table"))
    return StreamSpec(name="s", job="/none.py", checkpoint=str(root / "checkpoint"), sink=sink)


def write(spec: StreamSpec, batch: int, *numbers: int, query: str = QUERY, **how: object) -> None:
    """A batch of the query."""
    when = pa.array([datetime(2013, 1, 1, number, tzinfo=UTC) for number in numbers], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"at": when, "n": pa.array(numbers, pa.int64()), "word": [f"n {n}%" for n in numbers]})
    properties = CommitProperties(app_transactions=[Transaction(query, batch)])
    write_deltalake(str(spec.sink.path), rows, mode="append", commit_properties=properties, **how)  # type: ignore[call-overload]


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    """A stream of three batches, in a folder whose name has a blank."""
    made = stream(tmp_path)
    for batch in range(3):
        write(made, batch, 2 * batch, 2 * batch + 1)
    return made


def numbers(output: Output) -> list[object]:
    return sorted(int(str(number)) for _, (number,) in output.keyed(("at",), ("n",)))


def log_of(spec: StreamSpec) -> Path:
    return Path(str(spec.sink.path)) / LOG


def test_every_row_is_read_with_its_types_and_the_batch_of_its_file(spec: StreamSpec) -> None:
    output = read_table(spec, committed=2)
    assert numbers(output) == [0, 1, 2, 3, 4, 5]
    assert (output.problems, output.files, output.columns) == ((), 3, ("at", "n", "word"))
    assert {name: kinds[0].shown for name, kinds in output.types.items()} == {
        "at": "timestamp",
        "n": "bigint",
        "word": "string",
    }
    assert [part.batches.to_pylist() for part in sorted(output.parts, key=lambda part: part.rows(("n",)))] == [
        [0, 0],
        [1, 1],
        [2, 2],
    ]


def test_partition_columns_are_read_from_the_log(tmp_path: Path) -> None:
    """Spark and delta-rs leave them out of the data files, and encode their values in the folders' names."""
    spec = stream(tmp_path)
    write(spec, 0, 1, 2, partition_by=["word"])
    output = read_table(spec, committed=0)
    assert sorted(words for _, words in output.keyed((), ("n", "word"))) == [(1, "n 1%"), (2, "n 2%")]
    assert output.problems == ()


def test_a_batch_that_the_checkpoint_has_and_the_table_lacks_is_a_problem(spec: StreamSpec) -> None:
    (problem,) = [p for p in read_table(spec, committed=3).problems if "batches up to 2" in p]
    assert "committed batch 3" in problem


def test_a_table_without_this_query_is_a_problem(spec: StreamSpec, tmp_path: Path) -> None:
    other = stream(tmp_path / "other", OTHER)
    output = read_table(StreamSpec(name="s", job="", checkpoint=other.checkpoint, sink=spec.sink), committed=2)
    assert any("no batch of this query" in problem for problem in output.problems)


def test_a_batch_that_delta_skipped_is_a_problem(tmp_path: Path) -> None:
    """As after an older checkpoint: the query committed a batch, and the table took no rows of it."""
    spec = stream(tmp_path)
    write(spec, 0, 1)
    write(spec, 2, 3)
    assert [p for p in read_table(spec, committed=2).problems if "batch 1" in p]


def test_a_data_file_that_is_gone_is_a_problem_and_the_other_rows_are_read(spec: StreamSpec) -> None:
    gone = own_batches(open_path(str(spec.sink.path)), QUERY)[1].added[0]
    Path(gone).unlink()
    output = read_table(spec, committed=2)
    assert numbers(output) == [0, 1, 4, 5]
    assert [problem for problem in output.problems if "is not there" in problem]


def test_a_damaged_data_file_is_a_problem(spec: StreamSpec) -> None:
    file = Path(own_batches(open_path(str(spec.sink.path)), QUERY)[1].added[0])
    file.write_bytes(file.read_bytes()[:-9])
    assert [problem for problem in read_table(spec, committed=2).problems if "cannot be read" in problem]


def test_a_log_with_a_gap_gives_no_verdict(spec: StreamSpec) -> None:
    (log_of(spec) / commit_name(1)).unlink()
    with pytest.raises(VerificationError, match="cannot be verified"):
        read_table(spec, committed=2)


def test_without_a_table_there_is_no_output(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="no output"):
        read_table(stream(tmp_path), committed=0)


def test_a_compacted_table_has_the_same_rows_and_each_batch(spec: StreamSpec) -> None:
    DeltaTable(str(spec.sink.path)).optimize.compact()
    output = read_table(spec, committed=2)
    assert (numbers(output), output.problems, output.files) == ([0, 1, 2, 3, 4, 5], (), 1)
    assert [part.batches for part in output.parts] == [None]


def test_after_a_checkpoint_the_old_commits_may_be_gone(spec: StreamSpec) -> None:
    DeltaTable(str(spec.sink.path)).create_checkpoint()
    (log_of(spec) / commit_name(0)).unlink()
    (log_of(spec) / commit_name(1)).unlink()
    output = read_table(spec, committed=2)
    assert (numbers(output), output.problems) == ([0, 1, 2, 3, 4, 5], ())


def test_a_drill_sees_the_files_of_a_batch_and_when_it_was_committed(spec: StreamSpec) -> None:
    root, checkpoint = open_path(str(spec.sink.path)), Path(spec.checkpoint)
    (checkpoint / "offsets").mkdir()
    (checkpoint / "offsets" / "3").write_text("v1")
    output = ListedOutput(root, LOG, partial(spec.sink.listed_at, spec))  # type: ignore[attr-defined]
    assert not read_traces(open_path(str(checkpoint)), output, 3).listed
    write(spec, 3, 6)
    traces = read_traces(open_path(str(checkpoint)), output, 3)
    assert (traces.files, traces.listed) == (1, True)
    assert traces.listed_at == (log_of(spec) / commit_name(3)).stat().st_mtime
    assert spec.sink.listed_at(spec, 7) is None  # type: ignore[attr-defined]


def test_a_start_records_the_batch_that_delta_will_not_execute_again(spec: StreamSpec) -> None:
    write(spec, 9, 7, query=OTHER)
    assert read_logs(spec)["sink"] == "2"
    merged = replace(spec, sink=DeltaSink(path=str(spec.sink.path), mode=OutputMode.UPDATE, key=("n",)))
    assert "sink" not in read_logs(merged)


def test_the_monitor_counts_files_and_the_log_after_its_checkpoint(spec: StreamSpec) -> None:
    path = str(spec.sink.path)
    shape = shape_of(path, None)
    assert shape is not None
    assert (shape.files, shape.small, shape.log) == (3, 3, 3)
    assert shape.bytes == sum(file.stat().st_size for file in Path(path).glob("*.parquet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableShape, "MANY", 2)
        aged = shape_of(path, None)
    assert aged is not None
    assert aged.since is not None
    assert time.time() - 600 < aged.since <= time.time()
    DeltaTable(path).create_checkpoint()
    write(spec, 3, 8)
    DeltaTable(path).optimize.compact()
    shape = shape_of(path, None)
    assert shape is not None
    assert (shape.files, shape.log, shape.compact) == (1, 2, f"OPTIMIZE delta.`file:{path}`")


def test_there_is_no_shape_before_the_first_batch(tmp_path: Path) -> None:
    assert shape_of(str(tmp_path / "none"), None) is None


# Before a launch.


def test_a_launch_sees_the_newest_batch_of_its_query(spec: StreamSpec) -> None:
    end = spec.sink.end(spec, [QUERY], {}, 0.0)  # type: ignore[attr-defined]
    assert (end.batch, "skip" in end.consequence, bool(end.give_way)) == (2, True, True)


def test_a_launch_with_a_new_checkpoint_sees_what_another_query_wrote(spec: StreamSpec) -> None:
    end = spec.sink.end(spec, [OTHER], {}, 0.0)  # type: ignore[attr-defined]
    assert (end.batch, QUERY in end.consequence, end.give_way) == (2, True, "")


def test_a_table_that_several_queries_write_stops_none_of_them(spec: StreamSpec) -> None:
    write(spec, 0, 7, query=OTHER)
    end = spec.sink.end(spec, [OTHER], {}, 0.0)  # type: ignore[attr-defined]
    assert end.batch == 0


def test_no_table_stops_no_launch(tmp_path: Path) -> None:
    made = stream(tmp_path)
    assert made.sink.end(made, [QUERY], {}, 0.0) is None  # type: ignore[attr-defined]


# Forked.


def forked(spec: StreamSpec, tmp_path: Path, **how: int) -> tuple[StreamSpec, int]:
    made = stream(tmp_path / "fork", FORKED)
    return made, forks.copy(spec, made, rewind=how.get("rewind", 0), query_id=FORKED, upto=how.get("upto"))


def test_a_fork_has_the_rows_up_to_its_batch_and_its_own_query(spec: StreamSpec, tmp_path: Path) -> None:
    made, newest = forked(spec, tmp_path, rewind=1)
    assert newest == 2
    output = read_table(made, committed=1, first=2)
    assert (numbers(output), output.problems) == ([0, 1, 2, 3], ())
    assert sorted(part.batches.to_pylist() for part in output.parts) == [[0, 0], [1, 1]]
    assert made.sink.end(made, [FORKED], {}, 0.0).batch == 1  # type: ignore[attr-defined]


def test_a_fork_goes_on_and_its_origin_does_not_change(spec: StreamSpec, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in Path(str(spec.sink.path)).rglob("*") if file.is_file()}
    made, _ = forked(spec, tmp_path, rewind=1)
    write(made, 2, 9, query=FORKED)
    table = DeltaTable(str(made.sink.path))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert numbers(read_table(made, committed=2, first=2)) == [0, 1, 2, 3, 9]
    assert {file: file.read_bytes() for file in Path(str(spec.sink.path)).rglob("*") if file.is_file()} == before


def test_a_fork_begins_before_a_compaction_that_came_later(spec: StreamSpec, tmp_path: Path) -> None:
    DeltaTable(str(spec.sink.path)).optimize.compact()
    write(spec, 3, 8)
    made, _ = forked(spec, tmp_path, upto=1)
    assert numbers(read_table(made, committed=1, first=2)) == [0, 1, 2, 3]


@pytest.mark.parametrize(("how", "what"), [({"rewind": 3}, "none 3 before that"), ({"upto": 5}, "not yet batch 5")])
def test_there_is_no_fork_at_a_batch_that_is_not_there(
    spec: StreamSpec, tmp_path: Path, how: dict[str, int], what: str
) -> None:
    with pytest.raises(CheckpointError, match=what):
        forked(spec, tmp_path, **how)


def test_there_is_no_fork_at_a_batch_whose_commit_was_removed(spec: StreamSpec, tmp_path: Path) -> None:
    DeltaTable(str(spec.sink.path)).create_checkpoint()
    (log_of(spec) / commit_name(0)).unlink()
    with pytest.raises(CheckpointError, match="no longer has the commit of batch 0"):
        forked(spec, tmp_path, rewind=2)


# Audited.


def test_an_audit_reads_the_files_of_its_batches(spec: StreamSpec) -> None:
    DeltaTable(str(spec.sink.path)).optimize.compact()  # rewrites their rows
    found = written_files(open_path(str(spec.sink.path)), QUERY, Range(after=0, upto=2))
    assert (len(found.uris), found.problems, found.format) == (2, (), "parquet")


def test_an_audit_says_what_vacuum_removed(spec: StreamSpec) -> None:
    table = DeltaTable(str(spec.sink.path))
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    found = written_files(open_path(str(spec.sink.path)), QUERY, Range(after=0, upto=3))
    assert (found.uris, len(found.problems)) == ((), 3)  # two files, and batch 3, which the table lacks


# Declared.


@pytest.mark.parametrize(
    ("sink", "key"),
    [
        (DeltaSink(path="/t", mode=OutputMode.UPDATE), "sink.key"),
        (DeltaSink(path="/t", mode=OutputMode.COMPLETE), "sink.mode"),
        (DeltaSink(path="hdfs://n/t"), "sink.path"),
        (DeltaSink(path="/t", options={"txnVersion": "1"}), "sink.options.txnVersion"),
    ],
)
def test_what_the_sink_cannot_do_is_refused(sink: DeltaSink, key: str) -> None:
    assert [problem.dotted for problem in sink.problems()] == [key]


def test_a_declaration_without_a_fault_is_accepted() -> None:
    assert list(DeltaSink(path="/t").problems()) == []
    assert list(DeltaSink(path="/t", mode=OutputMode.UPDATE, key=("k",)).problems()) == []
