"""Verifying a run: the oracle is found beside its job, the facts come from the checkpoint, every note is kept.

The checkpoint and the output are written by hand in Spark's formats; the same with real Spark is in tests/spark.
"""

import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import VerificationError
from streamwarden.services.verifying import oracle_process
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.services.verifying.verification import read_facts, verify
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.sources.files.reading_back import input_files
from streamwarden.sources.kafka.reading_back import unread
from streamwarden.stream.spec import SinkSpec, SourceSpec, StreamSpec
from support.oracles import forked

pytestmark = pytest.mark.usefixtures("one_database", "forked_oracles")

REPOSITORY = Path(__file__).parents[4]
HOUR = 3_600_000
DAY = 1_357_041_600_000  # 2013-01-01T12:00:00Z


@pytest.fixture
def forked_oracles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle_process, "subprocess", SimpleNamespace(run=forked.run, DEVNULL=subprocess.DEVNULL))


def flight(number: int, at: int, *, delay: int | None = 5) -> str:
    def iso(milliseconds: int) -> str:
        return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")

    departed = None if delay is None else iso(at + delay * 60_000)
    row = {"flight_id": f"f{number}", "event_time": iso(at), "origin": "EWR", "carrier": "UA"}
    return json.dumps({**row, "departed_at": departed, "dep_delay": delay})


