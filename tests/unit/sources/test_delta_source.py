"""A Delta table as a source: which data files each batch reads, what waits, what a fork gets, and what the table lacks.

The tables are made by delta-rs, with offsets as Delta's source writes them; tests/engines/test_delta.py has a stream.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from streamwarden.adapters.delta.log import LOG, commit_name
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.errors import CheckpointError, TableInputGone, VerificationError
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.forks.spec import forked_spec
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.base import FinishedRun
from streamwarden.sources.delta.source import DeltaSource
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range

BEHIND = -1


@pytest.fixture
def spec(tmp_path: Path) -> StreamSpec:
    """A stream that reads a table of four commits: 0 and 1 each with the rows of one file, 2 a compaction, 3 two."""
    table = tmp_path / "a table"
    append(table, 0)
    append(table, 1)
    DeltaTable(table).optimize.z_order(["n"])
    append(table, 2, 3)
    (tmp_path / "checkpoint").mkdir()
    return StreamSpec(
        name="s",
        job="/none.py",
        checkpoint=str(tmp_path / "checkpoint"),
        source=DeltaSource(path=str(table)),
        sink=ParquetSink(path=str(tmp_path / "out")),
    )


def append(table: Path, *numbers: int) -> None:
    """One commit with a file for each number, in this order: its rows are in a partition of their own."""
    at = [datetime(2013, 1, 1, number, tzinfo=UTC) for number in numbers]
    rows = pa.table({"n": pa.array(numbers, pa.int64()), "at": pa.array(at, pa.timestamp("us", tz="UTC"))})
    rows = rows.append_column("day", pa.array([f"day {number}" for number in numbers]))
    write_deltalake(str(table), rows, mode="append", partition_by=["day"])
    file = table / LOG / commit_name(DeltaTable(table).version())
    actions = sorted(file.read_text().splitlines(), key=lambda line: json.loads(line).get("add", {}).get("path", ""))
    file.write_text("\n".join(actions))  # delta-rs writes the files of a commit in any order


def plan(spec: StreamSpec, *ends: tuple[int, int, bool], committed: int | None = None) -> None:
    """Batches that end at (version, index, of the whole table)."""
    root = Path(spec.checkpoint)
    (root / "metadata").write_text(json.dumps({"id": "00000001-0000-0000-0000-000000000000"}))
    for folder in ("offsets", "commits"):
        (root / folder).mkdir(exist_ok=True)
    conf = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}})
    for batch, (version, index, snapshot) in enumerate(ends):
        offset = {"sourceVersion": 1, "reservoirId": "t", "reservoirVersion": version, "index": index}
        offset["isStartingVersion"] = snapshot
        (root / "offsets" / str(batch)).write_text(f"v1\n{conf}\n{json.dumps(offset)}")
        if batch <= (len(ends) - 1 if committed is None else committed):
            (root / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def source_of(spec: StreamSpec) -> DeltaSource:
    assert isinstance(spec.source, DeltaSource)
    return spec.source


def read(spec: StreamSpec) -> dict[int, list[str | None]]:
    """Batch -> the days of the files that it reads."""
    found = source_of(spec).files_read(spec, checkpoint_of(spec), range(100))
    return {batch: [file.partition["day"] for file in files] for batch, files in found.items()}


def waiting(spec: StreamSpec) -> list[str | None]:
    return [file.partition["day"] for file in source_of(spec).unread(spec, checkpoint_of(spec)).files]


def commit(spec: StreamSpec, version: int) -> Path:
    return Path(str(spec.source.path)) / LOG / commit_name(version)


def test_a_query_reads_the_table_as_of_its_beginning_file_by_file_and_then_each_commit(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False), (3, 0, False))
    assert read(spec) == {0: ["day 0"], 1: ["day 1"], 2: ["day 2"]}
    assert waiting(spec) == ["day 3"]


def test_a_first_batch_that_ends_behind_the_table_read_all_of_it(spec: StreamSpec) -> None:
    plan(spec, (2, BEHIND, False))
    assert read(spec) == {0: ["day 0", "day 1"]}


def test_a_compaction_has_no_new_rows(spec: StreamSpec) -> None:
    plan(spec, (2, BEHIND, False), (4, BEHIND, False))
    assert read(spec)[1] == ["day 2", "day 3"]
    assert waiting(spec) == []


def test_a_query_with_a_starting_version_begins_with_its_commit(spec: StreamSpec) -> None:
    later = replace(spec, source=replace(source_of(spec), starting_version=1))
    plan(later, (4, BEHIND, False))
    assert read(later) == {0: ["day 1", "day 2", "day 3"]}
    assert [file.partition["day"] for file in source_of(later).unread(later, None).files] == ["day 1", "day 2", "day 3"]


def test_a_commit_that_changes_rows_is_passed_over_if_the_stream_says_so(spec: StreamSpec) -> None:
    plan(spec, (4, BEHIND, False))
    DeltaTable(str(spec.source.path)).update(updates={"n": "n + 1"}, predicate="n = 3")
    assert waiting(spec) == ["day 3"], "Spark fails there"
    skipping = replace(spec, source=replace(source_of(spec), options={"SkipChangeCommits": "true"}))
    assert waiting(skipping) == []


def test_a_batch_whose_predecessor_is_not_known_is_left_out(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False), (3, 0, False))
    (Path(spec.checkpoint) / "offsets" / "0").unlink()
    assert list(read(spec)) == [2]


def test_what_waits_is_counted_with_its_bytes_and_the_pace_of_recent_batches(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False), (3, 0, False))
    found = source_of(spec).waiting(spec, checkpoint_of(spec))
    assert (found.count, found.lost, found.planned_batches) == (1, {}, 1)
    assert found.size
    assert found.since
    assert found.planned == 1, "the batch that left the whole table is not counted"


def test_a_table_that_is_not_there_has_nothing_that_waits(spec: StreamSpec, tmp_path: Path) -> None:
    plan(spec)
    none = replace(spec, source=DeltaSource(path=str(tmp_path / "none")))
    assert source_of(none).waiting(none, checkpoint_of(none)).count == 0


# What the table no longer has


def test_a_log_that_was_cut_below_the_offset_is_lost_input(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False))
    commit(spec, 2).unlink()
    assert source_of(spec).waiting(spec, checkpoint_of(spec)).lost == {"version 2 of its log": 1}
    with pytest.raises(TableInputGone, match="version 2 of its log"):
        source_of(spec).require_planned(spec)


def test_a_commit_before_the_offset_may_be_gone(spec: StreamSpec) -> None:
    """Negative control of the check before a start."""
    plan(spec, (3, BEHIND, False), (3, 0, False))
    commit(spec, 2).unlink()
    assert list(source_of(spec).missing(spec)) == []


def test_a_stream_that_accepts_the_loss_starts(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False))
    commit(spec, 2).unlink()
    accepting = replace(spec, source=replace(source_of(spec), options={"failOnDataLoss": "false"}))
    assert list(source_of(spec).missing(spec)) == ["version 2 of its log"]
    assert list(source_of(accepting).missing(accepting)) == []


def test_a_vacuumed_file_of_the_planned_batch_is_named_before_the_start(spec: StreamSpec) -> None:
    plan(spec, (3, BEHIND, False), (3, 0, False), committed=0)
    source_of(spec).require_planned(spec)  # nothing is gone yet
    (file,) = source_of(spec).files_read(spec, checkpoint_of(spec), range(1, 2))[1]
    Path(file.path).unlink()
    with pytest.raises(TableInputGone, match="no longer has what the stream reads next"):
        source_of(spec).require_planned(spec)


def test_a_file_that_vacuum_deleted_before_it_was_read_is_lost_input(spec: StreamSpec) -> None:
    plan(spec, (3, BEHIND, False))
    table = DeltaTable(str(spec.source.path))
    table.delete("n = 2")
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    lost = source_of(spec).waiting(spec, checkpoint_of(spec)).lost
    assert [Path(name).parent.name for name in lost] == ["day=day%202"]


# Read again


def test_the_rows_of_each_batch_are_read_back_as_lines(spec: StreamSpec, tmp_path: Path) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False), (3, 0, False))
    run = FinishedRun(checkpoint=checkpoint_of(spec), committed=2, into=tmp_path / "lines", bounded_from=0)
    given = source_of(spec).read_back(spec, run)
    rows = {batch: [json.loads(path.read_text()) for path in paths] for batch, paths in given.files.items()}
    assert rows[2] == [{"n": 2, "at": "2013-01-01T02:00:00.000Z", "day": "day 2"}]
    assert [json.loads(path.read_text())["n"] for path in given.inputs] == [0, 1, 2, 3], "and what was never read"


def test_rows_that_are_gone_end_the_verification(spec: StreamSpec, tmp_path: Path) -> None:
    plan(spec, (3, BEHIND, False), (4, BEHIND, False))
    for file in source_of(spec).files_read(spec, checkpoint_of(spec), range(1, 2))[1]:
        Path(file.path).unlink()
    run = FinishedRun(checkpoint=checkpoint_of(spec), committed=1, into=tmp_path / "lines")
    with pytest.raises(VerificationError, match="cannot be read again"):
        source_of(spec).read_back(spec, run)
    later = replace(run, into=tmp_path / "later", compared_from=2)
    assert source_of(spec).read_back(spec, later).files[1] == [], "of a batch that is not compared they may be gone"


def test_an_audit_gets_the_files_of_its_batches_with_the_columns_of_the_table(spec: StreamSpec) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False), (3, 0, False))
    described: Any = DeltaSource.audited(spec, checkpoint_of(spec), Range(after=0, upto=2))
    assert [(batch, values) for _, batch, values in described["files"]] == [
        (1, {"day": "day 1"}),
        (2, {"day": "day 2"}),
    ]
    assert [column["name"] for column in described["schema"]["fields"]] == ["n", "at", "day"]
    assert json.loads(json.dumps(described)) == described
    assert DeltaSource.audited_batches(described)[0][1] == 1  # type: ignore[index]


# Forked


def forked(spec: StreamSpec, tmp_path: Path, checkpoint: str | None) -> tuple[StreamSpec, Mapping[str, int]]:
    fork = forked_spec(spec, Places.under(str(tmp_path / "fork")), Feed.ORIGIN)
    taken = source_of(spec).take_input(spec, fork, checkpoint, Feed.ORIGIN)
    return fork, {"total": taken.total, "unseen": taken.unseen}


def test_a_fork_reads_a_table_of_its_own_with_its_origins_id_and_files(spec: StreamSpec, tmp_path: Path) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False))
    fork, counts = forked(spec, tmp_path, spec.checkpoint)
    assert counts == {"total": 4, "unseen": 2}
    mine, its = DeltaTable(str(spec.source.path)), DeltaTable(str(fork.source.path))
    assert its.metadata().id == mine.metadata().id
    append(Path(str(spec.source.path)), 9)
    assert its.version() == 3, "what its origin's writers add later is not the fork's"
    assert source_of(fork).unread(fork, checkpoint_of(spec)).files[0].path.startswith(str(tmp_path / "fork"))
    assert source_of(fork).unplanned(fork) == 4, "its own checkpoint has read nothing"


def test_a_fork_outlives_a_vacuum_of_its_origin(spec: StreamSpec, tmp_path: Path) -> None:
    fork, _ = forked(spec, tmp_path, None)
    for file in Path(str(spec.source.path)).rglob("*.parquet"):
        file.unlink()
    files = source_of(fork).unread(fork, None).files
    assert sum(table.num_rows for table in source_of(fork).rows(fork, files)) == 4


def test_a_fork_of_lost_input_is_refused(spec: StreamSpec, tmp_path: Path) -> None:
    plan(spec, (1, 0, True), (2, BEHIND, False))
    commit(spec, 2).unlink()
    with pytest.raises(CheckpointError, match="no longer has what the fork has to read"):
        forked(spec, tmp_path, spec.checkpoint)


# Declared


@pytest.mark.parametrize("option", ["startingTimestamp", "readChangeFeed", "maxFilesPerTrigger", "excludeRegex"])
def test_an_option_that_no_verifier_could_follow_is_refused(option: str) -> None:
    (problem,) = DeltaSource(path="/t", options={option: "1"}).problems()
    assert problem.key == ("source", "options", option)
    assert problem.allowed.startswith("nothing: ")


def test_an_option_that_is_known_is_not() -> None:
    """Negative control."""
    assert not list(DeltaSource(path="/t", options={"skipChangeCommits": "true"}).problems())
