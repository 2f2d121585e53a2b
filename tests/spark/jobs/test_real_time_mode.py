"""event_dedup in real-time mode, from topic to topic: killed in mid-batch, stopped at a boundary, right to the event.

Batches of five seconds, two partitions of the topic and two of the state. Events come before the first driver, while it
runs and after it was killed; many are sent twice, some of them once to each driver.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.config.loading import load_stream
from streamwarden.health.checks.batches.batch_longer_than_trigger import CHECK as LONGER
from streamwarden.health.checks.batches.progress_stalled import CHECK as STALLED
from streamwarden.health.checks.input.backlog import CHECK as BACKLOG
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status
from streamwarden.health.window import Window
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.services.forks.forks import fork
from streamwarden.services.monitoring.probe import probe
from streamwarden.services.verifying.verification import verify
from streamwarden.sinks.kafka.output import read_topic
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, StateSpec, StreamSpec, TriggerSpec
from streamwarden.verification.reconciliation import Reconciliation
from support.servers.kafka_broker import Broker
from support.spark.drivers import QUICK, Project, project, until

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).resolve().parents[3]
BATCH = 5.0
TOPIC, PARTITIONS = "live_events", 2
LAST = 2000
START = datetime(2023, 11, 14, 9, 0, tzinfo=UTC)
BAD = ("not json", '{"event_id": "no time", "user_id": 1, "action": "view"}')


def event(number: int) -> str:
    at = START + timedelta(milliseconds=250 * number)
    stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
    return json.dumps({"event_time": stamp, "event_id": f"e{number}", "user_id": number % 7, "action": "view"})


def live(made: Project, name: str, *, master: str) -> StreamSpec:
    spec = load_stream(REPOSITORY / "config/streams/event_dedup.yaml", project=REPOSITORY, data=made.data)
    options = {key: value for key, value in spec.source.options.items() if key == "timestampFormat"}
    return replace(
        spec,
        name=name,
        source=KafkaSource(connection="events", topic=TOPIC, options=options),
        sink=KafkaSink(
            connection="events",
            topic=name,
            key=("event_id", "event_time"),
            mode=OutputMode.UPDATE,
        ),
        checkpoint=f"{spec.checkpoint}_{name}",
        quarantine=f"{spec.quarantine}_{name}",
        trigger=TriggerSpec(real_time=BATCH),
        state=StateSpec(shuffle_partitions=PARTITIONS),
        spark=SparkSpec(master=master, driver_memory=700 * 2**20, conf=dict(QUICK)),
    )


class Output:
    """What comes out, as it comes."""

    def __init__(self, made: Broker, topic: str) -> None:
        self._consumer = Consumer({**made.settings, "group.id": "test", "log_level": 0})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self.ids: list[str] = []

    def has(self, *numbers: int) -> bool:
        for message in self._consumer.consume(1000, 0.05):
            assert message.error() is None, message.error()
            self.ids.append(json.loads(message.value() or b"{}")["event_id"])
        return {f"e{number}" for number in numbers} <= set(self.ids)

    def close(self) -> None:
        self._consumer.close()


@dataclass
class Ran:
    """Both drivers' ends, and what was seen while they ran."""

    project: Project
    spec: StreamSpec
    early: list[int]
    """Commits that came while an event was on its way through the stream, one number an attempt."""
    verdicts: dict[str, tuple[Status, str]]
    stopped: ExitRecord
    crowded: ExitRecord
    outcome: Reconciliation


