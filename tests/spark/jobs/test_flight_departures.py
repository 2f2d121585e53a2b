"""The first job on real flights in real Spark: its output is what an oracle that never saw Spark says, to the row.

1. 12,000 flights in 4 batches, with a file that holds malformed lines among good ones.
2. 1,200 flights of the snowstorm of 8 March 2013 in 30 small batches: delays of hours, so real lateness.
3. Each check has its negative control, on the same real output.
4. Files of every compression and line end that Spark and the oracle both read, in one run.
"""

import bz2
import gzip
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.config.loading import load_stream
from streamwarden.progress import Progress
from streamwarden.services.replay.flights import departures
from streamwarden.services.replay.replay import replay
from streamwarden.services.verifying.expectations import judge
from streamwarden.services.verifying.verification import verify
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.checkpoints.forged_output import copied
from support.spark.sessions import run_in

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[3]
STORM = slice(58_255, 59_455)
"""Of all flights in the order of departure: the stretch in which most come too late for some window."""

FLIGHT = '"flight_id":"20130105-XX1-EWR","event_time":"2013-01-05T12:00:00.000Z","origin":"EWR","carrier":"XX"'
LINES = {
    "{" + FLIGHT + ',"departed_at":"2013-01-05T12:10:00.000Z","dep_delay":10}': True,
    "{" + FLIGHT + ',"departed_at":null,"dep_delay":null}': True,
    "{" + FLIGHT + ',"unknown":{"a":1}}': True,
    "{" + FLIGHT + ',"dep_delay":"soon"}': False,
    "{" + FLIGHT + ',"dep_delay":2.5}': False,
    "{" + FLIGHT + ',"dep_delay":9999999999}': False,
    "{" + FLIGHT + ',"departed_at":"later"}': False,
    FLIGHT: False,
    "{" + FLIGHT: False,
    "not json": False,
    "42": False,
    "null": False,
    "{}": False,
    '{"flight_id":"a","origin":"EWR","carrier":"XX"}': False,
    '{"flight_id":"a","event_time":"yesterday","origin":"EWR","carrier":"XX"}': False,
    '{"flight_id":"a","event_time":"2013-01-05","origin":"EWR","carrier":"XX"}': False,
    '{"flight_id":"a","event_time":"2013-01-05T12:00:00Z","origin":"EWR","carrier":"XX"}': False,
    '{"flight_id":"a","event_time":"2013-01-05T12:00:00.000Z","origin":null,"carrier":"XX"}': False,
    '{"flight_id":"a","event_time":"2013-01-05T12:00:00.000Z","origin":"EWR"}': False,
}
"""A line -> whether it is a flight."""


def stream(data: Path, *, max_files: int) -> StreamSpec:
    """The stream of the repository, bounded: it ends when it has read what is there."""
    spec = load_stream(REPOSITORY / "config/streams/flight_departures.yaml", project=REPOSITORY, data=data)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=max_files),
        trigger=TriggerSpec(available_now=True),
        state=replace(spec.state, shuffle_partitions=1),
    )


