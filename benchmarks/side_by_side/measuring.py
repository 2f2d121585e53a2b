"""One run: catch up with what is there, follow a steady stream, be killed in the middle of it, come to the end."""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from benchmarks.side_by_side.contender import Contender, Place, Running
from benchmarks.side_by_side.figures import Measured, latencies, rate, recovery
from benchmarks.side_by_side.jobs.job import Job
from benchmarks.side_by_side.verdicts import Key, Values, verify
from confluent_kafka import Producer

from streamwarden.adapters import processes
from streamwarden.services.verifying.oracle_files import load_oracle
from streamwarden.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
WARM_UP_SECONDS = 3
"""Of the steady stream, after the catching up, whose latency does not count."""

SETTLED = 0.3
"""Seconds after the kill in which rows can still arrive that were committed before it."""

LINGER = 5.0
"""Seconds after the last expected row in which a row that comes twice is still seen."""


@dataclass(frozen=True)
class Load:
    """How much a run is given.

    Args:
        before: records that are there when it begins.
        rate: records a second of the steady stream; seconds: how long it lasts.
        batch: most records of one batch of Spark.
        patience: seconds for each phase.
    """

    before: int
    rate: int
    seconds: int
    batch: int
    patience: float

    @property
    def records(self) -> int:
        """Those of both parts."""
        return self.before + self.rate * self.seconds

    def of(self, job: Job) -> Load:
        """The job's share of it."""
        return replace(self, before=round(self.before * job.share), rate=round(self.rate * job.share))


class DidNotFinish(Exception):
    """A phase of the run took longer than the load's patience."""


@dataclass
class Input:
    """The records of a job, and the output that its oracle expects of them.

    Args:
        expected: key -> values.
        completes: key -> number of the record that completes the row: by the clock of all, or of its own key.
    """

    job: Job
    lines: Sequence[str]
    keys: Sequence[str]
    expected: Mapping[Key, Values]
    completes: Mapping[bool, Mapping[Key, int | None]]


def make_input(job: Job, sent: Sequence[str], folder: Path) -> Input:
    """What is sent, the records that close it, and the oracle's answer: made once for all contenders."""
    lines = [*sent, *job.closing(sent)]
    records = [json.loads(line) for line in lines]
    path = folder / f"{job.name}.json"
    path.write_text("".join(f"{line}\n" for line in lines))
    answer = load_oracle(REPOSITORY / "spark_jobs" / oracle_of(job))([path], job.facts(path, records))
    if answer.problems:
        raise SystemExit(f"the oracle of {job.name} does not accept the input: {answer.problems}")
    columns = (*answer.key_columns, *answer.value_columns)
    expected = dict(job.row(dict(zip(columns, (*key, *rest), strict=True))) for key, rest in answer.rows.items())
    completes = {by_key: releases(job, records, expected, by_key) for by_key in (False, True)}
    return Input(job, lines, [job.key(record) for record in records], expected, completes)


def oracle_of(job: Job) -> str:
    """The file of the job whose oracle judges."""
    import yaml

    return Path(yaml.safe_load((REPOSITORY / f"config/streams/{job.stream}.yaml").read_text())["job"]).name


def releases(
    job: Job, records: Sequence[Any], expected: Mapping[Key, Values], by_key: bool
) -> Mapping[Key, int | None]:
    """Which record completes each expected row."""
    of = job.releases(records, by_key)
    return {key: of(key) for key in expected}


class Traffic:
    """Sends the records, and notes when."""

    def __init__(self, of: Input, servers: str, topic: str) -> None:
        self._of, self._topic = of, topic
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "log_level": 0})
        self.sent: dict[int, float] = {}
        self.next = 0

    def send(self, upto: int) -> None:
        """The records up to this number."""
        while self.next < upto:
            key = self._of.keys[self.next]
            partition = crc32(key.encode()) % self._of.job.partitions
            self._produce(key, self._of.lines[self.next], partition)
            self.sent[self.next] = time.time()
            self.next += 1

    def _produce(self, key: str, line: str, partition: int) -> None:
        while True:
            try:
                return self._producer.produce(self._topic, line, key=key, partition=partition)
            except BufferError:
                self._producer.poll(0.1)

    def flush(self) -> None:
        """Returns when the broker has them all."""
        if self._producer.flush(60):
            raise DidNotFinish("the broker did not take all records")

    def pace(self, upto: int, a_second: int) -> None:
        """The records up to this number, so many a second."""
        began, first = time.time(), self.next
        while self.next < upto:
            self.send(min(upto, first + int((time.time() - began) * a_second)))
            self._producer.poll(0.005)


@dataclass
class Watch:
    """What has come out.

    Args:
        rows: of each: key, values and when it could be read.
        left: expected keys that have not come out, by the record that completes them.
    """

    of: Input
    completes: Mapping[Key, int | None]
    rows: list[tuple[Key, Values, float]] = field(default_factory=list)
    first: dict[Key, float] = field(default_factory=dict)

    def take(self, at: float, record: Mapping[str, Any]) -> None:
        """Note one row."""
        key, values = self.of.job.row(record)
        self.rows.append((key, values, at))
        self.first.setdefault(key, at)

    def points(self, least: int, most: int) -> list[tuple[int, float]]:
        """(number of the completing record, when the row came out first), of records from `least` to before `most`."""
        found = ((self.completes.get(key), at) for key, at in list(self.first.items()))
        return [(number, at) for number, at in found if number is not None and least <= number < most]

    def missing(self) -> str:
        """The rows that have not come out although their records were sent first, a few of them."""
        left = sorted((number or 0, str(key)) for key, number in self.completes.items() if key not in self.first)
        return f"given up, {len(left):,} rows are missing, such as {left[:3]}"

    def has(self, upto: int) -> Callable[[], bool]:
        """Whether each row that a record before `upto` completes has come out."""
        wanted = {key for key, number in self.completes.items() if number is not None and number < upto}

        def all_there() -> bool:
            wanted.difference_update([key for key in wanted if key in self.first])
            return not wanted

        return all_there


