"""Counts of users in real drivers: killed in mid-batch, started into silence, and a user who comes back.

1. Actions of three users, with lines that are none; the driver is killed in mid-batch.
2. The next one reads the rest and is killed at once, before anyone's silence is over.
3. The third starts into silence: everyone is told as TIMEOUT and forgotten, without any input.
4. One user comes back, is counted from one on, and leaves again.
5. What came out is what the oracle says, the books balance, and forged output is condemned.

In the first tier test_user_sessions tells the same story of timers on files, and test_jobs_on_topics of this job.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec, TriggerSpec
from support.checkpoints.forged_output import copied, rewrite
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import passed
from support.spark.mid_batch import kill_in_mid_batch, newest
from support.spark.twins import assert_the_twin_agrees
from support.spark.verdicts import verify

pytestmark = [pytest.mark.spark, pytest.mark.full]

JOB = Path(__file__).parents[3] / "spark_jobs" / "user_action_counts.py"
FILES, ACTIONS_A_FILE = 12, 9
USERS = (1, 2, -3)
BAD = (
    "not json",
    '{"user_id":null,"action":"a"}',
    '{"action":"a"}',
    '{"user_id":1}',
    '{"user_id":"one","action":"a"}',
    '{"user_id":1.5,"action":"a"}',
    '{"user_id":4294967296,"action":"a"}',
)
CONF = QUICK | {"spark.sql.streaming.minBatchesToRetain": "2000"}
"""The oracle needs the time of each batch."""

EVERY = TriggerSpec(processing_time=2.0)
"""The twin executes every batch again, the silent ones too."""

Told = list[dict[str, Any]]


def stream(made: Project, **changes: Any) -> StreamSpec:
    settings: dict[str, Any] = {
        "job": str(JOB),
        "args": ("timeout=15s",),
        "source": FilesSource(path=str(made.input), max_files_per_trigger=2),
        "trigger": EVERY,
        "spark": SparkSpec(master="local[1]", driver_memory=700 * 2**20, conf=CONF),
    }
    return made.spec("user_action_counts", "", **{**settings, **changes})


def publish(made: Project, number: int, users: tuple[int, ...] = USERS) -> int:
    """One file; returns the number of its actions. Two files of one batch stand in the wrong order by name."""
    lines = [
        json.dumps({"user_id": users[i % len(users)], "action": f"{number:02d}/{i:02d}"}) for i in range(ACTIONS_A_FILE)
    ]
    lines[4:4] = BAD if number == 1 else ()
    part = made.input / f".{number}"
    part.write_text("\n".join(lines) + "\n\n")
    os.utime(part, (made.began + number, made.began + number))
    part.rename(made.input / f"{50 - number:03d}.json")
    return ACTIONS_A_FILE


def told(spec: StreamSpec) -> Told:
    """What came out so far, by user and time; TIMEOUT before an UPDATE of the same moment."""
    found = read_output(Path(str(spec.sink.path)))
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    return sorted(rows, key=lambda row: (row["user_id"], row["at"], row["status"]))


def newest_row(spec: StreamSpec, user: int) -> dict[str, Any]:
    return [row for row in told(spec) if row["user_id"] == user][-1]


def timeouts(spec: StreamSpec) -> int:
    return sum(row["status"] == "TIMEOUT" for row in told(spec))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with project(tmp_path_factory.mktemp("user_action_counts")) as it:
        yield it


class Story:
    """What happened, in numbers."""

    def __init__(self, spec: StreamSpec) -> None:
        self.spec = spec
        self.sent = 0
        self.killed_in = -1
        self.present_at_restart: set[int] = set()
        self.silent_batches = 0


@pytest.fixture(scope="module")
def story(made: Project) -> Story:
    spec = stream(made)
    found = Story(spec)
    found.sent = sum(publish(made, number) for number in range(FILES))

    found.killed_in = kill_in_mid_batch(made, spec, after=1)

    second = made.start(spec)
    made.await_batches(spec, FILES // 2)  # two files a batch: all of them are read
    assert made.fleet.kill(second)
    until("nothing left", lambda: not made.living())
    made.await_end(second)
    found.present_at_restart = {user for user in USERS if newest_row(spec, user)["status"] == "UPDATE"}
    left_before = timeouts(spec)  # some may have come back after the first driver's death
    before = newest(spec.checkpoint, "commits")

    third = made.start(spec)

    def left(count: int) -> None:
        until(f"{count} rows TIMEOUT", lambda: timeouts(spec) >= count, poll=0.2, told=lambda: made.log(third))

    left(left_before + len(USERS))
    # Rows can be seen a moment before their batch is committed.
    until(
        "the commit of their batch", lambda: newest(spec.checkpoint, "commits") > before, told=lambda: made.log(third)
    )
    found.silent_batches = newest(spec.checkpoint, "commits") - before
    found.sent += publish(made, FILES, users=USERS[:1])
    left(left_before + len(USERS) + 1)
    made.fleet.request_stop(spec.name, requested_by="test", reason="done")
    end = made.await_end(third)
    assert not end.cut_batch, end
    return found


def test_the_output_is_the_oracles_after_two_kills(story: Story) -> None:
    outcome = passed(story.spec)
    books = outcome.notes["books"]
    assert isinstance(books, dict)
    assert (books["records"], books["malformed"]) == (story.sent + len(BAD), len(BAD))
    assert (books["emitted"], books["dropped"]) == (story.sent, 0)


def test_an_unbroken_twin_has_the_same_timeouts(story: Story, tmp_path: Path) -> None:
    assert_the_twin_agrees(story.spec, tmp_path / "twins", of="user_action_counts")


def test_what_was_told_adds_up_to_what_was_published(story: Story) -> None:
    """The ledger of what was published: it needs neither times nor the oracle."""
    rows = told(story.spec)
    assert sum(row["added"] for row in rows) == story.sent
    assert sum(row["count"] for row in rows if row["status"] == "TIMEOUT") == story.sent
    for user in USERS:
        mine = [row for row in rows if row["user_id"] == user]
        running = 0
        for row in mine:
            if row["status"] == "UPDATE":
                running += row["added"]
            assert row["count"] == running > 0  # so no TIMEOUT comes twice without an action between
            running = 0 if row["status"] == "TIMEOUT" else running
        # The last actions come in the order of the files' modification and their lines, whatever the files' names.
        assert [row["last_action"] for row in mine] == sorted(row["last_action"] for row in mine)


def test_who_comes_back_begins_at_one_again(story: Story) -> None:
    last_visit = [row for row in told(story.spec) if row["user_id"] == USERS[0]][-2:]
    assert [(row["status"], row["count"]) for row in last_visit] == [
        ("UPDATE", ACTIONS_A_FILE),
        ("TIMEOUT", ACTIONS_A_FILE),
    ]


def test_the_kill_landed_in_mid_batch(story: Story) -> None:
    assert story.killed_in >= 2


def test_users_leave_although_the_driver_started_into_silence(story: Story) -> None:
    """Spark alone runs no batch then: it would wait for the next action, and no timer would fire."""
    assert story.present_at_restart == set(USERS)
    assert story.silent_batches > 0


def test_lines_that_are_no_action_are_kept_aside(story: Story) -> None:
    kept = Path(str(story.spec.quarantine)).glob("query=*/batch=*/*.json")
    assert sum(len(path.read_text().splitlines()) for path in kept) == len(BAD)


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


def test_a_bounded_run_ends_with_its_input(made: Project, story: Story) -> None:
    """With timers there is always one batch more to run; a fork, which a drill breaks, must end all the same."""
    spec = stream(
        made,
        checkpoint=str(made.data / "checkpoints" / "bounded"),
        sink=ParquetSink(path=str(made.data / "output" / "bounded")),
        quarantine=str(made.data / "quarantine" / "bounded"),
        trigger=TriggerSpec(available_now=True),
    )
    spec = replace(spec, name="bounded")
    end = made.await_end(made.start(spec))
    assert end.kind == "completed", end
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == story.sent + len(BAD)
    assert outcome.expected == len(USERS)  # all in one batch: the clock beside the actions knows no bounds


# Forged output


@pytest.fixture
def forged(story: Story, tmp_path: Path) -> StreamSpec:
    return copied(story.spec, tmp_path)


def caught(spec: StreamSpec) -> tuple[int, int, int, int]:
    outcome = verify(spec)
    assert not outcome.exactly_once
    return outcome.lost, outcome.duplicated, outcome.unexpected, outcome.wrong


def test_the_copies_alone_change_nothing(forged: StreamSpec) -> None:
    assert verify(forged).exactly_once


def test_a_lost_row_is_caught(forged: StreamSpec) -> None:
    rewrite(forged, lambda rows: rows[1:])
    assert caught(forged) == (1, 0, 0, 0)


def test_a_row_told_twice_is_caught(forged: StreamSpec) -> None:
    rewrite(forged, lambda rows: [*rows, rows[0]])
    assert caught(forged) == (0, 1, 0, 0)


@pytest.mark.parametrize("column", ["count", "added"])
def test_an_altered_count_is_caught(forged: StreamSpec, column: str) -> None:
    rewrite(forged, lambda rows: [{**rows[0], column: rows[0][column] + 1}, *rows[1:]])
    assert caught(forged) == (0, 0, 0, 1)


def test_another_timeout_than_declared_is_caught(forged: StreamSpec) -> None:
    lost, _, unexpected, _ = caught(replace(forged, args=("timeout=14s",)))
    assert lost > 0
    assert unexpected > 0
