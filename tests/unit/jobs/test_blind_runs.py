"""The same input under a checkpoint that says less: no oracle that goes by a watermark may expect less for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.verification.oracle import Oracle, RateFacts, RunFacts
from support.oracles.oracle_runs import REPOSITORY, iso, marks_of, ran

MINUTE, HOUR = 60_000, 3_600_000
DAY = 1_357_084_800_000  # 2013-01-02
HOURS = ((0, 1), (2, 3), (9, 5), (30, 31))
"""Event times of each batch: the last ones let the watermark pass those of the batches before."""


def flight(hour: int) -> str:
    flown = {"departed_at": iso(DAY + hour * HOUR), "dep_delay": 1, "tailnum": "N1", "dest": "BOS", "carrier": "B6"}
    return json.dumps({"flight_id": f"{hour}", "event_time": iso(DAY + hour * HOUR), "origin": "JFK", **flown})


def event(hour: int) -> str:
    return json.dumps({"event_time": iso(DAY + hour * HOUR), "event_id": f"{hour}", "user_id": hour, "action": "view"})


def reading(hour: int) -> str:
    at = iso(DAY + hour * HOUR)
    return json.dumps({"device_id": f"d{hour}", "session_id": "s", "state": "on", "event_time": at})


@dataclass(frozen=True)
class Job:
    oracle: Oracle
    inputs: Sequence[Path]
    facts: RunFacts


LINES = {
    "flight_departures": (flight, 2 * HOUR),
    "aircraft_rotations": (flight, 2 * HOUR),
    "flight_dedup": (flight, 6 * HOUR),
    "event_windows": (event, 10 * MINUTE),
    "event_dedup": (event, 10 * MINUTE),
    "device_heartbeats": (reading, MINUTE),
}


@contextmanager
def of_lines(name: str) -> Iterator[Job]:
    line, delay = LINES[name]
    marks = marks_of([[DAY + hour * HOUR for hour in each] for each in HOURS], delay)
    with ran([[line(hour) for hour in each] for each in HOURS], marks) as (inputs, facts):
        args = ("time=event", "heartbeat=1h", "inactive=30m") if name == "device_heartbeats" else ()
        yield Job(_oracle(name), inputs, replace(facts, args=args))


@contextmanager
def of_two_sources(folder: Path) -> Iterator[Job]:
    files: dict[int, list[Path]] = {}
    for number, hours in enumerate(HOURS):
        for part, lines in (
            ("flights", [flight(hour) for hour in hours]),
            ("weather", [json.dumps({"observed_at": iso(DAY + hour * HOUR), "origin": "JFK"}) for hour in hours[:1]]),
        ):
            path = folder / part / f"{part}-{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(lines))
            files.setdefault(number, []).append(path)
    marks = {0: 0, 1: DAY - HOUR, 2: DAY + HOUR, 3: DAY + 7 * HOUR, 4: DAY + 29 * HOUR}
    inputs = [path for each in files.values() for path in each]
    yield Job(_oracle("flight_weather"), inputs, RunFacts(files=files, watermarks=marks, committed=4))


@contextmanager
def of_a_rate_source() -> Iterator[Job]:
    ends, second = {0: 3, 1: 10, 2: 400, 3: 400}, 1000
    marks = {0: 0, **{batch + 1: DAY + ends[batch] * second - 500 - MINUTE for batch in range(3)}}
    rate = RateFacts(began_ms=DAY, ends=ends, rows_per_second=2)
    facts = RunFacts(files={}, watermarks=marks, committed=3, rate=rate)
    yield Job(_oracle("windowed_values"), [], facts)


def _oracle(name: str) -> Oracle:
    return load_oracle(REPOSITORY / "spark_jobs" / f"{name}.py")


@pytest.fixture(params=[*LINES, "flight_weather", "windowed_values"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    name = request.param
    if name == "flight_weather":
        made = of_two_sources(tmp_path)
    elif name == "windowed_values":
        made = of_a_rate_source()
    else:
        made = of_lines(name)
    with made as found:
        yield found


def test_a_watermark_that_stands_in_the_log_lowers_nothing(job: Job) -> None:
    honest = job.oracle(job.inputs, job.facts)
    assert honest.problems == ()
    assert honest.rows
    standing = {batch: job.facts.watermarks[min(batch, 1)] for batch in job.facts.watermarks}
    blind = job.oracle(job.inputs, replace(job.facts, watermarks=standing))
    assert blind.rows == honest.rows
    assert all(each.startswith("watermark that the input does not explain") for each in blind.problems)
    assert len(blind.problems) == len(standing) - 2


def test_the_last_batch_is_owed_by_a_run_that_came_to_its_end(job: Job) -> None:
    """Without it the last windows, sessions and rows of an outer join would be open for ever."""
    honest = job.oracle(job.inputs, job.facts)
    last = max(job.facts.watermarks)
    shorter = {batch: mark for batch, mark in job.facts.watermarks.items() if batch != last}
    ended = job.oracle(job.inputs, replace(job.facts, watermarks=shorter, committed=last - 1, ended=True))
    assert ended.rows == honest.rows
    assert [each.partition(" moved")[0] for each in ended.problems] == [f"batch {last - 1}"]


@pytest.mark.parametrize("job", [*LINES, "flight_weather"], indirect=True)
def test_a_file_that_the_log_leaves_out_is_owed(job: Job) -> None:
    honest = job.oracle(job.inputs, job.facts)
    kept = {batch: files for batch, files in job.facts.files.items() if batch != 3}
    found = job.oracle(job.inputs, replace(job.facts, files=kept, ended=True))
    assert found.rows.keys() >= honest.rows.keys()
    assert any(each.startswith("input file never read") for each in found.problems)
