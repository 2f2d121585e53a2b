"""What the progress listener costs a batch: paired blocks of batches of one running query, with and without it.

One query (JSON files -> watermark -> windowed aggregation -> parquet, RocksDB with changelogs) runs batches of equal
files back to back. Every few batches the listener is added or removed; its reports go through the driver's own store
link to a SQLite store, as in production. Durations come from Spark's own `recentProgress`, which needs no listener.
Each block with the listener is paired with the block without it next to it (on-off, off-on in turn, so that
a trend cancels out). Two figures:

- What it can cost at most: how much more CPU time the threads use that work for the listener or the store (in Python:
  all but the main one; in the JVM: the listener bus and the gateway's threads), as a share of a batch's duration. None
  of it is on the batch's own thread, so a batch becomes longer by this much only if the machine has no idle core at all
  and all of it comes out of the batch's time. What the driver's supervision uses anyway is given beside it.
- What it is seen to cost: the median of the pairs' ratios of durations, with a bootstrap confidence interval. Batches
  vary by several per cent, so some hundred pairs are needed before this one can show 1 %.

    python benchmarks/listener_overhead/run.py [--pairs 40] [--block 5] [--rows 20000]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamwarden.adapters import processes
from streamwarden.adapters.jvm.environments import own, spark_variables
from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import parse_timestamp
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.spark.driver.query_registry import QueryRegistry
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.sinks import start_query
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

WARM_UP = 25
"""Batches before the first block: the JVM compiles its hot code in them, and the link to the store is used first."""

PATIENCE = 300.0
"""Seconds for the batches of one block."""


@dataclass(frozen=True)
class Cpu:
    """CPU seconds so far of the threads that serve the listener."""

    python: float
    jvm: float

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(self.python - other.python, self.jvm - other.jvm)


@dataclass(frozen=True)
class Turn:
    """A stretch of batches with or without the listener, in Unix seconds, and what it used."""

    began: float
    ended: float
    listening: bool
    cpu: Cpu


@dataclass(frozen=True)
class Block:
    listening: bool
    durations: tuple[float, ...]
    seconds: float
    """From its first moment to its last, with the parts of batches at both ends."""
    cpu: Cpu


class Accountant:
    """Reads the CPU clocks of threads: Python's by the system, the JVM's by its own management bean."""

    JVM_THREADS = re.compile(r"spark-listener-group-streams|Thread-\d+")
    """The bus that calls the listener, and the gateway's threads that serve the calls it makes."""

    def __init__(self, spark: Any) -> None:
        self._bean = spark._jvm.java.lang.management.ManagementFactory.getThreadMXBean()

    def read(self) -> Cpu:
        python = sum(
            time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            for thread in threading.enumerate()
            if thread is not threading.main_thread() and thread.ident is not None
        )
        infos = (self._bean.getThreadInfo(number) for number in self._bean.getAllThreadIds())
        counted = (each.getThreadId() for each in infos if each and self.JVM_THREADS.fullmatch(each.getThreadName()))
        return Cpu(python, sum(self._bean.getThreadCpuTime(number) for number in counted) / 1e9)


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--pairs", type=int, default=40)
    options.add_argument("--block", type=int, default=5, help="batches in a block")
    options.add_argument("--rows", type=int, default=20_000, help="rows in a batch")
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.folder is None:
        return _in_spark(sys.argv[1:])
    blocks = measure(given.folder, given.pairs, given.block, given.rows)
    print(report(blocks, given))
    return 0