@pytest.fixture
def run(tmp_path: Path) -> StreamSpec:
    """Batch 0 read two flights of the hour from 12 to 1, batch 1 one far ahead; batch 2, without data, wrote the four
    windows that hold both flights."""
    project = tmp_path / "project"
    (project / "spark_jobs/oracles").mkdir(parents=True)
    (project / "spark_jobs/flight_departures.py").write_text("raise RuntimeError('an oracle must not import the job')")
    shutil.copy(REPOSITORY / "spark_jobs/oracles/flight_departures.py", project / "spark_jobs/oracles")
    source, sink, checkpoint = tmp_path / "in put", tmp_path / "out", tmp_path / "checkpoint"
    source.mkdir()
    (source / "a.json").write_text(flight(1, DAY) + "\n" + flight(2, DAY, delay=None) + "\nbroken\n")
    (source / "b.json").write_text(flight(3, DAY + 10 * HOUR) + "\n")
    (source / ".hidden.json").write_text("{")
    for name in ("a.json", "b.json"):
        read_before(source / name)
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"0"}')
    marks = (0, DAY - 2 * HOUR, DAY + 8 * HOUR)
    for batch, (mark, log) in enumerate(zip(marks, (0, 1, 1), strict=True)):
        head = {"batchWatermarkMs": mark, "batchTimestampMs": 1, "conf": {}}
        (checkpoint / f"offsets/{batch}").write_text(f'v1\n{json.dumps(head)}\n{{"logOffset":{log}}}')
        (checkpoint / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    for log, name in enumerate(("a.json", "b.json")):
        entry = {"path": f"file://{tmp_path}/in%20put/{name}", "timestamp": 1000, "batchId": log}
        (checkpoint / f"sources/0/{log}").write_text(f"v1\n{json.dumps(entry)}")
    _write(sink, range(4))
    return StreamSpec(
        name="flights",
        job=str(project / "spark_jobs/flight_departures.py"),
        checkpoint=str(checkpoint),
        source=FilesSource(path=str(source)),
        sink=ParquetSink(path=str(sink)),
    )


def read_before(file: Path) -> None:
    """The time of the file is the one that the source's log has."""
    os.utime(file, (1, 1))


def _write(sink: Path, windows: range) -> None:
    shutil.rmtree(sink, ignore_errors=True)
    (sink / "_spark_metadata").mkdir(parents=True)
    starts = [datetime.fromtimestamp(DAY / 1000 - 900 * index, tz=UTC) for index in windows]
    ends = [datetime.fromtimestamp(DAY / 1000 - 900 * index + 3600, tz=UTC) for index in windows]
    count = len(starts)
    table = {"window_start": starts, "window_end": ends, "origin": ["EWR"] * count, "carrier": ["UA"] * count}
    numbers = {"flights": [2] * count, "departures": [1] * count, "cancellations": [1] * count}
    pq.write_table(pa.table({**table, **numbers, "delay_minutes": [5] * count}), sink / "part.parquet")
    for batch in range(3):
        named = [json.dumps({"path": (sink / "part.parquet").as_uri(), "action": "add"})] if batch == 2 else []
        (sink / "_spark_metadata" / str(batch)).write_text("\n".join(["v1", *named]))


def test_a_right_run_is_exactly_once_and_its_books_are_in_the_notes(run: StreamSpec) -> None:
    outcome = verify(run)
    assert outcome.exactly_once, outcome.to_dict()
    assert (outcome.expected, outcome.actual, outcome.records) == (4, 4, 4)
    assert outcome.notes["books"] == {
        "records": 4,
        "malformed": 1,
        "pairs": 12,
        "dropped": 0,
        "emitted": 8,
        "emitted_before": 0,
        "open": 4,
    }
    assert outcome.notes["newest_manifest_entry"] == 2
    assert outcome.notes["orphan_files"] == 0


def test_the_rows_that_a_copy_of_a_file_changes_are_counted(run: StreamSpec) -> None:
    """As if `a.json` were the copy: without it no window has a flight. The verdict is the same."""
    plain, outcome = verify(run), verify(run, copies={"a.json"})
    assert outcome.exactly_once
    assert outcome.notes["rows_changed_by_copies"] == outcome.expected == 4
    assert outcome.notes["rows_without_copies"] == 0
    assert "rows_changed_by_copies" not in plain.notes
    assert verify(run, copies={"another.json"}).notes["rows_changed_by_copies"] == 0


def test_a_missing_row_is_lost_and_the_books_do_not_balance(run: StreamSpec) -> None:
    _write(Path(str(run.sink.path)), range(3))
    outcome = verify(run)
    assert outcome.lost == 1
    assert outcome.problems == (
        "the books do not balance: 12 (row, window) pairs in, less 0 late, 4 open, 0 written earlier, is 8; "
        "the output counts 6",
    )


def test_a_file_that_was_never_read_is_a_problem(run: StreamSpec) -> None:
    (Path(str(run.source.path)) / "c.json").write_text(flight(9, DAY) + "\n")
    outcome = verify(run)
    assert outcome.problems[0] == "input file never read: c.json"
    assert outcome.wrong == 4


def append(file: Path) -> None:
    with file.open("a") as stream:
        stream.write(flight(9, DAY) + "\n")


def replace_by_another(file: Path) -> None:
    other = file.with_name(".new")
    other.write_text(flight(9, DAY) + "\n")
    other.rename(file)


@pytest.mark.parametrize("change", [append, replace_by_another])
def test_a_file_that_changed_after_it_was_read_is_named_and_nothing_is_proven(
    run: StreamSpec, change: Callable[[Path], None]
) -> None:
    """The negative control: without the change the same run is exactly-once, see above."""
    change(Path(str(run.source.path)) / "a.json")
    with pytest.raises(VerificationError, match=r"changed after it was read, so that nothing can be proven: a\.json"):
        verify(run)


def test_what_a_planned_batch_read_counts_only_once_it_is_committed(run: StreamSpec) -> None:
    (Path(run.checkpoint) / "commits/2").unlink()
    (Path(run.checkpoint) / "commits/1").unlink()
    facts = read_facts(run)
    assert facts.committed == 0
    assert set(facts.files) == set(facts.watermarks) == {0}


def test_the_facts_of_a_checkpoint_that_does_not_exist_are_empty(run: StreamSpec, tmp_path: Path) -> None:
    facts = read_facts(replace(run, checkpoint=str(tmp_path / "none")))
    assert (facts.files, facts.watermarks, facts.committed) == ({}, {}, None)


def test_a_damaged_source_log_leaves_no_verdict(run: StreamSpec) -> None:
    (Path(run.checkpoint) / "sources/0/1").write_text("v1\n{cut")
    with pytest.raises(VerificationError, match="does not say what was read"):
        verify(run)


def test_a_damaged_offset_leaves_no_verdict(run: StreamSpec) -> None:
    (Path(run.checkpoint) / "offsets/1").write_text("")
    with pytest.raises(VerificationError, match="no longer has batch 1"):
        verify(run)


def test_hidden_files_are_no_input(run: StreamSpec) -> None:
    assert [path.name for path in input_files(Path(str(run.source.path)))] == ["a.json", "b.json"]


def test_an_input_folder_that_is_gone_leaves_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="cannot be listed"):
        input_files(tmp_path / "none")


def test_error_for_a_job_without_oracle_names_its_place(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match="no oracle") as error:
        load_oracle(tmp_path / "job.py")
    assert str(tmp_path / "oracles" / "job.py") in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"), [("raise ValueError('x')", "cannot be imported: ValueError: x"), ("a = 1", "no function")]
)
def test_an_oracle_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "oracles").mkdir()
    (tmp_path / "oracles/job.py").write_text(text)
    with pytest.raises(VerificationError, match=message):
        load_oracle(tmp_path / "job.py")


@pytest.mark.parametrize(
    "change",
    [
        {"source": SourceSpec()},
        {"sink": SinkSpec()},
    ],
)
def test_other_sources_and_sinks_leave_no_verdict(run: StreamSpec, change: dict[str, object]) -> None:
    with pytest.raises(VerificationError, match="a source of kind"):
        verify(replace(run, **change))  # type: ignore[arg-type]


