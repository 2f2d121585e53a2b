"""How long an event is on its way from topic to topic: real-time mode beside the same job in micro-batches.

A real broker and real drivers (launcher, keeper, spark-submit, runner) of `event_dedup`, on two partitions of the topic
and two of the state. A producer sends events at a steady rate, each tenth of them twice; a consumer in the same process
notes when each comes out for the first time. The latency of an event is what the process's one clock shows between the
call that sends it and the poll that returns it: both ways through the broker are in it. Each round measures each mode
once, one after the other, with a driver, topics and a checkpoint of its own; what was sent while it warmed up does not
count, commits and the pauses around them do: real-time mode is measured for as long as a batch lasts, so one such pause
is in it.

    python benchmarks/real_time_latency/run.py [--rounds 3] [--seconds 60] [--rate 100] [--length 300]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamwarden.adapters.fleet import Fleet
from streamwarden.adapters.store import Store
from streamwarden.stream import (
    OutputMode,
    SinkKind,
    SinkSpec,
    SourceKind,
    SourceSpec,
    SparkSpec,
    StateSpec,
    StreamSpec,
    TriggerSpec,
)

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "spark_jobs/event_dedup.py"
GOAL_MS = 432.0
"""For the 99th percentile in real-time mode."""

PARTITIONS = 2
WARM_UP = 60.0
"""Seconds of events, from the first that comes out on, which do not count: code is compiled, topics are found."""

PATIENCE = 120.0
"""Seconds until the first event has come out, and until the last one has."""


@dataclass(frozen=True)
class Mode:
    """One of the triggers that are compared."""

    name: str
    trigger: TriggerSpec
    seconds: float
    """For how long it is measured."""


@dataclass
class Traffic:
    """What was sent and what came out. Times are those of `time.monotonic`."""

    sent: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)

    def latencies(self, since: float, until: float) -> list[float]:
        """Milliseconds of the events that were sent between the two times. Raises SystemExit if one is missing."""
        wanted = [name for name, at in self.sent.items() if since <= at < until]
        lost = [name for name in wanted if name not in self.arrived]
        if lost or not wanted:
            raise SystemExit(f"{len(lost)} of {len(wanted)} events never came out")
        return [(self.arrived[name] - self.sent[name]) * 1000 for name in wanted]


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=60.0, help="that are measured of micro-batches, each round")
    options.add_argument("--rate", type=float, default=100.0, help="events a second")
    options.add_argument("--length", type=float, default=300.0, help="seconds of a batch in real-time mode")
    chosen = options.parse_args()
    modes = (
        Mode(f"real-time mode, batches of {chosen.length:g} s", TriggerSpec(real_time=chosen.length), chosen.length),
        Mode("micro-batches, each after the last", TriggerSpec(processing_time=0.0), chosen.seconds),
        Mode("micro-batches, each second", TriggerSpec(processing_time=1.0), chosen.seconds),
    )
    measured: dict[str, list[list[float]]] = {mode.name: [] for mode in modes}
    sys.path.append(str(REPOSITORY / "tests"))
    from support.kafka_broker import broker

    with broker() as kafka, tempfile.TemporaryDirectory(prefix="real-time-latency-") as folder:
        os.environ["AIRFLOW_CONN_EVENTS"] = kafka.connection
        for number in range(chosen.rounds):
            for place, mode in enumerate(modes):
                root = Path(folder) / f"{number}-{place}"
                found = latencies(kafka, mode, root, chosen.rate)
                measured[mode.name].append(found)
                print(f"round {number + 1}, {mode.name}: p99 {percentile(found, 0.99):.0f} ms", file=sys.stderr)
    print(report(measured, chosen.rate))
    return 0


def latencies(kafka: Any, mode: Mode, root: Path, rate: float) -> list[float]:
    """Milliseconds of each event that is sent after the warm-up."""
    source, sink = f"in-{root.name}", f"out-{root.name}"
    for topic in (source, sink):
        kafka.create(topic, partitions=PARTITIONS)
    spec = StreamSpec(
        name="latency",
        job=str(JOB),
        checkpoint=str(root / "checkpoint"),
        source=SourceSpec(
            kind=SourceKind.KAFKA,
            connection="events",
            topic=source,
            options={"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
        ),
        sink=SinkSpec(
            kind=SinkKind.KAFKA,
            connection="events",
            topic=sink,
            key=("event_id", "event_time"),
            mode=OutputMode.UPDATE,
        ),
        quarantine=str(root / "quarantine"),
        trigger=mode.trigger,
        state=StateSpec(shuffle_partitions=PARTITIONS),
        spark=SparkSpec(master=f"local[{2 * PARTITIONS + 1}]", driver_memory=2**30),
        project=str(REPOSITORY),
    )
    traffic, ended = Traffic(), threading.Event()
    with driving(spec, root):
        sender = threading.Thread(target=send, args=(kafka, source, rate, traffic, ended), daemon=True)
        receiver = threading.Thread(target=receive, args=(kafka, sink, traffic, ended), daemon=True)
        try:
            receiver.start()
            sender.start()
            await_first(traffic)
            since = time.monotonic() + WARM_UP
            until = since + mode.seconds
            time.sleep(until - time.monotonic())
            await_all(traffic, until)
        finally:
            ended.set()
            sender.join(10)
            receiver.join(10)
    return traffic.latencies(since, until)


def send(kafka: Any, topic: str, rate: float, traffic: Traffic, ended: threading.Event) -> None:
    """Events at a steady rate, by a schedule that a late one does not shift; each tenth is sent twice."""
    from confluent_kafka import Producer

    producer = Producer({**kafka.settings, "log_level": 0, "linger.ms": 0})
    began, number = time.monotonic(), 0
    while not ended.wait(max(0.0, began + number / rate - time.monotonic())):
        now = datetime.now(UTC)
        stamp = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"
        name = f"e{number}"
        value = json.dumps({"event_time": stamp, "event_id": name, "user_id": number % 1000, "action": "view"})
        traffic.sent[name] = time.monotonic()
        for _ in range(2 if number % 10 == 0 else 1):
            producer.produce(topic, value, key=name)
        producer.poll(0)
        number += 1
    producer.flush(10)


def receive(kafka: Any, topic: str, traffic: Traffic, ended: threading.Event) -> None:
    """Notes when each event comes out for the first time."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**kafka.settings, "group.id": "latency", "log_level": 0})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while not ended.is_set():
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            traffic.arrived.setdefault(json.loads(message.value() or b"{}")["event_id"], time.monotonic())
    consumer.close()


