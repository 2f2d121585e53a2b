"""A savepoint of each stream of the catalogue, on each backend that its job can use.

Numbered scenario: (1) a driver is killed in mid-batch; (2) a savepoint is taken of what it left, and verified; (3) the
stream goes on to its end; (4) a fork of the savepoint does so, too; (5) the stream is put back to the savepoint, killed
in mid-batch again, and goes on to its end. Twins that begin with the savepoint judge what came after it, and the whole
output is that of step 3, which the oracle judges; but for times by the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.services.twins.making import keep_start
from streamwarden.sinks.files.output import read_output
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StreamSpec, TriggerSpec
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import passed, publish, stream
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.twins import assert_the_twin_agrees
from support.streams import catalogue
from support.streams.catalogue import STREAMS

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

ANN = Author(by="ann", reason="a test")
START = datetime(2023, 11, 1, tzinfo=UTC)
FILES, ROWS = 12, 20
ROCKSDB_ALONE = frozenset(
    {"device_heartbeats", "device_heartbeats_event_time", "state_evolution", "user_action_counts", "user_sessions"}
)
"""Streams whose jobs are `transformWithState`."""

GENERATED = "windowed_values"
"""Its source is a generator: it has no input of files, and no end."""

JOINS = frozenset({"flight_weather"})

BY_THE_CLOCK = frozenset({GENERATED, "device_heartbeats", "user_action_counts", "user_sessions"})
"""Streams whose rows hold the time at which their batch ran."""

CASES = [
    (name, backend)
    for name in STREAMS
    for backend in Backend
    if backend is Backend.ROCKSDB or name not in ROCKSDB_ALONE
]


def row(number: int) -> str:
    """One that every job can read, each the fields that it knows. Each is there three times."""
    event = number // 3
    at = START + timedelta(minutes=33 * event)
    told = f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
    return json.dumps(
        {
            "event_time": told,
            "observed_at": f"{at:%Y-%m-%dT%H}:00:00.000Z",
            "departed_at": told,
            "event_id": f"e{event}",
            "flight_id": f"f{event}",
            "origin": ("JFK", "EWR", "LGA")[event % 3],
            "carrier": "UA",
            "dest": "BOS",
            "tailnum": f"N{event // 8}",  # it rests when the next one flies
            "dep_delay": event % 40,
            "temp": 20.5,
            "user_id": event % 7,
            "action": f"a{event % 4}",
            "id": f"web:{event % 4}",
            "data": f"d{event}",
            "is_last": event % 3 == 0,
            "device_id": f"d-{event % 3}",
            "session_id": f"s-{event // 20}",
            "state": f"{event}",
            "customer": f"c-{event % 6}",
            "amount": event,
        }
    )


def lines(name: str) -> list[list[str]]:
    """The files of a stream's input. What a join pairs is there once."""
    wanted = [number for number in range(FILES * ROWS) if name not in JOINS or number % 3 == 0]
    return [[row(number) for number in wanted if number // ROWS == file] for file in range(FILES)]


def small(name: str, data: Path, backend: Backend) -> StreamSpec:
    if name != GENERATED:
        spec = stream(name, data, backend)
        return by_the_clock(spec) if name in BY_THE_CLOCK else spec
    spec = by_the_clock(catalogue.stream(name, data))
    return replace(
        spec,
        args=("window=5s", "slide=2s", "watermark=1s"),
        source=replace(spec.source, options={"rowsPerSecond": "37"}),
        state=replace(spec.state, backend=backend, shuffle_partitions=1),
    )


def by_the_clock(spec: StreamSpec) -> StreamSpec:
    """It runs on, whether there is input or not; the oracle needs the time of each batch."""
    conf = QUICK | {"spark.sql.streaming.minBatchesToRetain": "2000"}
    small = SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=conf)
    return replace(spec, trigger=TriggerSpec(processing_time=0.5), spark=small)


def to_the_end(made: Project, spec: StreamSpec) -> None:
    """Start a driver, and await the end of the input; of a generator, eight batches more."""
    begun, driver = newest(spec.checkpoint, "commits"), made.start(spec)
    wanted = ExitKind.COMPLETED
    if not spec.trigger.available_now:
        until(
            "eight more batches", lambda: newest(spec.checkpoint, "commits") > begun + 8, told=lambda: made.log(driver)
        )
        made.fleet.request_stop(spec.name, requested_by="test", reason="enough")
        wanted = ExitKind.STOPPED
    assert made.await_end(driver).kind is wanted, made.log(driver)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        yield it


def saved_of_a_killed_stream(made: Project, spec: StreamSpec) -> Savepoint:
    cut = kill_in_mid_batch(made, spec, after=4)
    savepoint = create(spec, None, ANN)
    assert savepoint.batch == cut - 1
    assert verify(Savepoints.of(spec), savepoint) == ()
    return savepoint


def rows(spec: StreamSpec) -> list[object]:
    return sorted(read_output(Path(str(spec.sink.path))).rows, key=repr)


@pytest.mark.parametrize(("name", "backend"), CASES)
def test_fork_and_stream_come_from_a_savepoint_to_the_same_rows(made: Project, name: str, backend: Backend) -> None:
    spec = small(name, made.data, backend)
    for number, folder in enumerate(spec.source.folders if name != GENERATED else ()):
        publish(Path(folder), lines(name), name=f"{number}-")
    savepoint = saved_of_a_killed_stream(made, spec)
    to_the_end(made, spec)
    expected = [] if name in BY_THE_CLOCK else rows(spec)
    assert passed(spec).expected > 0

    if name != GENERATED:  # of a generator there is no fork
        fork, twins = fork_from(spec, savepoint, made.root / "tried").spec, made.root / "twins of the fork"
        keep_start(fork, twins)
        to_the_end(made, fork)
        assert_the_twin_agrees(fork, twins, of=name, after=savepoint.batch)
        assert expected in ([], rows(fork))

    restore(made.store, spec, savepoint.id, Request(author=ANN))
    assert newest(spec.checkpoint, "commits") == savepoint.batch
    keep_start(spec, made.root / "twins")
    kill_in_mid_batch(made, spec, after=savepoint.batch)
    to_the_end(made, spec)
    assert_the_twin_agrees(spec, made.root / "twins", of=name, after=savepoint.batch)
    assert expected in ([], rows(spec))
