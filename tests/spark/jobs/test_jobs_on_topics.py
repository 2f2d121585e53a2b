"""Jobs of the catalogue with custom state, on topics of a real broker instead of folders.

The broker wants TLS, a certificate of its clients and a password (SCRAM). Each topic has two partitions, which take
turns with portions of records; among them stand some that are none.

1. user_action_counts is killed in mid-batch.
2. Its next driver reads the rest, beside user_sessions and device_heartbeats. Then nothing comes any more: every user
   leaves, every session ends, by the clock alone.
3. The heartbeats by the events' time, and a fork of the counts from the beginning: bounded runs, which end. And a
   driver whose connection trusts another authority than that of the broker.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.services.forks.forks import fork
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.verifying.expectations import judge
from streamwarden.sinks.files.output import read_output
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import Backend, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.servers.certificates import Authority
from support.servers.kafka_broker import PASSWORD, Broker, broker
from support.spark.drivers import QUICK, Project, project, until
from support.spark.job_runs import WRITTEN, forged
from support.spark.job_runs import stream as repository_stream
from support.spark.mid_batch import kill_in_mid_batch
from support.spark.verdicts import verify

pytestmark = [pytest.mark.spark, pytest.mark.full]
"""In the first tier two drills read a topic across a kill, and the jobs run on files."""

PORTIONS, EACH = 12, 9
USERS = (1, 2, -3)
IDS = ("web:1", "web:2", "kiosk:1", "other")
DEVICES = ("d-1", "d-2", "größe")
START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
LATE = 6
CLOCK = QUICK | {"spark.sql.streaming.minBatchesToRetain": "2000"}
"""By the clock each trigger has a batch, and the oracle needs the time of each."""

Record = str | bytes | None
BAD: tuple[Record, ...] = (None, "", "not json", "[1]", b"\xff\xfe", "{}")

COUNTS, SESSIONS, BEATS, TIMED = (
    "user_action_counts",
    "user_sessions",
    "device_heartbeats",
    "device_heartbeats_event_time",
)
TOPICS = {COUNTS: "user_actions", SESSIONS: "session_events", BEATS: "device_readings", TIMED: "timed_readings"}


def record(job: str, number: int, at: int, chance: random.Random) -> str:
    """Record `at` of portion `number`, as the job reads it."""
    if job == COUNTS:
        return json.dumps({"user_id": USERS[at % 3], "action": f"{number:02d}/{at:02d}"})
    if job == SESSIONS:
        return json.dumps({"id": IDS[at % 4], "data": f"{number:02d}/{at:02d}", "is_last": (number + at) % 7 == 0})
    told = {"device_id": DEVICES[at % 3], "session_id": f"s{number // 4}-{at % 2}", "state": f"{number}/{at}"}
    if job == BEATS:
        return json.dumps(told)
    moment = START + timedelta(seconds=40 * number, milliseconds=chance.randrange(-30_000, 40_000, 250))
    return json.dumps({**told, "event_time": f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"})


def portions(job: str) -> list[list[Record]]:
    chance = random.Random(4)
    made: list[list[Record]] = [[record(job, number, at, chance) for at in range(EACH)] for number in range(PORTIONS)]
    made[3] += BAD
    if job == TIMED:
        late = {"device_id": "d-1", "session_id": "s0-0", "state": "too late"}
        made[-1] += [json.dumps({**late, "event_time": f"2023-11-14T09:00:0{second}.000Z"}) for second in range(LATE)]
    return made


def on_topic(made: Project, job: str, **changes: Any) -> StreamSpec:
    """The repository's stream on a topic, small; by the clock it runs until it is stopped."""
    spec = repository_stream(job, made.data, Backend.ROCKSDB)
    options = {key: value for key, value in spec.source.options.items() if key == "timestampFormat"}
    source = KafkaSource(
        connection="events",
        topic=TOPICS[job],
        max_offsets_per_trigger=3 * EACH,
        options=options,
    )
    if job != TIMED:
        changes = {"trigger": TriggerSpec(processing_time=1.0), "spark": replace(spec.spark, conf=CLOCK), **changes}
    return replace(spec, name=job, source=source, **changes)


def rows(spec: StreamSpec) -> list[dict[str, Any]]:
    """What came out so far."""
    path = Path(str(spec.sink.path))
    if not (path / SINK_LOG).is_dir():
        return []
    found = read_output(path)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def all_have_left(spec: StreamSpec) -> bool:
    newest = {row["user_id"]: row for row in sorted(rows(spec), key=lambda row: (row["at"], row["status"] == "UPDATE"))}
    told = sum(row["added"] for row in rows(spec))
    return told == PORTIONS * EACH and {row["status"] for row in newest.values()} == {"TIMEOUT"}


def all_have_ended(spec: StreamSpec) -> bool:
    return sum(row["events"] for row in rows(spec)) == PORTIONS * EACH


def all_are_silent(spec: StreamSpec) -> bool:
    return sum(row["readings"] for row in rows(spec) if row["kind"] == "END") == PORTIONS * EACH


