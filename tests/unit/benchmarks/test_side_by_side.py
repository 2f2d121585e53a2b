"""What the side-by-side benchmark counts: its verdicts, its figures, its table and its input, without any peer."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks.side_by_side.contender import Place
from benchmarks.side_by_side.figures import Measured, latencies, percentile, rate, recovery
from benchmarks.side_by_side.installing import PROGRAMS, folder
from benchmarks.side_by_side.jobs import device_heartbeats, flight_departures, user_sessions
from benchmarks.side_by_side.jobs.job import milliseconds
from benchmarks.side_by_side.jobs.registry import JOBS
from benchmarks.side_by_side.measuring import Watch, make_input
from benchmarks.side_by_side.outputs import ParquetOutput
from benchmarks.side_by_side.peers import pyflink, spark
from benchmarks.side_by_side.programs import beats
from benchmarks.side_by_side.registry import CONTENDERS
from benchmarks.side_by_side.table import HEAD, table
from benchmarks.side_by_side.verdicts import Verdict, verify

from streamwarden.config.loading import load_stream
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import Standby

REPOSITORY = Path(__file__).resolve().parents[3]
EXPECTED = {("a",): (1,), ("b",): (2,), ("c",): (3,)}
RIGHT = [(("a",), (1,)), (("b",), (2,)), (("c",), (3,))]
FIGURES = {"rate": 1000.0, "caught_up": 12.0, "latencies": (0.5, 1.5), "checkpoints": (0.1,), "memory": 2 * 10**9}


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (RIGHT, Verdict(3, lost=0, doubled=0, unexpected=0, wrong=0)),
        (RIGHT[1:], Verdict(3, lost=1, doubled=0, unexpected=0, wrong=0)),
        ([*RIGHT, RIGHT[0]], Verdict(3, lost=0, doubled=1, unexpected=0, wrong=0)),
        ([*RIGHT, (("d",), (4,))], Verdict(3, lost=0, doubled=0, unexpected=1, wrong=0)),
        ([*RIGHT[:2], (("c",), (4,))], Verdict(3, lost=0, doubled=0, unexpected=0, wrong=1)),
        ([*RIGHT, (("c",), (4,))], Verdict(3, lost=0, doubled=1, unexpected=0, wrong=1)),
    ],
    ids=["right", "lost", "doubled", "unexpected", "wrong", "doubled with other values"],
)
def test_each_kind_of_deviation_is_counted(rows: list[Any], verdict: Verdict) -> None:
    """A row that came out twice is seen, whatever the others are."""
    assert verify(EXPECTED, rows) == verdict
    assert verdict.exactly_once is (rows == RIGHT)


def test_no_output_is_not_right() -> None:
    """And an empty expectation proves nothing."""
    assert verify(EXPECTED, []).lost == 3
    assert not verify({}, []).exactly_once


def test_the_rate_begins_with_the_first_commit() -> None:
    """The start of a process, and the first commit's own records, are not part of it."""
    assert rate([(100, 50.0), (900, 50.2), (1900, 51.2), (2900, 52.2)]) == pytest.approx(1000, rel=0.15)
    assert rate([(100, 50.0), (5000, 50.1)]) is None, "one commit has no rate"
    assert rate([]) is None


def test_a_latency_is_that_of_the_record_that_completes_the_row() -> None:
    """A row that a record of before the steady stream completes has none."""
    assert latencies([(7, 12.5), (3, 11.0)], {7: 12.0}) == [0.5]
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert percentile([4.0], 0.99) == 4.0
    assert percentile([], 0.99) is None


def test_recovery_ends_with_the_first_row_that_was_not_on_its_way_before() -> None:
    """A row that was committed before the kill can arrive just after it."""
    assert recovery([9.0, 10.1, 12.5, 13.0], killed_at=10.0, settled=0.3) == pytest.approx(2.5)
    assert recovery([9.0, 10.1], killed_at=10.0, settled=0.3) is None


def test_the_table_says_what_counts_and_what_cannot_be_had() -> None:
    """Each line has as many cells as its head."""
    right = Measured(**FIGURES, recovery=1.2, verdict=Verdict(3, 0, 0, 0, 0))
    doubled = Measured(**{**FIGURES, "rate": None, "checkpoints": ()}, recovery=None, verdict=Verdict(3, 0, 2, 0, 0))
    wrong = Measured(**FIGURES, recovery=1.2, verdict=Verdict(3, 0, 0, 0, 1))
    lines = table([("A", right), ("B", doubled), ("C", wrong), ("D", "cannot express the job")]).splitlines()
    assert (
        lines[2]
        == "| A | 1,000 | 12.0 s | 0.50, 1.50 s | 100 ms | 2.00 GB | 1.2 s | 0 | 0 | 3 rows, each once and right |"
    )
    assert "| one commit |" in lines[3]
    assert "| 0 | 2 | 3 rows expected |" in lines[3]
    assert "does not count" in lines[4]
    assert lines[5].startswith("| D | cannot express the job |")
    assert {line.count("|") for line in lines} == {HEAD.splitlines()[0].count("|")}


