"""Sessions in real drivers: killed while sessions are open, and then no input any more.

1. Events of three clients with timeouts of their own, with lines that are none. With `--full` the first driver is
   killed in mid-batch.
2. A driver reads all of them, and is killed when sessions are open.
3. The next one starts into silence. Nothing is published any more, and every session ends all the same.
4. What came out is what the oracle says, each event is in one session, and forged output is condemned.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.services.forks.forks import fork
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.output import Output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.checkpoints.forged_output import copied, rewrite
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import passed
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

JOB = Path(__file__).parents[3] / "spark_jobs" / "user_sessions.py"
FILES, EVENTS_A_FILE = 12, 12
USERS = ("web:1", "web:2", "kiosk:1", "other")
BAD = (
    "not json",
    '{"id":null,"data":"a"}',
    '{"data":"a","is_last":true}',
    '{"id":"web:1"}',
    '{"id":"web:1","data":"a","is_last":"maybe"}',
    "[1]",
)
GOOD_THOUGH_ODD = '{"id":"web:1","data":"no word of an end"}', '{"id":"web:1","data":"null","is_last":null,"new":1}'
CONF = QUICK | {"spark.sql.streaming.minBatchesToRetain": "2000"}
"""The oracle needs the time of each batch."""

EVERY = TriggerSpec(processing_time=1.0)
"""The twin executes every batch again, the silent ones too."""


def stream(made: Project, **changes: Any) -> StreamSpec:
    settings: dict[str, Any] = {
        "job": str(JOB),
        "args": ("web=10s", "kiosk=2s", "*=1s"),
        "source": FilesSource(path=str(made.input), max_files_per_trigger=2),
        "trigger": EVERY,
        "spark": SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=CONF),
    }
    return made.spec("user_sessions", "", **{**settings, **changes})


def publish(made: Project, number: int) -> list[str]:
    """One file; returns the data of its events in their order. Two files of one batch stand in the wrong order by name.

    Each id's event in seven is its last; so every file ends sessions and leaves some open.
    """
    lines, sent = [], []
    for i in range(EVENTS_A_FILE):
        data = f"{number:02d}/{i:02d}"
        lines.append(json.dumps({"id": USERS[i % 4], "data": data, "is_last": (number + i) % 7 == 0}))
        sent.append(data)
    lines[3:3] = BAD if number == 1 else ()
    lines += GOOD_THOUGH_ODD if number == 2 else ()
    part = made.input / f".{number}"
    part.write_text("\n".join(lines) + "\n\n")
    os.utime(part, (made.began + number, made.began + number))
    part.rename(made.input / f"{50 - number:03d}.json")
    return sent


def output(spec: StreamSpec) -> Output:
    return read_output(Path(str(spec.sink.path)))


def events_in(rows: Output) -> list[str]:
    at = rows.columns.index("data") if rows.rows else 0
    return [data for row in rows.rows for data in row[at]]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("user_sessions")) as it:
        yield it


class Story:
    """What happened, in numbers."""

    def __init__(self, spec: StreamSpec, sent: list[str]) -> None:
        self.spec = spec
        self.sent = sent
        self.killed_in = -1
        self.open_at_restart = 0
        self.silent_batches = 0
        self.malformed = 0


@pytest.fixture(scope="module")
def story(made: Project, request: pytest.FixtureRequest) -> Story:
    spec = stream(made)
    sent = [data for number in range(FILES) for data in publish(made, number)]
    sent += [json.loads(line)["data"] for line in GOOD_THOUGH_ODD]
    found = Story(spec, sent)

    if request.config.getoption("--full"):
        found.killed_in = kill_in_mid_batch(made, spec, after=1)

    second = made.start(spec)
    made.await_batches(spec, FILES // 2)  # two files a batch: all of them are read
    assert made.fleet.kill(second)
    until("nothing left", lambda: not made.living())
    made.await_end(second)
    found.open_at_restart = len(sent) - len(events_in(output(spec)))
    before = newest(spec.checkpoint, "commits")

    third = made.start(spec)
    until(
        "the end of every session, without any input",
        lambda: len(events_in(output(spec))) >= len(sent),
        poll=0.2,
        told=lambda: made.log(third),
    )
    # Rows can be seen a moment before their batch is committed.
    until(
        "the commit of their batch", lambda: newest(spec.checkpoint, "commits") > before, told=lambda: made.log(third)
    )
    found.silent_batches = newest(spec.checkpoint, "commits") - before
    made.fleet.request_stop(spec.name, requested_by="test", reason="done")
    end = made.await_end(third)
    assert not end.cut_batch, end
    found.malformed = sum(
        len(path.read_text().splitlines()) for path in Path(str(spec.quarantine)).glob("query=*/batch=*/*.json")
    )
    return found


def test_the_output_is_the_oracles(story: Story) -> None:
    outcome = passed(story.spec)
    books = outcome.notes["books"]
    assert isinstance(books, dict)
    assert (books["records"], books["malformed"]) == (len(story.sent) + len(BAD), len(BAD))
    assert (books["emitted"], books["open"], books["dropped"]) == (len(story.sent), 0, 0)


@pytest.mark.full  # in the first tier drills/test_drills_by_a_clock compares timers by the clock with a twin
def test_an_unbroken_twin_has_the_same_timeouts(story: Story, tmp_path: Path) -> None:
    assert_the_twin_agrees(story.spec, tmp_path / "twins", of="user_sessions")


def test_each_event_came_out_in_one_session(story: Story) -> None:
    """The ledger of what was published: it needs neither times nor the oracle."""
    rows = output(story.spec)
    assert sorted(events_in(rows)) == sorted(story.sent)
    column = {name: [row[at] for row in rows.rows] for at, name in enumerate(rows.columns)}
    keys = list(zip(column["id"], column["started_at"], column["number"], strict=True))
    assert len(keys) == len(set(keys))
    assert column["events"] == [len(data) for data in column["data"]]  # type: ignore[arg-type]
    assert {"LAST", "TIMEOUT"} == set(column["reason"])
    for user in USERS:
        sessions = sorted((key[1:], data) for key, data in zip(keys, column["data"], strict=True) if key[0] == user)
        told = [data for _, each in sessions for data in each if "/" in data]  # type: ignore[attr-defined]
        assert told == sorted(told)  # in the order of the files' modification and their lines, whatever their names


@pytest.mark.full  # in the first tier test_state_evolution is killed in the middle of a batch of a processor
def test_the_kill_landed_in_mid_batch(story: Story) -> None:
    assert story.killed_in >= 2


def test_sessions_end_although_the_driver_started_into_silence(story: Story) -> None:
    """Spark alone runs no batch then: it would wait for the next event, and no timer would fire."""
    assert story.open_at_restart > 0
    assert story.silent_batches > 0


def test_lines_that_are_no_event_are_kept_aside(story: Story) -> None:
    assert story.malformed == len(BAD)


@pytest.mark.full  # what Spark refuses by itself
def test_the_timers_need_rocksdb(made: Project) -> None:
    """Spark refuses its other state store for transformWithState, and says so before the first batch."""
    spec = stream(
        made,
        checkpoint=str(made.data / "checkpoints" / "on_hdfs"),
        sink=ParquetSink(path=str(made.data / "output" / "on_hdfs")),
        state=StateSpec(shuffle_partitions=1, backend=Backend.HDFS),
        trigger=TriggerSpec(available_now=True),
    )
    end = made.await_end(made.start(replace(spec, name="on_hdfs")))
    assert end.error_class == "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS", end


@pytest.mark.full  # in the first tier unit/lifecycle/forks/test_fork_plan has the paths in the metadata of a fork
def test_a_fork_reads_the_schema_of_its_state_from_its_own_checkpoint(
    made: Project, story: Story, tmp_path: Path
) -> None:
    """Spark writes where it lies as an absolute path."""
    forked = fork(story.spec, into=tmp_path / "fork", rewind=0)
    schema = Path(story.spec.checkpoint) / "state" / "0" / "_stateSchema"
    schema.rename(schema.with_name("_elsewhere"))
    try:
        end = made.await_end(made.start(forked.spec))
    finally:
        schema.with_name("_elsewhere").rename(schema)
    assert end.kind == "completed", end


# Forged output


@pytest.fixture
def forged(story: Story, tmp_path: Path) -> StreamSpec:
    return copied(story.spec, tmp_path)


def caught(spec: StreamSpec) -> tuple[int, int, int, int]:
    outcome: Reconciliation = verify(spec)
    assert not outcome.exactly_once
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


def test_the_copies_alone_change_nothing(forged: StreamSpec) -> None:
    assert verify(forged).exactly_once


def test_a_lost_session_is_caught(forged: StreamSpec) -> None:
    rewrite(forged, lambda rows: rows[1:])
    assert caught(forged) == (1, 0, 0, 0)
    assert any("the books do not balance" in problem for problem in verify(forged).problems)


def test_a_session_written_twice_is_caught(forged: StreamSpec) -> None:
    rewrite(forged, lambda rows: [*rows, rows[0]])
    assert caught(forged) == (0, 1, 0, 0)


def test_an_altered_event_is_caught(forged: StreamSpec) -> None:
    rewrite(forged, lambda rows: [{**rows[0], "data": ["forged", *rows[0]["data"][1:]]}, *rows[1:]])
    assert caught(forged) == (0, 0, 0, 1)


def test_a_timeout_that_is_not_the_clients_is_caught(forged: StreamSpec) -> None:
    outcome = verify(replace(forged, args=("web=10s", "kiosk=2s", "*=2s")))
    assert not outcome.exactly_once
    assert outcome.wrong or outcome.unexpected