@dataclass
class Story:
    """The runs, and how their last drivers ended."""

    project: Project
    broker: Broker
    specs: dict[str, StreamSpec]
    killed_in: int = -1
    ends: dict[str, ExitRecord] = field(default_factory=dict)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with (
        broker(encrypted=True) as kafka,
        project(tmp_path_factory.mktemp("topics")) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection)
        for job, topic in TOPICS.items():
            kafka.create(topic, partitions=2, **{"retention.ms": "-1"})  # the records are of 2023
            for number, portion in enumerate(portions(job)):
                kafka.produce(topic, portion, partitions=(number % 2,), at=(WRITTEN + number) * 1000)
        clocked: dict[str, tuple[dict[str, Any], Callable[[StreamSpec], bool]]] = {
            COUNTS: ({"args": ("timeout=3s",)}, all_have_left),
            SESSIONS: ({"args": ("web=3s", "kiosk=2s", "*=1s")}, all_have_ended),
            BEATS: ({"args": ("heartbeat=1s", "inactive=3s")}, all_are_silent),
        }
        specs = {job: on_topic(made, job, **changes) for job, (changes, _) in clocked.items()}
        told = Story(made, kafka, specs)
        told.killed_in = kill_in_mid_batch(made, specs[COUNTS], after=1)

        drivers = {job: made.start(spec) for job, spec in specs.items()}
        running = set(specs)

        def stopped_when_over() -> bool:
            for job in [job for job in running if clocked[job][1](specs[job])]:
                made.fleet.request_stop(job, requested_by="test", reason="done")
                running.remove(job)
            return not running

        until(
            "the end of every job", stopped_when_over, poll=0.2, told=lambda: "".join(map(made.log, drivers.values()))
        )
        told.ends |= {job: made.await_end(driver) for job, driver in drivers.items()}

        specs[TIMED] = on_topic(made, TIMED)
        specs["fork"] = fork(specs[COUNTS], into=made.data / "fork", rewind="all").spec
        bounded = {name: made.start(specs[name]) for name in (TIMED, "fork")}
        refused = replace(specs[TIMED], name="refused", checkpoint=str(made.data / "checkpoints" / "refused"))
        elsewhere = Authority(kafka.folder / "elsewhere", "another")
        extra = {**kafka.settings, "ssl.ca.location": str(elsewhere.certificate)}
        patch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": extra}))
        bounded["refused"] = made.start(refused)
        patch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection)
        told.ends |= {name: made.await_end(driver) for name, driver in bounded.items()}
        yield told


def verified(story: Story, name: str) -> Reconciliation:
    outcome = verify(story.specs[name])
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == PORTIONS * EACH + len(BAD) + (LATE if name == TIMED else 0)
    return outcome


def books(outcome: Reconciliation) -> dict[str, int]:
    found = outcome.notes["books"]
    assert isinstance(found, dict)
    return found


def test_counts_are_the_oracles_although_a_driver_was_killed_in_mid_batch(story: Story) -> None:
    assert story.killed_in >= 2
    outcome = verified(story, COUNTS)
    assert judge(outcome).success
    assert (books(outcome)["malformed"], books(outcome)["emitted"]) == (len(BAD), PORTIONS * EACH)


def test_users_leave_while_nothing_comes_on_the_topic(story: Story) -> None:
    """The clock beside the topic runs batches whose offsets are those of the batch before."""
    spec = story.specs[COUNTS]
    assert story.ends[COUNTS].kind is ExitKind.STOPPED
    assert not story.ends[COUNTS].cut_batch
    assert all_have_left(spec)
    log = [json.loads(path.read_text().splitlines()[2]) for path in Path(spec.checkpoint, "offsets").glob("[0-9]*")]
    last = {TOPICS[COUNTS]: dict(zip("01", story.broker.ends(TOPICS[COUNTS], 2), strict=True))}
    assert log.count(last) >= 2, "the batch that read the last record, and those after it"
    waiting = probe(spec).waiting
    assert waiting is not None
    assert {lag.behind for lag in waiting.partitions.values()} == {0}


@pytest.mark.parametrize("job", [SESSIONS, BEATS])
def test_each_record_is_told_once_by_the_clock(story: Story, job: str) -> None:
    assert story.ends[job].kind is ExitKind.STOPPED
    kept = books(verified(story, job))
    assert (kept["malformed"], kept["emitted"], kept["open"], kept["dropped"]) == (len(BAD), PORTIONS * EACH, 0, 0)


def test_by_event_time_the_heartbeats_are_the_oracles(story: Story) -> None:
    assert story.ends[TIMED].kind is ExitKind.COMPLETED, story.ends[TIMED]
    outcome = verified(story, TIMED)
    assert outcome.expected > 50
    assert (books(outcome)["malformed"], books(outcome)["dropped"]) == (len(BAD), LATE)


def test_a_fork_from_the_beginning_reads_the_topic_in_one_batch_and_ends(story: Story) -> None:
    """The clock beside the topic knows no bounds."""
    assert story.ends["fork"].kind is ExitKind.COMPLETED, story.ends["fork"]
    assert verified(story, "fork").expected == len(USERS)


@pytest.mark.parametrize("name", [COUNTS, BEATS, SESSIONS, TIMED])
def test_a_lost_and_a_doubled_row_are_caught(story: Story, tmp_path: Path, name: str) -> None:
    assert forged(story.specs[name], tmp_path) == {}


def test_a_broker_whose_certificate_is_not_trusted_ends_the_driver_for_good(story: Story) -> None:
    end = story.ends["refused"]
    assert end.kind is ExitKind.FAILED
    assert end.curable is False, end
    assert "certif" in end.message
    assert "ssl.ca.location" in end.next_step


def test_the_observer_tells_that_the_certificate_is_not_trusted(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = story.broker.folder / "elsewhere" / "another.pem"
    extra = {**story.broker.settings, "ssl.ca.location": str(elsewhere)}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": extra}))
    (problem,) = probe(story.specs[COUNTS]).problems
    assert "certificate verify failed" in problem


def test_neither_password_nor_key_is_in_a_file_that_the_drivers_left(story: Story) -> None:
    key = Path(story.broker.settings["ssl.key.location"]).read_text().splitlines()[1].encode()
    places = [story.project.data / "drivers", *(Path(spec.checkpoint) for spec in story.specs.values())]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert len(files) > 100
    assert [path for path in files if (text := path.read_bytes()) and (PASSWORD.encode() in text or key in text)] == []