def test_an_instant_reads_the_same_however_it_is_written() -> None:
    """Spark gives instants, Flink texts without a zone, the others milliseconds."""
    texts = ("2013-01-01T10:15:00.000Z", "2013-01-01T10:15:00", "2013-01-01 10:15:00.000")
    assert {milliseconds(text) for text in texts} == {milliseconds(1_357_035_300_000)}


def flights(count: int) -> list[str]:
    """One each five minutes, of three carriers."""
    start = milliseconds("2013-01-01T10:00:00Z")
    stamps = (f"{datetime.fromtimestamp(start / 1000 + 300 * n, UTC):%Y-%m-%dT%H:%M:%S}.000Z" for n in range(count))
    rest = {"origin": "JFK", "dest": "BOS", "tailnum": "N1", "departed_at": None, "dep_delay": None}
    return [
        json.dumps({"flight_id": f"f{number}", "event_time": stamp, "carrier": ("UA", "AA", "DL")[number % 3], **rest})
        for number, stamp in enumerate(stamps)
    ]


INPUTS = {
    "flight_departures": flights,
    "user_sessions": user_sessions.lines,
    "device_heartbeats": device_heartbeats.lines,
}
"""The real flights take seconds to read; these are laid out alike."""


@pytest.mark.parametrize("name", JOBS)
def test_the_oracle_accepts_the_input_and_each_row_has_a_record_that_completes_it(name: str, tmp_path: Path) -> None:
    """Otherwise a run could wait for a row for ever, or have no latency."""
    made = make_input(JOBS[name], INPUTS[name](500), tmp_path)
    assert len(made.expected) > 400
    for by_key in (False, True):
        assert None not in made.completes[by_key].values()
        assert set(made.completes[by_key]) == set(made.expected)


def test_a_flight_that_comes_too_late_for_some_is_not_sent() -> None:
    """Which windows it misses depends on where a contender cuts its input."""
    hour = 3_600_000
    flights = [(10 * hour, {"n": 1}), (8 * hour + 1, {"n": 2}), (8 * hour, {"n": 3}), (11 * hour, {"n": 4})]
    assert [flight["n"] for flight in flight_departures.in_time(flights)] == [1, 2, 4]


def test_a_window_is_completed_two_hours_after_its_end_by_the_clock_of_all_or_of_its_key() -> None:
    """Bytewax knows only the latter."""
    hours = [("UA", "10:00"), ("UA", "11:00"), ("AA", "13:15"), ("UA", "14:00")]
    records = [{"origin": "JFK", "carrier": carrier, "event_time": f"2013-01-01T{at}:00.000Z"} for carrier, at in hours]
    start = milliseconds("2013-01-01T10:00:00Z")
    window = (start, start + 3_600_000, "JFK", "UA")
    assert flight_departures.releases(records, False)(window) == 2
    assert flight_departures.releases(records, True)(window) == 3


def test_the_heartbeats_of_the_peers_in_python_are_those_of_the_oracle(tmp_path: Path) -> None:
    """By the clock of each device, and with sessions that end."""
    sent = device_heartbeats.lines(3 * device_heartbeats.GENERATION)[:: device_heartbeats.DEVICES]
    made = make_input(JOBS["device_heartbeats"], sent, tmp_path)
    devices: dict[str, beats.Device] = {}
    rows = []
    for line in made.lines:
        reading = json.loads(line)
        device = devices.setdefault(reading["device_id"], beats.Device(reading["device_id"]))
        device.add(beats.at_of(reading), reading["session_id"], reading["state"])
        rows += [device_heartbeats.row(json.loads(row)) for row in device.catch_up(beats.at_of(reading) - beats.LATE)]
    assert {key[2] for key in made.expected} == {"HEARTBEAT", "END"}
    assert verify(made.expected, rows).exactly_once


def test_a_session_that_comes_out_twice_is_seen_by_what_it_holds() -> None:
    """The times at which it began and ended depend on the run, and are no part of its key."""
    record = {"id": "web:1", "client": "web", "reason": "LAST", "events": 2, "data": ["d1", "d2"]}
    key, values = user_sessions.row({**record, "started_at": 5})
    again = user_sessions.row({**record, "started_at": 9})
    assert verify({key: values}, [(key, values), again]).doubled == 1


