"""How long an event is on its way from topic to topic: real-time mode beside the same job in micro-batches.

A real broker and real drivers (launcher, supervisor process, spark-submit, runner) of `event_dedup`, on two partitions
of the topic and two of the state. A producer sends events at a steady rate, each tenth of them twice; a consumer in the
same process notes when each comes out for the first time. The latency of an event counts from the moment at which its
schedule has it, not from the moment at which it was sent: a producer that falls behind, on a machine that stands still
with the stream, must not hide the wait. Both ways through the broker are in it.

No row flows while a batch of real-time mode is committed and the next one planned, so its batches are measured whole:
from one commit until that of the last of `--batches` more, with as many pauses in between. What comes before the second
commit does not count: code is compiled, topics are found. The second table names each commit and what the events around
it waited, those of the warm-up too.

    python benchmarks/real_time_latency/run.py [--length 30] [--batches 5] [--rate 100] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from streamwarden.adapters.store import Store
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import OutputMode, StateSpec, StreamSpec, TriggerSpec

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "spark_jobs/event_dedup.py"
GOAL_MS = 432.0
"""For the 99th percentile in real-time mode."""

PARTITIONS = 2
WARM_UP = 2
"""Batches of real-time mode, from the first on, whose events do not count."""

WARM_UP_SECONDS = 45.0
"""The same for micro-batches."""

AROUND = 4.0
"""Seconds on both sides of a commit in which the longest latency is taken for its pause."""

PATIENCE = 180.0
"""Seconds without any event that comes out, after which the stream is given up; beyond the length of a batch, without
any commit."""


@dataclass(frozen=True)
class Mode:
    """One of the triggers that are compared, and for how long: whole batches, or seconds."""

    name: str
    trigger: TriggerSpec
    batches: int = 0
    seconds: float = 0.0


@dataclass
class Traffic:
    """What was to be sent when, and when it came out. Times are those of `time.monotonic`."""

    due: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """A commit: what Spark spent on its batch, and the longest wait of an event around it. `counts`: it is one of those
    in the measured time."""

    batch: int
    counts: bool
    pause_ms: float
    spent_ms: Mapping[str, int]


@dataclass(frozen=True)
class Measured:
    """The latency of each event in milliseconds, and the commits of real-time mode."""

    latencies: tuple[float, ...]
    commits: tuple[Commit, ...]


def main() -> int:
    """Parse the options, measure, print the tables."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--length", type=float, default=30.0, help="seconds of a batch in real-time mode")
    options.add_argument("--batches", type=int, default=5, help="that are measured of real-time mode")
    options.add_argument("--seconds", type=float, default=45.0, help="that are measured of micro-batches")
    options.add_argument("--rate", type=float, default=100.0, help="events a second")
    options.add_argument("--only", default="", metavar="WORD", help="the modes whose name holds this")
    options.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="of Spark, for another variant"
    )
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    modes = (
        Mode(
            f"real-time mode, batches of {chosen.length:g} s",
            TriggerSpec(real_time=chosen.length),
            batches=chosen.batches,
        ),
        Mode("micro-batches, each after the last", TriggerSpec(processing_time=0.0), seconds=chosen.seconds),
        Mode("micro-batches, each second", TriggerSpec(processing_time=1.0), seconds=chosen.seconds),
    )
    conf = dict(pair.split("=", 1) for pair in chosen.conf)
    sys.path.append(str(REPOSITORY / "tests"))
    from support.servers.kafka_broker import broker

    measured: dict[str, Measured] = {}
    with broker() as kafka, tempfile.TemporaryDirectory(prefix="real-time-latency-") as folder:
        os.environ["AIRFLOW_CONN_EVENTS"] = kafka.connection
        for place, mode in enumerate(modes):
            if chosen.only in mode.name:
                measured[mode.name] = measure(kafka, mode, Path(folder) / str(place), chosen.rate, conf)
                print(f"{mode.name}: measured", file=sys.stderr)
    print(report(measured, chosen.rate))
    return 0


