"""A topic of a real broker: what waits in it, what of it becomes evidence, and flights replayed into it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamwarden.adapters.connections import connection
from streamwarden.adapters.kafka.brokers import topic_id
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.errors import SourceError, VerificationError
from streamwarden.health.window import WaitingInput
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.services.monitoring.probe import ProbeResult, probe
from streamwarden.services.replay.flights import departures
from streamwarden.services.replay.topic import replay_to_topic
from streamwarden.sources.kafka.export import export_topic, read_range
from streamwarden.sources.kafka.lag import topic_input
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.servers.kafka_broker import Broker, broker
from support.spark.drivers import until

NOW = 1_795_000_000
FOREVER = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with broker() as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_EVENTS", made.connection)
        yield made


class Reader:
    """A stream that has planned up to some offsets of one topic: its checkpoint holds the offset log alone."""

    def __init__(self, root: Path, topic: str) -> None:
        self.topic, self.batches = topic, 0
        self.spec = StreamSpec(
            name="reader",
            job="job.py",
            checkpoint=str(root),
            source=KafkaSource(connection="events", topic=topic),
        )

    def plan(self, offsets: Mapping[str, int]) -> None:
        """A batch that ends at these offsets (partition -> offset)."""
        log = Path(self.spec.checkpoint) / "offsets"
        log.mkdir(parents=True, exist_ok=True)
        (log / str(self.batches)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({self.topic: offsets})}')
        self.batches += 1

    def commit(self) -> None:
        """The newest planned batch."""
        log = Path(self.spec.checkpoint) / "commits"
        log.mkdir(exist_ok=True)
        (log / str(self.batches - 1)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def look(self) -> ProbeResult:
        return probe(self.spec)

    def waiting(self) -> WaitingInput:
        found = self.look()
        assert found.waiting is not None, found.problems
        return found.waiting


def test_records_wait_until_a_batch_has_planned_them(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("plain", partitions=2, **FOREVER)
    for second in range(6):
        kafka.produce("plain", ["{}"], partitions=(second % 2,), at=(NOW + second) * 1000)
    reader = Reader(tmp_path, "plain")
    assert reader.look().waiting is None, "before the first batch nobody knows where it will begin"
    reader.plan({"0": 1, "1": 0})
    reader.plan({"0": 2, "1": 1})
    waiting = reader.waiting()
    assert (waiting.count, waiting.parts) == (3, {"plain-0": 1, "plain-1": 2})
    assert waiting.since == NOW + 3, "the oldest that waits is the second of partition 1"
    assert (waiting.planned, waiting.planned_batches) == (2, 1)
    reader.plan({"0": 3, "1": 3})
    waiting = reader.waiting()
    assert (waiting.count, waiting.since, waiting.lost, waiting.rewound) == (0, None, {}, ())


@pytest.mark.parametrize(("isolation", "end"), [("read_uncommitted", 5), ("read_committed", 3)])
def test_a_topic_ends_where_the_stream_may_read_to_while_a_transaction_is_open(
    kafka: Broker, tmp_path: Path, isolation: str, end: int
) -> None:
    """Spark reads of open transactions unless it is told not to: a topic that is asked otherwise looks rewound."""
    topic = f"open-{isolation.replace('_', '-')}"
    kafka.create(topic, **FOREVER)
    kafka.produce(topic, ["{}"] * 3)
    producer = Producer({**kafka.settings, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    for _ in range(2):
        producer.produce(topic, "{}", partition=0)
    producer.flush(60)
    reader = Reader(tmp_path, topic)
    reader.spec = replace(reader.spec, source=replace(reader.spec.source, options={"kafka.isolation.level": isolation}))
    reader.plan({"0": end})
    reader.commit()
    found = reader.waiting()
    producer.abort_transaction(60)
    assert (found.count, found.rewound, found.partitions[f"{topic}-0"].last) == (0, (), end)


def test_what_a_batch_reads_is_behind_until_the_batch_is_committed(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("running", **FOREVER)
    for second in range(5):
        kafka.produce("running", ["{}"], at=(NOW + second) * 1000)
    reader = Reader(tmp_path, "running")
    reader.plan({"0": 1})
    reader.commit()
    reader.plan({"0": 5})
    found = reader.waiting()
    lag = found.partitions["running-0"]
    assert (found.count, found.since, lag.waiting, lag.behind, lag.since) == (0, None, 0, 4, NOW + 1)
    reader.commit()
    assert reader.waiting().partitions["running-0"].behind == 0


def test_recreated_topic_that_outgrew_the_stream_is_detected_by_its_id(kafka: Broker, tmp_path: Path) -> None:
    """By its offsets alone it looks like the old one, with three records more."""
    kafka.create("regrown", **FOREVER)
    kafka.produce("regrown", ["{}"] * 5)
    reader = Reader(tmp_path / "checkpoint", "regrown")
    reader.plan({"0": 5})
    reader.commit()
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.migrate()

        def look(minute: int) -> tuple[str, str]:
            report = HealthMonitor(store).evaluate([reader.spec], NOW + 60.0 * minute)
            found = {verdict.check: verdict for verdict in report.verdicts}["input_lost"]
            return found.status.value, found.reason

        assert look(0)[0] == "OK"
        kafka.produce("regrown", ["{}"] * 3)
        assert look(1)[0] == "OK", "negative control: the same topic, three records longer"
        kafka.delete("regrown")
        kafka.create("regrown", **FOREVER)
        kafka.produce("regrown", ["{}"] * 8)
        status, reason = look(2)
        assert status == "CRITICAL"
        assert "recreated: its id is" in reason
        waiting = reader.waiting()
        assert (waiting.rewound, waiting.lost, waiting.count) == ((), {}, 3), "by its offsets nobody could tell"
    assert topic_id(connection("events"), "never_made", within=2) is None


def test_the_lag_of_a_topic_is_judged_from_look_to_look(kafka: Broker, tmp_path: Path) -> None:
    """A look each three minutes: caught up, standing still, stalled, rewinding, never catching up; and a topic that was
    recreated."""
    kafka.create("judged", **FOREVER)
    reader = Reader(tmp_path / "checkpoint", "judged")
    told: list[tuple[str, str]] = []
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.migrate()

        def look(*, times: int = 1, reads: int = 0, comes: int = 0) -> None:
            """Each time: so many records are read, and so many come."""
            nonlocal at
            for _ in range(times):
                at += reads
                reader.plan({"0": at})
                reader.commit()
                kafka.produce("judged", ["{}"] * comes)
                report = HealthMonitor(store).evaluate([reader.spec], NOW + 180.0 * len(told))
                found = {verdict.check: verdict for verdict in report.verdicts}["topic_lag"]
                told.append((found.status.value, found.reason.partition(",")[0].partition(":")[0]))

        at = 0
        kafka.produce("judged", ["{}"] * 10)
        look(reads=10)
        look(comes=5)
        look(times=4)
        look(reads=5)
        look(reads=-8)
        look(reads=8, comes=10)
        look(times=6, reads=2, comes=5)
        kafka.delete("judged")
        kafka.create("judged", **FOREVER)
        look(comes=2)
    assert told == [
        ("OK", "caught up"),
        ("OK", "following"),
        *[("UNKNOWN", "standing still")] * 3,
        ("WARNING", "stalled"),
        ("OK", "caught up"),
        ("WARNING", "rewinding"),
        ("OK", "following"),
        *[("OK", "following")] * 3,
        *[("WARNING", "never catching up")] * 3,
        ("CRITICAL", "rewinding"),
    ]


def test_a_partition_that_was_added_waits_whole(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("growing", **FOREVER)
    reader = Reader(tmp_path, "growing")
    reader.plan({"0": 0})
    kafka.add_partitions("growing", 2)
    kafka.produce("growing", ["{}"] * 4, partitions=(1,))
    # The broker tells of a partition that it has just made a moment before it tells of the records in it.
    until("the broker to tell of them", lambda: kafka.ends("growing", 2) == [0, 4], timeout=30)
    assert reader.waiting().parts == {"growing-0": 0, "growing-1": 4}


def test_records_that_went_before_they_were_read_are_counted(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("short", **FOREVER)
    kafka.produce("short", ["{}"] * 10)
    reader = Reader(tmp_path, "short")
    reader.plan({"0": 3})
    kafka.forget("short", 7)
    waiting = reader.waiting()
    assert (waiting.count, waiting.lost) == (3, {"short-0": 4})
    with pytest.raises(VerificationError, match="4 of the records that the stream read are no longer in the topic"):
        list(read_range(connection("events"), TopicRange("short", 0, 3, 10)))


def test_recreated_topic_is_reported(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("anew", **FOREVER)
    kafka.produce("anew", ["{}"] * 10)
    reader = Reader(tmp_path, "anew")
    reader.plan({"0": 10})
    kafka.delete("anew")
    kafka.create("anew", **FOREVER)
    kafka.produce("anew", ["{}"] * 2)
    assert reader.waiting().rewound == ("anew-0",)


def test_a_fork_reads_the_topic_where_it_is_from_the_batch_that_it_was_made_at(kafka: Broker, tmp_path: Path) -> None:
    kafka.create("forked", partitions=2, **FOREVER)
    kafka.produce("forked", ["{}"] * 12, partitions=(0, 1))
    reader = Reader(tmp_path, "forked")
    anew = topic_input(reader.spec, None)
    assert (anew.what, anew.total, anew.unseen, anew.longest_queue) == ("record", 12, 12, 12)
    reader.plan({"0": 4, "1": 1})
    there = topic_input(reader.spec, reader.spec.checkpoint)
    assert (there.total, there.unseen) == (12, 7)
    assert there.digest == anew.digest, "the same input"
    kafka.forget("forked", 3, partition=1)
    assert topic_input(reader.spec, None).digest != anew.digest
    with pytest.raises(SourceError, match="2 records that the fork has to read are no longer in the topic"):
        topic_input(reader.spec, reader.spec.checkpoint)


def test_unreachable_broker_is_reported_within_timeout(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = Reader(tmp_path / "nowhere", "nowhere")
    nowhere.plan({"0": 1})
    (problem,) = nowhere.look().problems
    assert "the broker does not report the offsets of the topic: Broker: Unknown topic or partition" in problem
    began = time.monotonic()
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", "kafka://127.0.0.1:1/")
    (problem,) = nowhere.look().problems
    assert "Connection refused" in problem
    assert "check that the broker runs" in problem
    monkeypatch.delenv("AIRFLOW_CONN_EVENTS")
    (problem,) = nowhere.look().problems
    assert "the connection 'events' is not known here" in problem
    assert time.monotonic() - began < 40


def test_records_become_files_in_the_order_in_which_a_job_sees_them(kafka: Broker, tmp_path: Path) -> None:
    """One file for each batch, partition and timestamp; a file's name and time are its records' place and timestamp."""
    kafka.create("evidence", partitions=2, **FOREVER)
    kafka.produce("evidence", ['{"n": 0}', '{\n"n": 1}', None], at=NOW * 1000)
    kafka.produce("evidence", ['{"n": 3}'], at=(NOW + 1) * 1000 + 7)
    kafka.produce("evidence", ['{"n": 4}'], partitions=(1,), at=NOW * 1000)
    ranges = {
        0: [TopicRange("evidence", 0, 0, 1)],
        1: [TopicRange("evidence", 0, 1, 4), TopicRange("evidence", 1, 0, 1)],
    }
    files = export_topic(connection("events"), ranges, tmp_path / "out")
    told = {batch: [(path.name, path.read_text()) for path in paths] for batch, paths in files.items()}
    assert told == {
        0: [("00000-00000000000000000000.json", '{"n": 0}\n')],
        1: [
            ("00000-00000000000000000001.json", '{"n": 1}\n(no object)\n'),
            ("00000-00000000000000000003.json", '{"n": 3}\n'),
            ("00001-00000000000000000000.json", '{"n": 4}\n'),
        ],
    }
    assert files[1][1].stat().st_mtime_ns == (NOW + 1) * 10**9 + 7_000_000


def test_offsets_without_a_record_are_passed_over(kafka: Broker) -> None:
    """A transaction's end takes an offset of its own."""
    from confluent_kafka import Producer

    kafka.create("transactions", **FOREVER)
    producer = Producer({**kafka.settings, "transactional.id": "one", "log_level": 0})
    producer.init_transactions(20)
    for number in range(2):
        producer.begin_transaction()
        producer.produce("transactions", f'{{"n": {number}}}', partition=0)
        producer.commit_transaction(20)
    found = list(read_range(connection("events"), TopicRange("transactions", 0, 0, 4)))
    assert [(record.offset, record.value) for record in found] == [(0, b'{"n": 0}'), (2, b'{"n": 1}')]