def test_a_run_that_says_it_read_less_of_its_topic_than_there_was_is_reported() -> None:
    """The oracle reads again what the run says that it read: the drill knows how much that has to be."""
    ranges = {0: (TopicRange("t", 0, 0, 10), TopicRange("t", 1, 5, 7)), 1: (TopicRange("t", 0, 10, 15),)}
    assert unread(ranges, 0, 17) == []
    assert unread(ranges, 1, 5) == []
    assert unread(ranges, 0, 18) == [
        "records never read: the batches from 0 on have 17 of the 18 that were in the topic"
    ]


def _rewritten(run: StreamSpec, change: Callable[[pa.Table], pa.Table]) -> None:
    part = Path(str(run.sink.path)) / "part.parquet"
    pq.write_table(change(pq.read_table(part)), part)


@pytest.mark.parametrize(
    "line",
    [
        "import flight_departures",
        "from flight_departures import build",
        "from spark_jobs.flight_departures import build",
        "from spark_jobs import flight_departures",
        "from .. import flight_departures as job",
        "def later():\n    import spark_jobs.flight_departures",
    ],
)
def test_an_oracle_that_imports_its_job_gives_no_verdict(run: StreamSpec, line: str) -> None:
    oracle = Path(run.job).parent / "oracles/flight_departures.py"
    oracle.write_text(f"{oracle.read_text()}\n{line}\n")
    with pytest.raises(VerificationError, match=r"the oracle imports the job: .*flight_departures"):
        verify(run)


def test_an_oracle_may_import_a_module_of_another_package_with_its_jobs_name(run: StreamSpec) -> None:
    job = Path(run.job).with_name("tolerance.py")
    oracle = Path(run.job).parent / "oracles/flight_departures.py"
    text = oracle.read_text()
    oracle.with_name("tolerance.py").write_text(f"{text}\nimport streamwarden.verification.tolerance\n")
    assert verify(replace(run, job=str(job))).exactly_once


def test_an_additional_column_deviates_where_the_oracle_declares_the_whole_set(run: StreamSpec) -> None:
    _rewritten(run, lambda table: table.append_column("uuid", pa.array([f"{n:x}" for n in range(4)])))
    outcome = verify(run)
    assert (outcome.lost, outcome.unexpected, outcome.wrong) == (0, 0, 0)
    assert not outcome.exactly_once
    (problem,) = outcome.problems
    assert problem.startswith("the output has the additional column uuid (string); the oracle declares window_start, ")


def test_an_additional_column_is_not_judged_where_it_does_not(run: StreamSpec) -> None:
    oracle = Path(run.job).parent / "oracles/flight_departures.py"
    oracle.write_text(oracle.read_text().replace("complete=True", "complete=False"))
    _rewritten(run, lambda table: table.append_column("uuid", pa.array([f"{n:x}" for n in range(4)])))
    outcome = verify(run)
    assert outcome.exactly_once
    assert outcome.not_judged == ("uuid",)
    assert outcome.to_dict()["not_judged"] == ["uuid"]


def test_whole_numbers_that_became_doubles_deviate_although_they_are_equal(run: StreamSpec) -> None:
    at = pq.read_schema(Path(str(run.sink.path)) / "part.parquet").get_field_index("flights")
    _rewritten(run, lambda table: table.set_column(at, "flights", table["flights"].cast(pa.float64())))
    outcome = verify(run)
    assert outcome.wrong == 0
    assert outcome.problems == ("the column flights is double in the output; the oracle expects bigint",)
    assert not outcome.exactly_once


def test_a_column_that_is_missing_is_a_deviation_of_the_stream(run: StreamSpec) -> None:
    _rewritten(run, lambda table: table.drop_columns(["departures"]))
    outcome = verify(run)
    assert outcome.wrong == 4
    assert outcome.problems == ("the output has no column departures, which the oracle names",)


def test_a_data_file_that_cannot_be_read_is_a_deviation_of_the_stream(run: StreamSpec) -> None:
    (Path(str(run.sink.path)) / "part.parquet").write_bytes(b"PAR1")
    outcome = verify(run)
    assert (outcome.lost, outcome.expected) == (4, 4)
    assert outcome.problems[0].startswith("the data file part.parquet cannot be read, and its rows are lost: ")


def test_compressed_input_and_every_line_end_are_read_as_spark_reads_them(run: StreamSpec) -> None:
    source, logs = Path(str(run.source.path)), Path(run.checkpoint) / "sources/0"
    lines = (source / "a.json").read_bytes()
    (source / "a.json").unlink()
    (source / "a.json.gz").write_bytes(gzip.compress(lines.replace(b"\n", b"\r")))
    read_before(source / "a.json.gz")
    (logs / "0").write_text((logs / "0").read_text().replace("a.json", "a.json.gz"))
    assert verify(run).exactly_once
