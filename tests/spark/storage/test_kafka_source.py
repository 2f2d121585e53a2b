"""event_windows on a topic of a real broker, right to the row. With `--full` it is killed in mid-batch.

The broker wants a password. 12 portions of a minute and a half each go to three partitions in turn. Among them stand
records that are no events, one without a value, and some of the future; the last ones come too late.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from streamwarden.errors import VerificationError
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.verifying.expectations import judge
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import Backend, StreamSpec, TriggerSpec
from support.servers.kafka_broker import PASSWORD, Broker, broker
from support.spark.drivers import project, until
from support.spark.job_runs import WRITTEN, Survivors, brought_to_end, forged, stream
from support.spark.verdicts import verify

pytestmark = pytest.mark.spark

START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
PORTIONS, EVENTS = 12, 40
ACTIONS = ("view", "buy", "größer", "", "two\\nlines")

BAD = (
    None,
    "",
    "not json",
    "[]",
    '[{"event_time":"2023-11-14T09:05:00.000Z","user_id":1,"action":"in an array"}]',
    '"text"',
    b"\xff\xfe",
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":1,"action":"cut off',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":null,"action":"view"}',
    '{"event_time":"2023-11-14T09:05:00.000Z","user_id":"one","action":"view"}',
    '{"event_time":"2023-11-14 09:05","user_id":1,"action":"view"}',
)
FUTURE = ('{"event_time":"2099-01-01T00:00:00.000Z","user_id":1,"action":"view"}',)
PRETTY = '{\n  "event_time": "2023-11-14T09:05:00.000Z",\n  "user_id": 1,\n  "action": "over four lines"\n}'


def event(at: datetime, user: int, action: str) -> str:
    stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
    return f'{{"event_time": "{stamp}", "user_id": {user}, "action": "{action}"}}'


def portions() -> list[list[str | bytes | None]]:
    chance = random.Random(7)
    made: list[list[str | bytes | None]] = []
    for number in range(PORTIONS):
        begin = START + timedelta(seconds=90 * number)
        made.append(
            [
                event(begin + timedelta(milliseconds=chance.randrange(0, 90_000, 250)), chance.randrange(4), action)
                for action in chance.choices(ACTIONS, k=EVENTS)
            ]
        )
    made[3] += [*BAD, *FUTURE, PRETTY]
    made[-1] += [event(START + timedelta(seconds=second), 1, "too late") for second in range(6)]
    return made


def on_topic(spec: StreamSpec, connection: str, topic: str) -> StreamSpec:
    options = {key: value for key, value in spec.source.options.items() if key == "timestampFormat"}
    source = KafkaSource(connection=connection, topic=topic, options=options, max_offsets_per_trigger=60)
    return replace(spec, source=source)


@dataclass
class Ran:
    """The run that came to its end, and its broker."""

    runs: Survivors
    broker: Broker

    @property
    def spec(self) -> StreamSpec:
        return self.runs.specs[Backend.ROCKSDB]


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with (
        broker(secured=True) as made,
        project(tmp_path_factory.mktemp("kafka")) as home,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AIRFLOW_CONN_EVENTS", made.connection)
        made.create("events", partitions=3, **{"retention.ms": "-1"})  # the records are of 2023
        for number, portion in enumerate(portions()):
            made.produce("events", portion, partitions=(0, 1, 2), at=(WRITTEN + number) * 1000)
        spec = on_topic(stream("event_windows", home.data, Backend.ROCKSDB), "events", "events")
        # After batch 3 the one with malformed rows has long been reported.
        yield Ran(brought_to_end(request, home, [spec], after=3, in_drivers=True), made)


def test_every_row_is_right(ran: Ran) -> None:
    outcome = verify(ran.spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == PORTIONS * EVENTS + len(BAD) + len(FUTURE) + 1 + 6
    assert outcome.expected > 2
    assert judge(outcome).success


def test_a_dropped_and_a_doubled_row_are_named(ran: Ran, tmp_path: Path) -> None:
    assert forged(ran.spec, tmp_path) == {}


def test_what_is_no_event_is_kept_aside_with_its_place(ran: Ran) -> None:
    kept = ran.runs.quarantined(Backend.ROCKSDB)
    assert len(kept) == len(BAD) + len(FUTURE)
    assert {row["topic"] for row in kept} == {"events"}
    assert len({(row["partition"], row["offset"]) for row in kept}) == len(kept)
    reasons = sorted(row["reason"] for row in kept)
    assert sum("has event_time ahead of its record: 2099" in reason for reason in reasons) == len(FUTURE)
    assert sum("not a JSON object" in reason for reason in reasons) >= 4
    assert sum("lacks user_id" in reason for reason in reasons) == 1
    assert sum("user_id is not of type int: one" in reason for reason in reasons) == 1
    counted = sum(report.observed_metrics["input"]["malformed"] for report in ran.runs.reports(Backend.ROCKSDB))
    assert counted == len(kept)


def test_the_password_is_in_no_file_that_the_drivers_left(ran: Ran) -> None:
    for folder in (ran.runs.project.data / "drivers", Path(ran.spec.checkpoint)):
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


def test_an_oracle_is_told_when_the_topic_was_made_anew(ran: Ran) -> None:
    """Whose offsets begin at 0 again: what they hold is not what was read."""
    elsewhere = replace(ran.spec, source=replace(ran.spec.source, topic="events"))
    ran.broker.create("anew", partitions=3)
    moved = Path(ran.spec.checkpoint).with_name("moved")
    for path in sorted(Path(ran.spec.checkpoint).rglob("*")):
        target = moved / path.relative_to(ran.spec.checkpoint)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif "state" not in path.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes().replace(b'"events"', b'"anew"'))
    with pytest.raises(VerificationError, match="records that the stream read are no longer in the topic"):
        verify(replace(elsewhere, checkpoint=str(moved)))


@pytest.mark.full  # in the first tier test_event_windows has a row of a file that ends the driver
def test_without_a_quarantine_a_record_that_is_no_event_ends_the_driver_and_its_place_is_told(ran: Ran) -> None:
    made = ran.runs.project
    strict = replace(
        ran.spec,
        name="strict",
        sink=replace(ran.spec.sink, path=str(made.data / "output" / "strict")),
        checkpoint=str(made.data / "checkpoints" / "strict"),
        quarantine=None,
    )
    record = made.await_end(made.start(strict))
    assert record.kind is ExitKind.FAILED
    assert "of topic events; declare a `quarantine`" in record.message
    assert "record " in record.message


def test_a_wrong_password_ends_the_driver_and_is_not_shown(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ran.runs.project
    wrong = json.loads(os.environ["AIRFLOW_CONN_EVENTS"])
    wrong["extra"]["sasl.password"] = "the-wrong-word"
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps(wrong))
    sink = replace(ran.spec.sink, path=str(made.data / "output" / "refused"))
    spec = replace(ran.spec, name="refused", checkpoint=str(made.data / "checkpoints" / "refused"), sink=sink)
    driver = made.start(spec)
    record = made.await_end(driver)
    assert record.kind is ExitKind.FAILED
    assert "Invalid username or password" in record.message
    assert "the broker denies this user access" in record.next_step
    assert record.curable is False
    assert "the-wrong-word" not in f"{record}{made.fleet.log_path(driver).read_text()}"


@pytest.mark.full  # in the first tier drills/test_topic_drills lets a retention pass
def test_a_retention_that_passed_the_stream_ends_the_driver_for_good(ran: Ran) -> None:
    """Ten records in each partition that the checkpoint does not know, and then gone but for the last."""
    made = ran.runs.project
    checkpoint = made.data / "checkpoints" / "passed"
    shutil.copytree(ran.spec.checkpoint, checkpoint)
    ends = ran.broker.ends("events", 3)
    ran.broker.produce("events", [event(START, 1, "view")] * 30, partitions=(0, 1, 2))
    for partition, end in enumerate(ends):
        ran.broker.forget("events", end + 9, partition)
    record = made.await_end(made.start(replace(ran.spec, name="passed", checkpoint=str(checkpoint))))
    assert record.kind is ExitKind.FAILED
    assert record.curable is False, record
    assert "its retention passed" in record.next_step
    waiting = probe(replace(ran.spec, checkpoint=str(checkpoint))).waiting
    assert waiting is not None
    assert sum(waiting.lost.values()) == 27, "the check input_lost says how many"


def test_a_broker_that_is_killed_and_comes_back_changes_no_row(ran: Ran) -> None:
    """The driver lives through it: it asks in vain until the broker answers, and goes on where it was."""
    made, kafka = ran.runs.project, ran.broker
    kafka.create("outage", partitions=2, **{"retention.ms": "-1"})
    spec = replace(
        ran.spec,
        name="outage",
        source=replace(ran.spec.source, topic="outage"),
        sink=replace(ran.spec.sink, path=str(made.data / "output" / "outage")),
        checkpoint=str(made.data / "checkpoints" / "outage"),
        trigger=TriggerSpec(processing_time=0.2),
    )
    sent = portions()
    for number, portion in enumerate(sent[:4]):
        kafka.produce("outage", portion, partitions=(0, 1), at=(WRITTEN + number) * 1000)
    driver = made.start(spec)
    made.await_batches(spec, 2)
    kafka.kill()
    log = made.fleet.log_path(driver)
    until("the driver to miss the broker", lambda: "could not be established" in log.read_text())
    kafka.start()
    for number, portion in enumerate(sent[4:], start=4):
        kafka.produce("outage", portion, partitions=(0, 1), at=(WRITTEN + number) * 1000)

    def all_read() -> bool:
        seen = probe(spec)
        return seen.waiting is not None and seen.waiting.count == 0 and seen.log is not None and seen.log.gap == 0

    until("the end of the topic", all_read, told=lambda: made.log(driver))
    made.fleet.request_stop(spec.name, requested_by="test", reason="all is read")
    assert made.await_end(driver).kind is ExitKind.STOPPED
    outcome = verify(spec)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.records == sum(map(len, sent))