def stream(mode: Mode, root: Path, source: str, sink: str, conf: Mapping[str, str]) -> StreamSpec:
    """The stream of one mode, with a checkpoint for itself."""
    return StreamSpec(
        name="latency",
        job=str(JOB),
        checkpoint=str(root / "checkpoint"),
        source=KafkaSource(
            connection="events",
            topic=source,
            options={"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
        ),
        sink=KafkaSink(
            connection="events",
            topic=sink,
            key=("event_id", "event_time"),
            mode=OutputMode.UPDATE,
        ),
        quarantine=str(root / "quarantine"),
        trigger=mode.trigger,
        state=StateSpec(shuffle_partitions=PARTITIONS),
        spark=SparkSpec(master=f"local[{2 * PARTITIONS + 1}]", driver_memory=2**30, conf=dict(conf)),
        project=str(REPOSITORY),
    )


def measure(kafka: Any, mode: Mode, root: Path, rate: float, conf: Mapping[str, str]) -> Measured:
    """Run one mode until enough of it was seen."""
    source, sink = f"in-{root.name}", f"out-{root.name}"
    for topic in (source, sink):
        kafka.create(topic, partitions=PARTITIONS)
    spec = stream(mode, root, source, sink, conf)
    traffic, ended = Traffic(), threading.Event()
    with driving(spec, root) as reported:
        sender = threading.Thread(target=send, args=(kafka, source, rate, traffic, ended), daemon=True)
        receiver = threading.Thread(target=receive, args=(kafka, sink, traffic, ended), daemon=True)
        try:
            receiver.start()
            sender.start()
            since, until = await_window(spec, mode, traffic)
            await_all(traffic, until)
            spent = reported() if mode.batches else {}
        finally:
            ended.set()
            sender.join(10)
            receiver.join(10)
    latencies = {at: (traffic.arrived[name] - at) * 1000 for name, at in traffic.due.items() if at < until}
    marks = {batch: at for batch, at in commits(spec).items() if at <= until} if mode.batches else {}
    found = [Commit(batch, at > since, pause(latencies, at), spent.get(batch, {})) for batch, at in marks.items()]
    return Measured(tuple(taken for at, taken in latencies.items() if at >= since), tuple(found))


def await_window(spec: StreamSpec, mode: Mode, traffic: Traffic) -> tuple[float, float]:
    """Wait until the measured time has passed: from when to when it lasted."""
    await_while_it_works(lambda: bool(traffic.arrived), traffic, "the first event")
    if mode.batches:
        last = WARM_UP + mode.batches - 1
        await_while_it_works(lambda: last in commits(spec), traffic, f"the commit of batch {last}", limit=mode.trigger)
        made = commits(spec)
        return made[WARM_UP - 1], made[last]
    since = time.monotonic() + WARM_UP_SECONDS
    until = since + mode.seconds
    await_while_it_works(lambda: time.monotonic() >= until, traffic, "the end of the measured time")
    return since, until


def await_all(traffic: Traffic, until: float) -> None:
    """Until all is out that was due before `until`."""
    wanted = {name for name, at in list(traffic.due.items()) if at < until}
    await_while_it_works(lambda: wanted <= set(traffic.arrived.copy()), traffic, "the last events")


def await_while_it_works(
    condition: Callable[[], bool], traffic: Traffic, what: str, *, limit: TriggerSpec | None = None
) -> None:
    """Wait for a condition, for as long as events come out. Raises SystemExit if none does any more."""
    patience = PATIENCE + ((limit.real_time or 0.0) if limit else 0.0)
    seen, deadline = -1, 0.0
    while not condition():
        if len(traffic.arrived) != seen:
            seen, deadline = len(traffic.arrived), time.monotonic() + patience
        if time.monotonic() > deadline:
            raise SystemExit(f"{seen:,} events came out, then none for {patience:.0f} s; still waiting for {what}")
        time.sleep(0.05)


def commits(spec: StreamSpec) -> dict[int, float]:
    """Batch -> when it was committed, by the clock of `time.monotonic`."""
    folder = Path(spec.checkpoint) / "commits"
    offset = time.monotonic() - time.time()
    found = folder.iterdir() if folder.is_dir() else ()
    times = {int(path.name): path.stat().st_mtime + offset for path in found if path.name.isdigit()}
    return dict(sorted(times.items()))


def pause(latencies: Mapping[float, float], commit: float) -> float:
    """The longest wait of an event that was due around a commit."""
    return max(taken for at, taken in latencies.items() if abs(at - commit) <= AROUND)


def send(kafka: Any, topic: str, rate: float, traffic: Traffic, ended: threading.Event) -> None:
    """Events at a steady rate, by a schedule that a late one does not shift; each tenth is sent twice. What is noted of
    an event is when it was due."""
    from confluent_kafka import Producer

    producer = Producer({**kafka.settings, "log_level": 0, "linger.ms": 0})
    began, number = time.monotonic(), 0
    while not ended.wait(max(0.0, (due := began + number / rate) - time.monotonic())):
        now = datetime.now(UTC)
        stamp = f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03d}Z"
        name = f"e{number}"
        value = json.dumps({"event_time": stamp, "event_id": name, "user_id": number % 1000, "action": "view"})
        traffic.due[name] = due
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