def test_a_replay_into_a_topic_goes_on_where_it_was(kafka: Broker) -> None:
    """Each flight once, in the order of departure within its partition, however often it was interrupted."""
    known = connection("events")
    first = replay_to_topic(known, "flights", limit=700)
    assert (first.sent, first.skipped, first.partitions) == (700, 0, 4)
    again = replay_to_topic(known, "flights", limit=1_100, rows_per_portion=300)
    assert (again.sent, again.skipped) == (400, 700)
    rows = [list(read_range(known, TopicRange("flights", part, 0, 275))) for part in range(4)]
    values = [json.loads(rows[number % 4][number // 4].value or b"") for number in range(1_100)]
    expected = departures().head(1_100).drop(columns="order").to_json(orient="records", lines=True)
    assert values == [json.loads(line) for line in expected.splitlines()]


def test_a_record_of_somebody_else_ends_a_replay(kafka: Broker) -> None:
    """Otherwise flights would stand twice in the topic, or be missing, at its next start."""
    kafka.create("shared", **FOREVER)
    told: list[float] = []

    def intrude(_: float) -> None:
        if not told:
            kafka.produce("shared", ["mine"])
        told.append(1)

    clock = iter(float(second) for second in range(10**6))
    with pytest.raises(SourceError, match="another program writes to the topic too"):
        replay_to_topic(
            connection("events"), "shared", limit=1_000, speedup=1e3, clock=lambda: next(clock), sleep=intrude
        )


def test_a_person_replays_into_a_topic_from_the_shell(kafka: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamwarden.cli", "replay", "--to", "kafka:events/typed", "--limit", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "10 flights sent, 0 existed; to 4 partitions of the topic typed" in " ".join(done.stdout.split())
    wrong = subprocess.run([*command[:5], "kafka:events"], capture_output=True, text=True, timeout=200)
    assert wrong.returncode == 2
    assert "is not kafka:CONNECTION/TOPIC" in " ".join(wrong.stderr.replace("│", "").split())