def _in_spark(arguments: list[str]) -> int:
    """Run this file again where Spark finds its Java, in a scratch folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="listener-overhead-") as folder:
        environment = {**spark_variables(own(), find_java()), "TMPDIR": folder}
        command = [sys.executable, __file__, *arguments, "--folder", folder]
        return subprocess.run(command, env=environment, check=False).returncode


def measure(folder: Path, pairs: int, block: int, rows: int) -> list[Block]:
    """Run the query and return its blocks in order: listener on, off, off, on, on, …"""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spec = StreamSpec(
        name="overhead",
        job=__file__,
        checkpoint=str(folder / "checkpoint"),
        source=FilesSource(path=str(folder / "input"), max_files_per_trigger=1),
        sink=ParquetSink(path=str(folder / "output")),
        trigger=TriggerSpec(processing_time=0.0),
        state=StateSpec(shuffle_partitions=2),
    )
    # Each block takes the batch of the switch, its own, and what runs until the poll notices the last of them.
    wanted = WARM_UP + 2 * pairs * (block + 5) + 50
    publish(folder / "input", wanted, rows)
    builder = SparkSession.builder
    for key, value in spark_conf(spec).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", str(wanted + 100))
    builder = builder.config("spark.local.dir", str(folder / "tmp"))
    spark = builder.config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={folder}").getOrCreate()
    try:
        frame = (
            spark.readStream.schema("id BIGINT, key INT, at TIMESTAMP, amount DOUBLE")
            .option("maxFilesPerTrigger", 1)
            .json(str(folder / "input"))
            .withWatermark("at", "1 minute")
            .groupBy(f.window("at", "1 minute"), "key")
            .agg(f.count("*").alias("n"), f.sum("amount").alias("amount"))
        )
        link = open_link(folder, spec)
        query = start_query(frame, spec)
        turns = alternate(spark, query, link, pairs, block)
        query.stop()
        link.close()
        return blocks_of(query.recentProgress, turns)
    finally:
        spark.stop()


def open_link(folder: Path, spec: StreamSpec) -> StoreLink:
    """The driver's own way to the store."""
    url = f"sqlite:///{folder / 'store.db'}"
    own = processes.identity(os.getpid())
    assert own is not None
    driver = folder / "drivers" / spec.name / "overhead-1"
    driver.mkdir(parents=True)
    with Store(url) as store:
        store.migrate()
        lease = store.leases.acquire(spec.checkpoint, stream=spec.name, holder=driver.name, ttl=600, now=time.time())
        record = DriverRecord(
            driver_id=driver.name,
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=lease.token,
            folder=str(driver),
            launched_by="benchmark",
            launched_at=time.time(),
        )
        store.drivers.launched(record)
    registry = QueryRegistry(spec, driver.name)
    link = StoreLink(url, stream=spec.name, folder=driver, lease=lease, process=own, registry=registry)
    link.bind()
    link.start()
    return link


def alternate(spark: Any, query: Any, link: StoreLink, pairs: int, block: int) -> list[Turn]:
    """Add and remove the listener; the batch in which it is switched belongs to no turn."""
    from streamwarden.spark.internals.listener import ProgressListener

    listener = ProgressListener(link.emit)
    accountant = Accountant(spark)
    turns = []
    order = [state for pair in range(pairs) for state in ((True, False) if pair % 2 == 0 else (False, True))]
    spark.streams.addListener(listener)
    await_batch(query, WARM_UP)
    listening = True
    for state in order:
        if state != listening:
            (spark.streams.addListener if state else spark.streams.removeListener)(listener)
            listening = state
        await_batch(query, query.lastProgress["batchId"] + 2)
        before, began = accountant.read(), time.time()
        await_batch(query, query.lastProgress["batchId"] + block + 1)
        ended = time.time()
        turns.append(Turn(began, ended, state, accountant.read() - before))
    return turns


def blocks_of(reports: Any, turns: list[Turn]) -> list[Block]:
    """The batches that ran wholly within each turn."""
    batches = [
        (parse_timestamp(each["timestamp"]), each["durationMs"]["triggerExecution"] / 1000)
        for each in map(json.loads, (report.json for report in reports))
        if each["numInputRows"] > 0
    ]
    return [
        Block(
            turn.listening,
            tuple(took for at, took in batches if turn.began <= at and at + took <= turn.ended),
            turn.ended - turn.began,
            turn.cpu,
        )
        for turn in turns
    ]


