"""event_windows, right to the row, on RocksDB. With `--full` it is killed in mid-batch and started again, and runs on
the other state store, too.

14 files of a minute and a half each. Among the good lines of the fourth stand malformed ones and events of the future;
the last two files hold events that come too late, beside some that are late and in time.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.twins.comparing import compare
from streamwarden.services.twins.keys import RowKey
from streamwarden.services.twins.making import FORK
from streamwarden.services.verifying.verification import read_facts
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.output import Output
from streamwarden.stream.spec import Backend, StreamSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.checkpoints.forged_output import Rows, copied, rewrite
from support.spark.drivers import project
from support.spark.job_runs import Survivors, brought_to_end, forged, in_tiers, of_tier, passed, publish, stream
from support.spark.twins import assert_the_twin_agrees, compared_with_twin
from support.spark.verdicts import recorded, verify

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
FILES, EVENTS = 14, 40
ACTIONS = ("view", "buy", "like", "größer", "", "view")

BAD = (
    "not json",
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":1,"action":"cut off',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":null,"action":"view"}',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":1}',
    '{"user_id":1,"action":"view"}',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":"one","action":"view"}',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":1.5,"action":"view"}',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":2147483648,"action":"view"}',
    '{"event_time":"2023-11-14 09:05","user_id":1,"action":"view"}',
    '{"event_time":"14 November","user_id":1,"action":"view"}',
)
FUTURE = (
    '{"event_time":"2099-01-01T00:00:00.000Z","user_id":1,"action":"view"}',
    '{"event_time":"2023-11-14T23:13:24.000Z","user_id":1,"action":"an hour and a second after the file"}',
    '{"event_time":1699952700000,"user_id":1,"action":"milliseconds, which Spark takes for seconds"}',
)


@dataclass
class Twin:
    """What the twin of the run wrote, and the key by which rows are compared with it."""

    key: RowKey
    output: Path

    def compared(self, output: Output) -> Reconciliation:
        return compare(read_output(self.output), output, self.key, records=FILES * EVENTS, tolerances={})


Counts = tuple[int, int, int, int]
"""Lost, duplicated, unexpected and wrong rows."""


def drops_a_row(spec: StreamSpec) -> Counts:
    rewrite(spec, lambda rows: rows[1:])
    return 1, 0, 0, 0


def writes_a_batch_twice(spec: StreamSpec) -> Counts:
    """One that is not in a compact entry of the manifest yet."""
    log = Path(str(spec.sink.path)) / SINK_LOG
    compacted = max((int(each.stem) for each in log.glob("*.compact") if each.stem.isdigit()), default=-1)
    entries = {
        entry: sum(pq.read_metadata(to_path(json.loads(line)["path"])).num_rows for line in lines[1:])
        for entry in log.iterdir()
        if entry.name.isdigit() and int(entry.name) > compacted and (lines := entry.read_text().splitlines())
    }
    entry = max(entries, key=lambda each: entries[each])
    assert entries[entry] > 0
    lines = entry.read_text().splitlines()
    entry.write_text("\n".join([*lines, *lines[1:]]))
    return 0, entries[entry], 0, 0


def swaps_two_keys(spec: StreamSpec) -> Counts:
    """Every total over the rows stays as it is."""

    def swapped(rows: Rows) -> Rows:
        one, other = rows[0], next(row for row in rows if row["actions"] != rows[0]["actions"])
        mine, its = ({key: row[key] for key in ("window_start", "window_end", "user_id")} for row in (one, other))
        return [{**one, **its}, {**other, **mine}, *(row for row in rows if row not in (one, other))]

    rewrite(spec, swapped)
    return 0, 0, 0, 2


def puts_a_duplicate_in_place_of_a_row(spec: StreamSpec) -> Counts:
    rewrite(spec, lambda rows: [rows[0], rows[0], *rows[2:]])
    return 1, 1, 0, 0


SECONDS = '{"event_time":1699952700,"user_id":1,"action":"a number is taken for seconds"}'


def event(at: datetime, user: int, action: str) -> str:
    return json.dumps(
        {"event_time": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z", "user_id": user, "action": action}
    )


def lines() -> list[list[str]]:
    rng = random.Random(3)
    files = []
    for number in range(FILES):
        begin = START + timedelta(seconds=90 * number)
        file = []
        for _ in range(EVENTS):
            at = begin + timedelta(milliseconds=rng.randrange(0, 90_000, 250))
            late = timedelta(minutes=rng.choice((3, 6))) if rng.random() < 0.1 else timedelta(0)
            file.append(event(at - late, rng.randrange(4), rng.choice(ACTIONS)))
        files.append([*file, *file[:2]])  # the same event twice is two events
    files[3] += [*BAD, *FUTURE, SECONDS]
    for file in files[-2:]:
        file += [event(START + timedelta(seconds=second), user, "too late") for second in (1, 2, 3) for user in (0, 1)]
    return files


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    with project(tmp_path_factory.mktemp("event_windows")) as made:
        specs = [stream("event_windows", made.data, backend) for backend in of_tier(request.config, Backend.ROCKSDB)]
        publish(Path(str(specs[0].source.path)), lines())
        yield brought_to_end(request, made, specs)


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_every_row_is_right(runs: Survivors, backend: Backend) -> None:
    outcome = passed(runs.specs[backend])
    assert outcome.records == FILES * (EVENTS + 2) + len(BAD) + len(FUTURE) + 1 + 12
    assert outcome.expected > 10


@pytest.fixture(scope="module")
def twin(runs: Survivors, tmp_path_factory: pytest.TempPathFactory) -> Twin:
    home = tmp_path_factory.mktemp("twin") / "twins"
    report = assert_the_twin_agrees(runs.specs[Backend.ROCKSDB], home, of="event_windows")
    return Twin(RowKey(report.key, report.key_from), home / "1" / FORK / "output")


def test_an_unbroken_twin_writes_the_same_windows(twin: Twin) -> None:
    assert twin.key.columns == ("window_start", "user_id")


@pytest.mark.parametrize(
    "forge", [drops_a_row, writes_a_batch_twice, swaps_two_keys, puts_a_duplicate_in_place_of_a_row]
)
def test_what_a_broken_sink_would_have_written_deviates_from_the_twin(
    runs: Survivors, twin: Twin, tmp_path: Path, forge: Callable[[StreamSpec], Counts]
) -> None:
    copy = copied(runs.specs[Backend.ROCKSDB], tmp_path)
    expected = forge(copy)
    found = twin.compared(read_output(Path(str(copy.sink.path))))
    assert (found.lost, found.duplicated, found.unexpected, found.wrong) == expected


def test_a_reader_that_ignores_the_manifest_reads_what_the_twin_does_not_have(
    runs: Survivors, twin: Twin, tmp_path: Path
) -> None:
    """A kill between the data and the manifest leaves files that no entry names; the batch writes its rows again."""
    output = Path(str(runs.specs[Backend.ROCKSDB].sink.path))
    (tmp_path / "globbed").mkdir()
    manifest = read_output(output).manifest
    assert manifest is not None
    for file in manifest.files:
        shutil.copy(to_path(file), tmp_path / "globbed")
    fullest = max((tmp_path / "globbed").iterdir(), key=lambda file: file.stat().st_size)
    shutil.copy(fullest, tmp_path / "globbed" / "part-of-the-cut-batch.parquet")
    found = twin.compared(read_output(tmp_path / "globbed"))
    assert (found.lost, found.unexpected, found.wrong) == (0, 0, 0)
    assert found.duplicated > 1


def test_a_twin_that_executed_fewer_batches_than_the_run_agrees_with_no_run(
    runs: Survivors, twin: Twin, tmp_path: Path
) -> None:
    short = Twin(twin.key, shutil.copytree(twin.output, tmp_path / "short"))
    for entry in (short.output / SINK_LOG).iterdir():
        if not entry.name.isdigit() or int(entry.name) > FILES // 2:
            entry.unlink()
    found = short.compared(read_output(Path(str(runs.specs[Backend.ROCKSDB].sink.path))))
    assert (found.lost, found.duplicated, found.wrong) == (0, 0, 0)
    assert found.unexpected > 1


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_late_events_are_dropped_and_counted(runs: Survivors, backend: Backend) -> None:
    """Spark counts the late (window, user) pairs of a batch, not their events: two and two, of twelve events."""
    notes = verify(runs.specs[backend]).notes
    assert notes["late_rows"] == 12
    assert notes["late_pairs"] == 4
    dropped = sum(report.operators[0].rows_dropped_by_watermark for report in runs.reports(backend))
    assert dropped == notes["late_pairs"]


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_state_shrinks_as_the_watermark_passes(runs: Survivors, backend: Backend) -> None:
    reports = [report for report in runs.reports(backend) if report.operators]
    held = [report.operators[0].rows_total for report in reports]
    removed = [report.operators[0].rows_removed for report in reports]
    marks = [report.watermark or 0.0 for report in reports]
    assert marks == sorted(marks)
    assert sum(removed) > 10
    for report, before, after in zip(reports[1:], held, held[1:], strict=False):
        if report.rows == 0:  # the last batch has no data: only the watermark moved
            assert after == before - report.operators[0].rows_removed
    assert held[-1] < max(held)
    assert max(held) <= 4 * 5  # of four users at most the windows of the last 15 minutes, and those of the batch
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["open"] > 0


@pytest.mark.parametrize("backend", in_tiers(Backend.ROCKSDB))
def test_what_is_no_event_is_counted_and_kept_aside(runs: Survivors, backend: Backend) -> None:
    books = verify(runs.specs[backend]).notes["books"]
    assert isinstance(books, dict)
    assert books["malformed"] == len(BAD) + len(FUTURE)
    kept = runs.quarantined(backend)
    assert len(kept) == len(BAD) + len(FUTURE)
    ahead = [row for row in kept if "has event_time ahead of its file" in row["reason"]]
    assert len(ahead) == len(FUTURE)


def test_a_dropped_a_doubled_and_an_altered_row_are_named(runs: Survivors, tmp_path: Path) -> None:
    found = forged(
        runs.specs[Backend.ROCKSDB],
        tmp_path,
        shuffled=lambda rows: [{**each, "actions": each["actions"][::-1]} for each in rows],
        foreign=lambda rows: [*rows, {**rows[0], "user_id": 99}],
    )
    *others, wrong = found.pop("shuffled")
    assert others == [0, 0, 0]
    assert wrong > 0
    assert found == {"foreign": (0, 0, 1, 0)}


KEPT = FILES - 4
NEVER = "which the checkpoint had not planned"


@pytest.fixture(scope="module")
def rewound(runs: Survivors, tmp_path_factory: pytest.TempPathFactory) -> StreamSpec:
    """The checkpoint is rolled back, the output is not: Spark plans the batches again, reads none of them, and leaves
    an offset log whose watermark stands. A launch refuses such a checkpoint, so its comparison is left out here."""
    whole = runs.specs[Backend.ROCKSDB]
    made = replace(copied(whole, tmp_path_factory.mktemp("rewound")), name="rewound", source=whole.source)
    for log in ("offsets", "commits", "sources/0"):
        for path in Path(made.checkpoint, log).iterdir():
            number = path.name.removeprefix(".").partition(".")[0]
            if number.isdigit() and int(number) > KEPT:
                path.unlink()
    with pytest.MonkeyPatch.context() as unguarded:
        unguarded.setattr("streamwarden.services.fleet.starting.require_fit", lambda *given, **named: None)
        driver = runs.project.start(made)
    assert runs.project.await_end(driver).kind is ExitKind.COMPLETED
    return made


@pytest.mark.full  # in the first tier test_stale_manifest has batches that Spark skips
def test_after_a_rewind_the_right_rows_are_right_and_the_skipped_batches_are_named(
    runs: Survivors, rewound: StreamSpec
) -> None:
    whole = runs.specs[Backend.ROCKSDB]
    marks = read_facts(rewound).watermarks
    assert marks[KEPT + 1] == marks[max(marks)]
    # Nothing moved the watermark, so that the last batch, without data, is not planned again. Its rows are owed too.
    starts = (*recorded(whole.name), *recorded(rewound.name))
    outcome = verify(rewound, starts=starts, bounded_from=0)
    assert (outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong) == (0, 0, 0, 0)
    assert outcome.expected == verify(whole).expected
    assert f"started, the sink's manifest had the batches {KEPT + 1} to {FILES - 1}, {NEVER}" in outcome.problems[0]
    assert f"now, the sink's manifest had batch {FILES}, {NEVER}" in outcome.problems[1]


@pytest.mark.full
def test_a_twin_names_the_batches_that_were_skipped_after_a_rewind(rewound: StreamSpec, tmp_path: Path) -> None:
    twin = compared_with_twin(rewound, tmp_path / "twins").outcome
    assert not twin.exactly_once
    assert any(f"manifest had the batches {KEPT + 1} to {FILES - 1}, {NEVER}" in each for each in twin.problems)


def test_without_a_quarantine_an_event_of_the_future_ends_the_driver(runs: Survivors) -> None:
    made, quiet = runs.project, runs.specs[Backend.ROCKSDB]
    strict = replace(
        quiet,
        name="strict",
        source=replace(quiet.source, path=str(made.data / "future")),
        sink=replace(quiet.sink, path=str(made.data / "output" / "strict")),
        checkpoint=str(made.data / "checkpoints" / "strict"),
        quarantine=None,
    )
    publish(made.data / "future", [[SECONDS, FUTURE[0]]])
    record = made.await_end(made.start(strict))
    assert record.kind is ExitKind.FAILED
    assert "a row has event_time ahead of its file: 2099-01-01 00:00:00" in record.message
    assert "0000.json" in record.message
    assert "declare a `quarantine`" in record.message


@pytest.mark.full  # in the first tier test_crash_matrix starts without the commit of a batch
def test_a_batch_that_only_the_commit_was_missing_of_moves_no_watermark_and_changes_no_row(tmp_path: Path) -> None:
    """Killed between the folder's manifest and `commits/N`: run again, batch N is skipped, and its events with it."""
    with project(tmp_path) as made:
        spec = stream("event_windows", made.data, Backend.ROCKSDB)
        spec.spark.conf["spark.sql.streaming.noDataMicroBatches.enabled"] = "false"
        folder, commits = Path(str(spec.source.path)), Path(spec.checkpoint) / "commits"
        publish(folder, lines()[:6])
        assert made.await_end(made.start(spec)).kind is ExitKind.COMPLETED
        cut = made.committed(spec) - 1
        (commits / str(cut)).unlink()
        (commits / f".{cut}.crc").unlink(missing_ok=True)
        publish(folder, lines()[6:], name="b")
        assert made.await_end(made.start(spec)).kind is ExitKind.COMPLETED
        marks = read_facts(spec).watermarks
        assert marks[cut - 1] < marks[cut] == marks[cut + 1] < marks[cut + 2]
        outcome = verify(spec)
        assert outcome.exactly_once, outcome.to_dict()
        assert outcome.expected > 4