@pytest.fixture(scope="module")
def ran(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with (
        project(tmp_path_factory.mktemp("real_time")) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection)
        for topic in (TOPIC, "deduped", "crowded"):
            kafka.create(topic, partitions=PARTITIONS, **{"retention.ms": "-1"})
        kafka.produce(TOPIC, [event(number) for number in (*range(200), *range(100))], partitions=(0, 1))
        kafka.produce(TOPIC, BAD)
        spec = live(made, "deduped", master="local[5]")
        crowded = made.start(live(made, "crowded", master="local[3]"))
        output = Output(kafka, "deduped")
        driver = made.start(spec)
        until("the first events", lambda: output.has(*range(200)), told=lambda: made.log(driver))
        early = []
        for number in range(1000, 1010):  # one that a commit overtakes proves nothing
            before = made.committed(spec)
            until("the next batch", lambda: made.committed(spec) > before, told=lambda: made.log(driver))  # noqa: B023
            before = made.committed(spec)
            kafka.produce(TOPIC, [event(number)])
            until("an event", lambda: output.has(number), told=lambda: made.log(driver))  # noqa: B023
            early.append(made.committed(spec) - before)
            if early[-1] == 0:
                break
        process = files.read_process(made.folder(driver))
        assert process is not None
        processes.signal_group(process, signal.SIGKILL)  # the last event is out, and in no committed batch
        assert made.await_end(driver).kind is ExitKind.KILLED

        driver = made.start(spec)
        kafka.produce(TOPIC, [event(number) for number in (*range(150, 400), *range(300))], partitions=(1, 0))

        def all_read() -> bool:
            seen = probe(spec)
            return seen.waiting is not None and seen.waiting.count == 0

        until("the commit of all", all_read, told=lambda: made.log(driver))
        verdicts: dict[str, tuple[Status, str]] = {}

        def decided() -> bool:
            verdicts.update(judged(made, spec))
            return Status.UNKNOWN not in {status for status, _ in verdicts.values()}

        # a first batch that took its time leaves a check undecided until it has seen three
        until("a verdict of each check", decided, told=lambda: str(verdicts))
        kafka.produce(TOPIC, [event(LAST)])
        until("the last event", lambda: output.has(LAST), told=lambda: made.log(driver))
        made.fleet.request_stop(spec.name, requested_by="test", reason="all is read")
        stopped = made.await_end(driver)
        output.close()
        yield Ran(made, spec, early, verdicts, stopped, made.await_end(crowded), verify(spec))


def judged(made: Project, spec: StreamSpec) -> dict[str, tuple[Status, str]]:
    """What the checks say of the running stream."""
    seen = probe(spec)
    window = Window(
        spec=spec,
        now=time.time(),
        batches=made.store.batches.window(spec.name),
        log=seen.log,
        driver_alive=True,
        waiting=seen.waiting,
    )
    verdicts = [check.judge(window, DEFAULTS) for check in (LONGER, STALLED, BACKLOG)]
    return {verdict.check: (verdict.status, verdict.reason) for verdict in verdicts}


def test_an_event_is_out_before_its_batch_is_committed(ran: Ran) -> None:
    assert ran.early[-1] == 0, ran.early


def test_a_kill_in_mid_batch_loses_no_event_and_a_reader_that_knows_the_ids_has_each_once(ran: Ran) -> None:
    assert ran.outcome.exactly_once, ran.outcome.to_dict()
    assert ran.outcome.expected == 400 + len(ran.early) + 1
    assert ran.outcome.records == 300 + len(BAD) + len(ran.early) + 550 + 1


def test_a_reader_that_knows_nothing_of_ids_has_some_twice(ran: Ran) -> None:
    """The driver was killed when an event was out and not committed: the next one read it again."""
    found = read_topic(ran.spec, {}, committed=None, deduplicated=False)
    at = found.columns.index("event_id")
    ids = [row[at] for row in found.rows]
    assert len(ids) > len(set(ids)) == ran.outcome.expected
    assert found.repeated == len(ids) - len(set(ids))
    assert ids.count(f"e{999 + len(ran.early)}") == 2


def test_a_stop_waits_for_the_commit_of_what_is_out_already(ran: Ran) -> None:
    """The last event came out of the batch in which the stop was asked for."""
    assert ran.stopped.kind is ExitKind.STOPPED, ran.stopped
    assert ran.stopped.cut_batch is False
    waiting = probe(ran.spec).waiting
    assert waiting is not None
    assert waiting.count == 0


def test_long_batches_and_what_they_have_not_committed_yet_alarm_nobody(ran: Ran) -> None:
    assert {name: status for name, (status, _) in ran.verdicts.items()} == {
        "batch_longer_than_trigger": Status.OK,
        "progress_stalled": Status.OK,
        "backlog": Status.OK,
    }, ran.verdicts


def test_what_is_no_event_is_kept_aside(ran: Ran) -> None:
    kept = [line for path in Path(str(ran.spec.quarantine)).glob("query=*/batch=*/*.json") for line in path.open()]
    assert len(kept) == len(BAD), kept


def test_its_checkpoint_can_be_inspected(ran: Ran) -> None:
    report = read_checkpoint(open_path(ran.spec.checkpoint))
    assert report.formats["checkpoint"] == "2"
    assert report.findings == ()


@pytest.mark.full  # in the first tier proofs/test_fork_run forks streams of micro-batches
def test_a_fork_goes_on_in_micro_batches_from_a_batch_of_real_time_mode(ran: Ran, tmp_path: Path) -> None:
    made = fork(ran.spec, into=tmp_path / "fork", rewind=1)
    driver = ran.project.start(made.spec)
    assert ran.project.await_end(driver).kind is ExitKind.COMPLETED, ran.project.log(driver)
    assert made.batch is not None
    outcome = verify(made.spec, first=made.batch + 1)
    assert outcome.exactly_once, outcome.to_dict()
    assert outcome.expected >= 1
    assert ran.project.committed(made.spec) > made.batch + 2, "what it had to read is cut into several batches"


def test_too_few_tasks_at_a_time_end_the_driver_and_it_is_told_how_many(ran: Ran) -> None:
    assert ran.crowded.kind is ExitKind.FAILED
    assert "needs 4 concurrent task slots" in ran.crowded.message
    assert "raise spark.master of the stream to local[N]" in ran.crowded.next_step