@pytest.fixture(scope="module")
def fortnight(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[StreamSpec, list[Progress]]:
    spec = stream(tmp_path_factory.mktemp("fortnight"), max_files=8)
    folder = Path(str(spec.source.path))
    replay(folder, limit=12_000)
    (folder / "handmade.json").write_text("\n".join([*LINES, "", "  "]) + "\n")
    middle = (folder / "flights-006000-006499.json").stat().st_mtime
    os.utime(folder / "handmade.json", (middle, middle))
    return spec, run_in(spark, spec)


@pytest.fixture(scope="module")
def storm(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> StreamSpec:
    spec = stream(tmp_path_factory.mktemp("storm"), max_files=1)
    folder = Path(str(spec.source.path))
    folder.mkdir(parents=True)
    events = departures().drop(columns="order").iloc[STORM]
    for number, start in enumerate(range(0, len(events), 40)):
        file = folder / f"storm-{number:02d}.json"
        file.write_text(events.iloc[start : start + 40].to_json(orient="records", lines=True))
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # the order in which Spark reads them
    run_in(spark, spec)
    return spec


def test_twelve_thousand_flights_come_out_exactly_once(fortnight: tuple[StreamSpec, list[Progress]]) -> None:
    outcome = verify(fortnight[0])
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected > 16_000
    assert outcome.records == 12_000 + len(LINES)
    assert judge(outcome, min_records=12_000).success


def test_lines_that_are_no_flight_are_counted_by_the_query_as_by_the_oracle(
    fortnight: tuple[StreamSpec, list[Progress]],
) -> None:
    spec, reports = fortnight
    books = verify(spec).notes["books"]
    assert isinstance(books, dict)
    bad = sum(not good for good in LINES.values())
    assert books["malformed"] == bad
    assert sum(each.malformed for each in reports) == bad
    assert sum(each.read for each in reports) == books["records"]


def test_our_reader_sees_what_sparks_own_reader_sees(spark: Any, storm: StreamSpec) -> None:
    output = read_output(Path(str(storm.sink.path)))
    theirs = spark.read.parquet(storm.sink.path).toPandas()
    at = output.columns.index("flights")
    assert len(output.rows) == len(theirs) > 0
    assert sum(int(str(row[at])) for row in output.rows) == int(theirs["flights"].sum())


def test_flights_hours_late_are_dropped_for_just_the_windows_that_were_closed(storm: StreamSpec) -> None:
    outcome = verify(storm)
    assert outcome.exactly_once, outcome.to_dict()
    books = outcome.notes["books"]
    assert isinstance(books, dict)
    late_rows = outcome.notes["late_rows"]
    assert isinstance(late_rows, int)
    assert books["records"] == 1200
    assert late_rows >= 50
    assert late_rows < books["dropped"] < 4 * late_rows  # some are late for some of their four windows only
    assert books["pairs"] == books["emitted"] + books["dropped"] + books["open"]


def caught(outcome: Reconciliation) -> tuple[int, int, int, int]:
    """The counters of an output that must be condemned, by us and by Great Expectations."""
    assert not outcome.exactly_once
    assert not judge(outcome).success
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


@pytest.fixture
def forged(storm: StreamSpec, tmp_path: Path) -> StreamSpec:
    """The storm with copies of its manifest, checkpoint and input, to be damaged. The data files are the real ones."""
    return copied(storm, tmp_path)


def entry_with_rows(spec: StreamSpec) -> Path:
    """The manifest entry of a batch in the middle that wrote rows."""
    entries = (Path(str(spec.sink.path)) / SINK_LOG).iterdir()
    wrote = [path for path in entries if path.name.isdigit() and len(path.read_text().splitlines()) > 1]
    return max(wrote, key=lambda path: int(path.name))


def rewritten(spec: StreamSpec, change: Any) -> None:
    """Replace one data file by a changed copy, as a broken sink would have written it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    entry = entry_with_rows(spec)
    lines = entry.read_text().splitlines()
    for number, line in enumerate(lines[1:], start=1):
        status = json.loads(line)
        table = pq.ParquetFile(Path(to_path(status["path"]))).read()
        if table.num_rows:
            copy = Path(str(spec.sink.path)) / "rewritten.parquet"
            pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), copy)
            lines[number] = json.dumps({**status, "path": copy.as_uri()})
            entry.write_text("\n".join(lines))
            return
    raise AssertionError("no rows to change")


def test_the_copies_alone_change_nothing(forged: StreamSpec) -> None:
    assert verify(forged).exactly_once


def test_a_dropped_row_is_caught(forged: StreamSpec) -> None:
    rewritten(forged, lambda rows: rows[1:])
    outcome = verify(forged)
    assert caught(outcome) == (1, 0, 0, 0)
    assert any("the books do not balance" in problem for problem in outcome.problems)


def test_a_batch_written_twice_is_caught(forged: StreamSpec) -> None:
    entry = entry_with_rows(forged)
    lines = entry.read_text().splitlines()
    entry.write_text("\n".join([*lines, *lines[1:]]))
    lost, duplicated, unexpected, wrong = caught(verify(forged))
    assert duplicated > 0
    assert (lost, unexpected, wrong) == (0, 0, 0)


def test_an_altered_value_is_caught(forged: StreamSpec) -> None:
    rewritten(forged, lambda rows: [{**rows[0], "delay_minutes": rows[0]["delay_minutes"] + 1}, *rows[1:]])
    assert caught(verify(forged)) == (0, 0, 0, 1)


def test_a_row_nobody_expects_is_caught(forged: StreamSpec) -> None:
    rewritten(forged, lambda rows: [*rows, {**rows[0], "carrier": "??"}])
    assert caught(verify(forged)) == (0, 0, 1, 0)


def test_a_lost_manifest_entry_is_caught(forged: StreamSpec) -> None:
    entry = entry_with_rows(forged)
    entry.unlink()
    outcome = verify(forged)
    assert caught(outcome)[0] > 0
    assert f"the manifest has no entry for the committed batch {entry.name}" in outcome.problems


def test_an_input_file_that_was_never_read_is_caught(forged: StreamSpec) -> None:
    extra = departures().drop(columns="order").iloc[STORM.start - 40 : STORM.start]
    (Path(str(forged.source.path)) / "storm-99.json").write_text(extra.to_json(orient="records", lines=True))
    outcome = verify(forged)
    lost, duplicated, unexpected, wrong = caught(outcome)
    assert lost + wrong > 0
    assert (duplicated, unexpected) == (0, 0)
    assert "input file never read: storm-99.json" in outcome.problems


def test_a_watermark_that_lies_is_caught(forged: StreamSpec) -> None:
    offsets = Path(forged.checkpoint) / "offsets" / "7"
    lines = offsets.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "batchWatermarkMs": json.loads(lines[1])["batchWatermarkMs"] + 1})
    offsets.write_text("\n".join(lines))
    outcome = verify(forged)
    assert caught(outcome) == (0, 0, 0, 0)
    assert outcome.problems[0].startswith("watermark that the input does not explain: batch 7")


def test_files_of_every_compression_and_line_end_are_read_as_spark_reads_them(spark: Any, tmp_path: Path) -> None:
    spec = stream(tmp_path, max_files=2)
    folder = Path(str(spec.source.path))
    folder.mkdir(parents=True)
    events = departures().drop(columns="order")
    forms: dict[str, Callable[[bytes], bytes]] = {
        "lf.json": bytes,
        "cr.json": lambda text: text.replace(b"\n", b"\r"),
        "crlf.json": lambda text: text.replace(b"\n", b"\r\n"),
        "mark.json": lambda text: b"\xef\xbb\xbf" + text,
        "a.json.gz": gzip.compress,
        "b.json.GZ": lambda text: gzip.compress(text.replace(b"\n", b"\r")),
        "c.json.gzip": gzip.compress,
        "d.json.bz2": bz2.compress,
        "e.json.deflate": zlib.compress,
        "two.json.gz": lambda text: gzip.compress(text[:1000]) + gzip.compress(text[1000:]),
        "no_codec.json.xz": bytes,
        "blank.json": lambda text: text + b"\n \t\n\r\n\x0b\n",
    }
    for number, (name, form) in enumerate(forms.items()):
        lines = events.iloc[number * 400 : (number + 1) * 400].to_json(orient="records", lines=True)
        (folder / name).write_bytes(form(lines.encode()))
        os.utime(folder / name, (1_700_000_000 + number, 1_700_000_000 + number))
    reports = run_in(spark, spec)
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == sum(each.read for each in reports) == len(forms) * 400 + 1
    assert sum(each.malformed for each in reports) == 1  # the line with a vertical tab
    assert judge(outcome).success
