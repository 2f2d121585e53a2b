"""Heartbeats in real drivers, by the clock and by the events' time.

By the clock:
1. Readings of three devices, with lines that are none; the driver is killed in mid-batch.
2. The next one reads the rest and is killed while sessions are active.
3. The third starts into silence: heartbeats come all the same, and each session ends.
4. A device comes back after its number has expired.

By the events' time: a driver killed in mid-batch, and one that brings it to its end; readings that come too late.

Each of the two in Python, and in the JVM by buckets of devices.

Spark runs transformWithState on RocksDB only (test_user_sessions), so nothing runs on the other backend.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamwarden.adapters.jvm.environments import own
from streamwarden.adapters.jvm.maven_project import build
from streamwarden.errors import JobError
from streamwarden.services.verifying.expectations import judge
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.output import Output
from streamwarden.sources.files import FilesSource
from streamwarden.spark.java import through_java
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec, TriggerSpec
from support.checkpoints.forged_output import copied, rewrite
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import REPOSITORY, Survivors, brought_to_end, forged, passed, survive
from support.spark.job_runs import publish as publish_all
from support.spark.job_runs import stream as repository_stream
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

JOB = REPOSITORY / "spark_jobs" / "device_heartbeats.py"
PROCESSORS = REPOSITORY / "spark_jobs" / "processors" / "pom.xml"
FILES, READINGS = 10, 12
DEVICES = ("d-1", "d-2", "größe")
BAD = (
    "not json",
    '{"device_id":"d-1","session_id":"s"}',
    '{"device_id":null,"session_id":"s","state":"x"}',
    '{"device_id":"d-1","state":"x"}',
    "[1]",
)
CONF = QUICK | {"spark.sql.streaming.minBatchesToRetain": "2000"}
"""The oracle needs the time of each batch."""

by_the_clock = pytest.mark.full
"""In the first tier test_jobs_on_topics runs these heartbeats by the clock, test_user_sessions shows timers in silence,
and drills/test_drills_by_a_clock a TTL."""

EVERY = TriggerSpec(processing_time=2.0)
"""The twin executes every batch again, the silent ones too."""


# By the clock


def in_jvm(spec: StreamSpec) -> StreamSpec:
    """The stream with the processor of `spark_jobs/processors`."""
    build(PROCESSORS, own())
    return replace(spec, args=(*spec.args, "buckets=2"), spark=replace(spec.spark, maven=str(PROCESSORS)))


def stream(made: Project, **changes: Any) -> StreamSpec:
    settings: dict[str, Any] = {
        "job": str(JOB),
        "args": ("heartbeat=2s", "inactive=12s"),
        "source": FilesSource(path=str(made.input), max_files_per_trigger=2),
        "trigger": EVERY,
        "state": StateSpec(shuffle_partitions=1, ttl=4.0),
        "spark": SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=CONF),
    }
    return made.spec("device_heartbeats", "", **{**settings, **changes})


def publish(made: Project, number: int, readings: int = READINGS) -> int:
    """One file; returns how many readings it holds. Two files of one batch stand in the wrong order by name."""
    lines = [
        json.dumps({"device_id": DEVICES[i % 3], "session_id": f"s{number // 4}-{i % 2}", "state": f"{number}/{i}"})
        for i in range(readings)
    ]
    lines[3:3] = BAD if number == 1 else ()
    part = made.input / f".{number}"
    part.write_text("\n".join(lines) + "\n\n")
    os.utime(part, (made.began + number, made.began + number))
    part.rename(made.input / f"{50 - number:03d}.json")
    return readings


def output(spec: StreamSpec) -> Output:
    return read_output(Path(str(spec.sink.path)))


def rows(spec: StreamSpec) -> list[dict[str, Any]]:
    found = output(spec)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def ended(spec: StreamSpec) -> int:
    """Readings of sessions that were told to have ended."""
    return sum(row["readings"] for row in rows(spec) if row["kind"] == "END")


class Story:
    """What happened, in numbers."""

    def __init__(self, spec: StreamSpec, sent: int) -> None:
        self.spec = spec
        self.sent = sent
        self.killed_in = -1
        self.into_silence = datetime.now(UTC)
        self.silent_batches = 0
        self.malformed = 0


@pytest.fixture(scope="module", params=["python", "jvm"])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with project(tmp_path_factory.mktemp("device_heartbeats")) as made:
        yield lived(made, in_jvm(stream(made)) if request.param == "jvm" else stream(made))


def lived(made: Project, spec: StreamSpec) -> Story:
    found = Story(spec, sum(publish(made, number) for number in range(FILES)))

    found.killed_in = kill_in_mid_batch(made, spec, after=1)

    second = made.start(spec)
    made.await_batches(spec, FILES // 2)  # two files a batch: all of them are read
    assert made.fleet.kill(second)
    until("nothing left", lambda: not made.living())
    made.await_end(second)
    before = newest(spec.checkpoint, "commits")

    found.into_silence = datetime.now(UTC)
    third = made.start(spec)
    until(
        "the end of every session, without any input",
        lambda: ended(spec) >= found.sent,
        poll=0.2,
        told=lambda: made.log(third),
    )
    # Rows can be seen a moment before their batch is committed.
    until(
        "the commit of their batch", lambda: newest(spec.checkpoint, "commits") > before, told=lambda: made.log(third)
    )
    found.silent_batches = newest(spec.checkpoint, "commits") - before
    # A session may begin and end in one batch, if the driver took that long to start: only now the `ttl` begins.
    assert spec.state.ttl is not None
    expired = time.time() + spec.state.ttl
    until("the numbers of the devices have expired", lambda: time.time() > expired)
    found.sent += publish(made, FILES, readings=1)
    until(
        "the end of the last session",
        lambda: ended(spec) >= found.sent,
        poll=0.2,
        told=lambda: made.log(third),
    )
    made.fleet.request_stop(spec.name, requested_by="test", reason="done")
    end = made.await_end(third)
    assert not end.cut_batch, end
    found.malformed = sum(
        len(path.read_text().splitlines()) for path in Path(str(spec.quarantine)).glob("query=*/batch=*/*.json")
    )
    return found


@by_the_clock
def test_the_output_is_the_oracles_after_two_kills(story: Story) -> None:
    outcome = passed(story.spec)
    books = outcome.notes["books"]
    assert isinstance(books, dict)
    assert (books["records"], books["malformed"]) == (story.sent + len(BAD), len(BAD))
    assert (books["emitted"], books["open"], books["dropped"]) == (story.sent, 0, 0)


@by_the_clock
def test_an_unbroken_twin_has_the_same_timers(story: Story, tmp_path: Path) -> None:
    assert_the_twin_agrees(story.spec, tmp_path / "twins", of="device_heartbeats")


@by_the_clock
def test_each_reading_was_told_once_and_each_session_ended_once(story: Story) -> None:
    """The law of conservation: it needs neither times nor the oracle."""
    told = sorted(rows(story.spec), key=lambda row: (row["at"], row["kind"] == "END"))
    assert sum(row["added"] for row in told) == ended(story.spec) == story.sent
    sessions: dict[Any, list[dict[str, Any]]] = {}
    for row in told:
        sessions.setdefault((row["device_id"], row["session_id"], row["started_at"]), []).append(row)
    for session in sessions.values():
        assert [row["kind"] for row in session] == ["HEARTBEAT"] * (len(session) - 1) + ["END"]
        assert len({row["number"] for row in session}) == 1
        beats = [row["at"] for row in session[:-1]]
        assert beats == [beats[0] + number * timedelta(seconds=2) for number in range(len(beats))]


@by_the_clock
def test_the_kill_landed_in_mid_batch(story: Story) -> None:
    assert story.killed_in >= 2


@by_the_clock
def test_heartbeats_come_although_the_driver_started_into_silence(story: Story) -> None:
    """Spark alone runs no batch then: it would wait for the next reading, and no timer would fire."""
    assert story.silent_batches > 0
    in_silence = [row for row in rows(story.spec) if row["at"] > story.into_silence and row["kind"] == "HEARTBEAT"]
    assert in_silence


@by_the_clock
def test_sessions_are_numbered_until_the_number_expires(story: Story) -> None:
    """The last session of the first device began long after the others: its device was new again."""
    ends = [row for row in rows(story.spec) if row["kind"] == "END" and row["device_id"] == DEVICES[0]]
    numbers = [row["number"] for row in sorted(ends, key=lambda row: row["started_at"])]
    assert max(numbers) > 1
    assert numbers[-1] == 1


@by_the_clock
def test_lines_that_are_no_reading_are_kept_aside(story: Story) -> None:
    assert story.malformed == len(BAD)


@by_the_clock
def test_forged_heartbeats_are_caught(story: Story, tmp_path: Path) -> None:
    found = forged(story.spec, tmp_path, altered=lambda rows: [{**rows[0], "state": "forged"}, *rows[1:]])
    assert found == {"altered": (0, 0, 0, 1)}


@by_the_clock
def test_another_interval_or_ttl_than_the_jobs_is_caught(story: Story) -> None:
    more = story.spec.args[2:]
    assert not verify(replace(story.spec, args=("heartbeat=1s", "inactive=12s", *more))).exactly_once
    assert not verify(replace(story.spec, args=("heartbeat=2s", "inactive=13s", *more))).exactly_once
    assert verify(replace(story.spec, state=StateSpec(ttl=86_400.0))).wrong > 0


# By the events' time

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
TIMED, EACH = 12, 30
LATE = 6


def reading(at: datetime, device: str, session: str, state: str) -> str:
    written = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
    return json.dumps({"device_id": device, "session_id": session, "state": state, "event_time": written})


BAD_TIMES = (
    '{"device_id":"d-1","session_id":"s","state":"x"}',
    '{"device_id":"d-1","session_id":"s","state":"x","event_time":"noon"}',
    '{"device_id":"d-1","session_id":"s","state":"x","event_time":"2099-01-01T00:00:00.000Z"}',
)


def timed_lines() -> list[list[str]]:
    """Files of 40 seconds each, out of order within a minute; in the last but one some that come too late."""
    rng = random.Random(4)
    files = []
    for number in range(TIMED):
        begin = START + timedelta(seconds=40 * number)
        files.append(
            [
                reading(
                    begin + timedelta(milliseconds=rng.randrange(-30_000, 40_000, 250)),
                    rng.choice(DEVICES),
                    f"s{number // 5}-{rng.randrange(3)}",
                    f"{number}/{each}",
                )
                for each in range(EACH)
            ]
        )
    files[2] += BAD_TIMES
    files[-2] += [reading(START + timedelta(seconds=second), "d-1", "s0-0", "too late") for second in range(LATE)]
    return files


@pytest.fixture(scope="module", params=["python", "jvm"])
def timed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survivors]:
    """The processor of the JVM is killed. That in Python is with `--full`; in the first tier user_sessions is."""
    with project(tmp_path_factory.mktemp("by_event")) as made:
        spec = repository_stream("device_heartbeats_event_time", made.data, Backend.ROCKSDB)
        spec = in_jvm(spec) if request.param == "jvm" else spec
        publish_all(Path(str(spec.source.path)), timed_lines())
        yield survive(made, [spec]) if request.param == "jvm" else brought_to_end(request, made, [spec])


def test_by_event_time_every_row_is_right(timed: Survivors) -> None:
    outcome = verify(timed.specs[Backend.ROCKSDB])
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected > 50
    assert judge(outcome).success
    books = outcome.notes["books"]
    assert isinstance(books, dict)
    assert books["records"] == TIMED * EACH + len(BAD_TIMES) + LATE
    assert (books["malformed"], books["dropped"]) == (len(BAD_TIMES), LATE)
    assert books["open"] > 0


@pytest.mark.full  # in the first tier drills/test_drills_by_a_clock compares timers with a twin
def test_by_event_time_an_unbroken_twin_has_the_same_timers(timed: Survivors, tmp_path: Path) -> None:
    spec = timed.specs[Backend.ROCKSDB]
    twin = assert_the_twin_agrees(spec, tmp_path / "twins", of="device_heartbeats_event_time")
    assert twin.outcome.expected > 50


def test_late_readings_are_dropped_and_counted_by_spark(timed: Survivors) -> None:
    dropped = sum(
        report.operators[0].rows_dropped_by_watermark for report in timed.reports(Backend.ROCKSDB) if report.operators
    )
    assert dropped == LATE


def test_by_event_time_the_rows_are_what_a_loop_over_the_input_says(timed: Survivors) -> None:
    """One session by hand, from the input alone: its readings until each heartbeat."""
    mine = [json.loads(line) for lines in timed_lines() for line in lines if "s0-0" in line and "too late" not in line]
    times = sorted(datetime.fromisoformat(each["event_time"]) for each in mine if each["device_id"] == "d-2")
    told = [
        row for row in rows(timed.specs[Backend.ROCKSDB]) if (row["device_id"], row["session_id"]) == ("d-2", "s0-0")
    ]
    assert len(told) > 3
    for row in told:
        assert row["started_at"] == times[0]
        assert row["readings"] == sum(at <= row["at"] for at in times)


def test_what_is_no_timed_reading_is_kept_aside(timed: Survivors) -> None:
    reasons = sorted(row["reason"] for row in timed.quarantined(Backend.ROCKSDB))
    assert len(reasons) == len(BAD_TIMES)
    assert any("ahead of its file" in reason for reason in reasons)


def test_forged_rows_by_event_time_are_caught(timed: Survivors, tmp_path: Path) -> None:
    change = {"altered": lambda rows: [{**rows[0], "readings": 999}, *rows[1:]]}
    assert forged(timed.specs[Backend.ROCKSDB], tmp_path, **change) == {"altered": (0, 0, 0, 1)}


def test_a_file_that_was_never_read_is_caught(timed: Survivors, tmp_path: Path) -> None:
    spec = copied(timed.specs[Backend.ROCKSDB], tmp_path)
    rewrite(spec, lambda found: found)
    assert verify(spec).exactly_once
    publish_all(Path(str(spec.source.path)) / "more", [timed_lines()[-1]])
    extra = Path(str(spec.source.path)) / "more" / "0000.json"
    extra.rename(Path(str(spec.source.path)) / "9999.json")
    assert not verify(spec).exactly_once


def test_a_class_that_the_driver_does_not_have_is_named(spark: SparkSession) -> None:
    with pytest.raises(JobError, match=r"no class no\.such\.Processor") as refused:
        through_java(spark.range(1), "no.such.Processor.over", 1)
    assert "spark.maven" in str(refused.value)