def test_what_has_come_out_is_noted_once_with_its_first_time(tmp_path: Path) -> None:
    """A row that comes twice keeps the time of the first; both go to the verdict."""
    made = make_input(JOBS["user_sessions"], user_sessions.lines(50), tmp_path)
    watch = Watch(made, made.completes[False])
    rows = [
        {"id": key[0], "client": values[0], "reason": values[1], "events": values[2], "data": list(values[3])}
        for key, values in made.expected.items()
    ]
    for at, record in enumerate([*rows, rows[0]]):
        watch.take(float(at), record)
    assert watch.has(len(made.lines))()
    assert not Watch(made, made.completes[False]).has(len(made.lines))()
    assert watch.first[next(iter(made.expected))] == 0.0
    assert verify(made.expected, ((key, values) for key, values, _ in watch.rows)).doubled == 1


def test_the_newest_checkpoint_of_flink_is_one_that_was_completed(tmp_path: Path) -> None:
    """A folder without metadata is that of a checkpoint which the kill interrupted."""
    for job, number, at in (("one", 3, 100), ("two", 1, 200)):
        metadata = tmp_path / job / f"chk-{number}" / "_metadata"
        metadata.parent.mkdir(parents=True)
        metadata.touch()
        os.utime(metadata, (at, at))
    (tmp_path / "two" / "chk-2").mkdir()
    assert pyflink.newest(tmp_path) == str(tmp_path / "two" / "chk-1")
    assert pyflink.newest(tmp_path / "none") is None


def test_the_time_of_a_checkpoint_is_read_from_the_log_of_flink(tmp_path: Path) -> None:
    """Its own words, and its own unit."""
    (tmp_path / "flink.log").write_text(
        "INFO Triggering checkpoint 3 for job ab12\n"
        "INFO Completed checkpoint 3 for job ab12 (9842 bytes, checkpointDuration=85 ms, finalizationTime=12 ms).\n"
    )
    assert pyflink.seconds(tmp_path) == [0.085]


def test_a_row_of_parquet_can_be_read_from_the_time_of_its_entry(tmp_path: Path) -> None:
    """A file that no entry names is none, and one that a compact entry names again is not read twice."""
    import pyarrow as pa
    import pyarrow.parquet

    manifest = tmp_path / "_spark_metadata"
    manifest.mkdir()
    for name in ("kept", "orphan"):
        pa.parquet.write_table(pa.table({"id": [name]}), tmp_path / f"{name}.parquet")
    file = tmp_path / "kept.parquet"
    entry = {"path": f"file://{file}", "size": file.stat().st_size, "isDir": False, "modificationTime": 1}
    text = "v1\n" + json.dumps(entry | {"blockReplication": 1, "blockSize": 1, "action": "add"})
    output = ParquetOutput(tmp_path)
    assert list(output.new()) == []
    before = time.time()
    (manifest / "0").write_text(text)
    ((at, row),) = output.new()
    assert row == {"id": "kept"}
    assert at == pytest.approx(before, abs=5)
    (manifest / "1.compact").write_text(text)
    assert list(output.new()) == []


def test_each_peer_is_pinned_whole_and_its_environment_is_made_again_when_a_pin_changes(tmp_path: Path) -> None:
    """No line of its requirements leaves a version open."""
    for file in PROGRAMS.glob("*/requirements.txt"):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        assert all("==" in line for line in lines), file
    pin = tmp_path / "requirements.txt"
    pin.write_text("one==1\n")
    first = folder("peer", pin)
    pin.write_text("one==2\n")
    assert folder("peer", pin) != first


@pytest.mark.parametrize("name", CONTENDERS)
def test_a_contender_says_for_each_job_whether_it_can_be_run(name: str) -> None:
    """With the reason in words, where it cannot."""
    for job in JOBS.values():
        reason = CONTENDERS[name].cannot(job)
        assert reason is None or len(reason) > 5


@pytest.mark.parametrize("name", JOBS)
def test_spark_runs_the_streams_own_file_on_the_topic(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State, sink and arguments are those of the catalogue."""
    monkeypatch.setenv("AIRFLOW_CONN_SIDE_BY_SIDE", "")  # `project` sets it
    job = JOBS[name]
    spec = spark.project(Place(tmp_path, "127.0.0.1:9", "in", "out", job, batch=100), standby="warm")
    catalogue = load_stream(REPOSITORY / "config/streams" / f"{job.stream}.yaml", project=REPOSITORY, data=tmp_path)
    assert (spec.args, spec.state, spec.sink.kind) == (catalogue.args, catalogue.state, catalogue.sink.kind)
    assert isinstance(spec.source, KafkaSource)
    assert spec.source.max_offsets_per_trigger == 100
    assert spec.standby is Standby.WARM