@contextmanager
def driving(spec: StreamSpec, data: Path) -> Iterator[Callable[[], dict[int, Mapping[str, int]]]]:
    """A driver of the stream, stopped in the end; yields a question: what did Spark spend on each batch, in ms?"""
    data.mkdir(parents=True)
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)
        started = fleet.start(spec, launched_by="benchmark")
        try:
            yield lambda: {
                batch.batch_id: batch.progress.durations_ms
                for batch in store.batches.window(spec.name)
                if batch.progress is not None
            }
        except SystemExit:
            print(fleet.log_path(started.record.driver_id).read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            fleet.stop(spec.name, requested_by="benchmark", reason="done", batch_deadline=1, term_deadline=10)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def report(measured: dict[str, Measured], rate: float) -> str:
    """Markdown: a line for each mode, then one for each commit of real-time mode."""
    lines = [
        f"| {rate:g} events a second | events | p50 | p99 | p99.9 | longest | above {GOAL_MS:.0f} ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in measured.items():
        every = found.latencies
        cells = [percentile(every, share) for share in (0.5, 0.99, 0.999, 1.0)]
        late = sum(value > GOAL_MS for value in every) / len(every)
        lines.append(
            f"| {name} | {len(every):,} | " + " | ".join(f"{cell:,.0f} ms" for cell in cells) + f" | {late:.1%} |"
        )
    for found in measured.values():
        lines += commit_lines(found)
    return "\n".join(lines)


def commit_lines(found: Measured) -> list[str]:
    """Markdown: what the events around each commit waited, and what Spark spent on the batch besides its length."""
    if not found.commits:
        return []
    counted = [each for each in found.commits if each.counts]
    pauses = ", ".join(f"{each.pause_ms:,.0f}" for each in counted)
    phases = sorted({phase for each in found.commits for phase in each.spent_ms} - {"triggerExecution"})
    lines = ["", f"{len(counted)} commits; the longest wait of an event around each: {pauses} ms.", ""]
    lines += [f"| batch | longest wait | {' | '.join(phases)} |", "|---" * (len(phases) + 2) + "|"]
    for each in found.commits:
        spent = " | ".join(f"{each.spent_ms.get(phase, 0):,} ms" for phase in phases)
        batch = f"{each.batch}" if each.counts else f"{each.batch} (warm-up)"
        lines.append(f"| {batch} | {each.pause_ms:,.0f} ms | {spent} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