def await_first(traffic: Traffic) -> None:
    """Until the driver writes."""
    deadline = time.monotonic() + PATIENCE
    while not traffic.arrived:
        if time.monotonic() > deadline:
            raise SystemExit(f"nothing came out in {PATIENCE:.0f} s")
        time.sleep(0.05)


def await_all(traffic: Traffic, until: float) -> None:
    """Until all is out that was sent before `until`; what is missing then is told by `Traffic.latencies`."""
    wanted = {name for name, at in list(traffic.sent.items()) if at < until}
    deadline = time.monotonic() + PATIENCE
    while wanted - set(traffic.arrived.copy()) and time.monotonic() < deadline:
        time.sleep(0.05)


@contextmanager
def driving(spec: StreamSpec, data: Path) -> Iterator[None]:
    """A driver of the stream; it is stopped in the end."""
    data.mkdir(parents=True)
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)
        started = fleet.start(spec, launched_by="benchmark")
        try:
            yield
        except SystemExit:
            print(fleet.log_path(started.record.driver_id).read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            fleet.stop(spec.name, requested_by="benchmark", reason="done", batch_deadline=1, term_deadline=10)


def percentile(values: list[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def report(measured: dict[str, list[list[float]]], rate: float) -> str:
    """Markdown: one line a mode, over the events of all rounds."""
    lines = [
        f"| {rate:g} events a second | events | p50 | p99 | p99 of each round | longest |",
        "|---|---|---|---|---|---|",
    ]
    for name, rounds in measured.items():
        every = [value for found in rounds for value in found]
        each = ", ".join(f"{percentile(found, 0.99):.0f}" for found in rounds)
        lines.append(
            f"| {name} | {len(every):,} | {percentile(every, 0.5):.0f} ms | {percentile(every, 0.99):.0f} ms "
            f"| {each} ms | {max(every):.0f} ms |"
        )
    live = percentile([value for found in next(iter(measured.values())) for value in found], 0.99)
    lines += ["", f"Goal for p99 in real-time mode: < {GOAL_MS:.0f} ms; {'met' if live < GOAL_MS else 'missed'}."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