def measure(contender: Contender, of: Input, load: Load, broker: Any, root: Path) -> Measured:
    """Run one contender on one job. Raises DidNotFinish."""
    print(contender.name, file=sys.stderr, flush=True)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    source, sink = f"in-{root.name}", f"out-{root.name}"
    for topic in (source, sink):
        broker.create(topic, partitions=of.job.partitions)
    traffic = Traffic(of, broker.servers, source)
    traffic.send(load.before)
    traffic.flush()
    place = Place(root=root, servers=broker.servers, source=source, sink=sink, job=of.job, batch=load.batch)
    watch = Watch(of, of.completes[contender.by_key])
    began = time.time()
    with contender.run(place) as run, watching(run, watch), sampling(root) as memory:
        await_(trickling(traffic, watch.has(load.before), load), load, "catch up", watch)
        wait_until(run.ready, within=load.patience, every=0.2)
        killed_at = steady(traffic, run, load)
        traffic.send(len(of.lines))
        traffic.flush()
        await_(watch.has(len(of.lines)), load, "come to the end", watch, fatal=False)
        time.sleep(LINGER)
        checkpoints = run.checkpoints()
    return computed(watch, traffic, load, began, killed_at, checkpoints, max(memory))


def trickling(traffic: Traffic, condition: Callable[[], bool], load: Load) -> Callable[[], bool]:
    """The condition, with a record at each look: some contenders close windows only when a record arrives."""

    def asked() -> bool:
        if traffic.next < load.before + WARM_UP_SECONDS * load.rate:
            traffic.send(traffic.next + 1)
            traffic.flush()
        return condition()

    return asked


def steady(traffic: Traffic, run: Running, load: Load) -> float:
    """The second part of the input, with a kill in its middle; when that was."""
    middle = load.before + (load.records - load.before) // 2
    traffic.pace(middle, load.rate)
    killed_at = time.time()
    killer = threading.Thread(target=run.kill)  # the stream goes on meanwhile
    killer.start()
    traffic.pace(load.records, load.rate)
    killer.join()
    return killed_at


def computed(
    watch: Watch,
    traffic: Traffic,
    load: Load,
    began: float,
    killed_at: float,
    checkpoints: Sequence[float],
    memory: int,
) -> Measured:
    """The figures of a run that has ended."""
    caught_up = watch.points(0, load.before)
    warm = load.before + WARM_UP_SECONDS * load.rate
    before_kill = [(number, at) for number, at in watch.points(warm, load.records) if at <= killed_at]
    return Measured(
        rate=rate(caught_up),
        caught_up=max(at for _, at in caught_up) - began,
        latencies=latencies(before_kill, traffic.sent),
        checkpoints=checkpoints,
        memory=memory,
        recovery=recovery(watch.first.values(), killed_at, SETTLED),
        verdict=verify(watch.of.expected, ((key, values) for key, values, _ in watch.rows)),
    )


def await_(condition: Callable[[], bool], load: Load, what: str, watch: Watch, *, fatal: bool = True) -> None:
    """Wait for a phase to end. Raises DidNotFinish, unless what is missing is for the verdict to say."""
    done = wait_until(condition, within=load.patience, every=0.1)
    print(f"  {what}: {'done' if done else watch.missing()}, {len(watch.rows):,} rows", file=sys.stderr, flush=True)
    if not done and fatal:
        raise DidNotFinish(f"did not {what} within {load.patience:.0f} s: {len(watch.rows):,} rows came out")


@contextmanager
def watching(run: Running, watch: Watch) -> Iterator[None]:
    """Reads the output in a thread of its own."""

    def read() -> None:
        for at, record in run.output.new():
            watch.take(at, record)

    with repeating(read):
        yield


@contextmanager
def sampling(root: Path) -> Iterator[list[int]]:
    """Resident bytes of all processes of the run, once a second."""
    found = [0]

    def sample() -> None:
        found.append(resident(root))
        time.sleep(1)

    with repeating(sample):
        yield found


def resident(root: Path) -> int:
    """Of each process whose command line names the folder, and of all that these have started."""
    named = [pid for pid, command in processes.commands().items() if any(str(root) in word for word in command)]
    pids = {pid for top in named for pid in processes.tree(top)}
    return sum(proportional(pid) for pid in pids)


def proportional(pid: int) -> int:
    """Resident bytes of a process, shared pages divided among those that share them; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@contextmanager
def repeating(work: Callable[[], object]) -> Iterator[None]:
    """Does the work again and again in a thread, until the block ends. Raises what the work has raised."""
    ended = threading.Event()
    failed: list[BaseException] = []

    def loop() -> None:
        try:
            while not ended.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)
    if failed:
        raise failed[0]