def await_batch(query: Any, batch: int) -> None:
    """Wait for the report of `batch`; the poll is slow, so that it costs both sides the same next to nothing."""
    deadline = time.monotonic() + PATIENCE
    while query.lastProgress is None or query.lastProgress["batchId"] < batch:
        if not query.isActive:
            raise SystemExit(f"the query ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise SystemExit(f"no batch {batch} within {PATIENCE:.0f} s: the input has run out, or the query hangs")
        time.sleep(0.1)


def publish(folder: Path, files: int, rows: int) -> None:
    """Equal files: the same number of rows and keys, ten seconds of event time each."""
    folder.mkdir(parents=True)
    chance = random.Random(7)  # noqa: S311 (test data)
    keys = [chance.randrange(5000) for _ in range(rows)]
    for number in range(files):
        minute, second = divmod(number * 10, 60)
        hour, minute = divmod(minute, 60)
        stamp = f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:{minute:02d}:{second:02d}Z"
        lines = (f'{{"id":{i},"key":{key},"at":"{stamp}","amount":{i % 97}.5}}\n' for i, key in enumerate(keys))
        path = folder / f"{number:06d}.json"
        path.write_text("".join(lines))
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # the order in which Spark reads them


def report(blocks: list[Block], given: argparse.Namespace) -> str:
    """Markdown: both figures with their 95 % intervals, and what they rest on."""
    pairs = [
        (a, b) if a.listening else (b, a)
        for a, b in zip(blocks[::2], blocks[1::2], strict=True)
        if len(a.durations) >= 2 and len(b.durations) >= 2
    ]
    logs = [math.log(statistics.median(on.durations) / statistics.median(off.durations)) for on, off in pairs]
    supervision = [off.cpu.python / off.seconds for _, off in pairs]
    python = [on.cpu.python / on.seconds - off.cpu.python / off.seconds for on, off in pairs]
    jvm = [on.cpu.jvm / on.seconds - off.cpu.jvm / off.seconds for on, off in pairs]
    shares = [sum(each) for each in zip(python, jvm, strict=True)]
    on = [took for pair in pairs for took in pair[0].durations]
    off = [took for pair in pairs for took in pair[1].durations]

    def ratio(value: float) -> str:
        return f"{math.expm1(value):+.2%}"

    rows = {
        "listener overhead on batch duration": "value",
        "---": "---",
        "at most: CPU time used, of the batch's duration": f"**{statistics.mean(shares):.2%}**",
        "… its 95 % interval": " … ".join(f"{each:.2%}" for each in interval(shares, statistics.mean)),
        "… in Python, in the JVM": f"{statistics.mean(python):.2%}, {statistics.mean(jvm):.2%}",
        "beside it: lease and stop requests": f"{statistics.mean(supervision):.2%} of the time, at any length of batch",
        "seen: median of the pairs' ratios": ratio(statistics.median(logs)),
        "… its 95 % interval (bootstrap)": " … ".join(map(ratio, interval(logs))),
        "… standard deviation of a pair's log ratio": f"{statistics.stdev(logs):.3f}",
        "pairs, batches with and without": f"{len(pairs)}, {len(on)} and {len(off)}",
        "median batch with, without": f"{statistics.median(on):.3f} s, {statistics.median(off):.3f} s",
        "rows a batch, batches a block": f"{given.rows}, {given.block}",
    }
    return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def interval(
    values: list[float], of: Callable[[list[float]], float] = statistics.median, rounds: int = 5000
) -> tuple[float, float]:
    """95 % percentile bootstrap of the median, or of another statistic."""
    chance = random.Random(11)  # noqa: S311 (resampling)
    found = sorted(of(chance.choices(values, k=len(values))) for _ in range(rounds))
    return found[round(0.025 * rounds)], found[round(0.975 * rounds)]


if __name__ == "__main__":
    sys.exit(main())
