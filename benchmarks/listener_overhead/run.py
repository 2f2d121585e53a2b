"""What the progress listener costs a batch: paired blocks of batches of one running query, with and without it.

One query (JSON files -> watermark -> windowed aggregation -> parquet, RocksDB with changelogs) runs batches of equal
files back to back. Every few batches the listener is added or removed; its reports go through the driver's own store
link to a SQLite store, as in production. Durations come from Spark's own `recentProgress`, which needs no listener.
Each block with the listener is paired with the block without it that stands next to it (on-off, off-on in turn, so that
a trend cancels out). The figure is the median of the pairs' ratios, with a bootstrap confidence interval.

    python benchmarks/listener_overhead/run.py [--pairs 40] [--block 5] [--rows 20000]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamwarden.adapters import processes
from streamwarden.adapters.java import find_java
from streamwarden.adapters.spark_home import spark_home
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import parse_timestamp
from streamwarden.spark.sinks import start_query
from streamwarden.spark.store_link import StoreLink
from streamwarden.stream import SinkSpec, SourceSpec, StateSpec, StreamSpec, TriggerSpec

WARM_UP = 25
"""Batches before the first block: the JVM compiles its hot code in them."""

PATIENCE = 300.0
"""Seconds for the batches of one block."""


@dataclass(frozen=True)
class Block:
    listening: bool
    durations: tuple[float, ...]


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
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(spark_home()),
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": folder,
        }
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
        source=SourceSpec(path=str(folder / "input"), max_files_per_trigger=1),
        sink=SinkSpec(path=str(folder / "output")),
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
        await_batch(query, WARM_UP)
        schedule = alternate(spark, query, link, pairs, block)
        query.stop()
        link.close()
        return blocks_of(query.recentProgress, schedule)
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
    link = StoreLink(url, stream=spec.name, folder=driver, lease=lease, process=own)
    link.bind()
    link.start()
    return link


def alternate(spark: Any, query: Any, link: StoreLink, pairs: int, block: int) -> list[tuple[float, float, bool]]:
    """Add and remove the listener; returns (from, to, listening) of each block, Unix seconds.

    The batch in which it is switched belongs to no block.
    """
    from streamwarden.spark.listener import ProgressListener

    listener = ProgressListener(link.emit)
    schedule = []
    order = [state for pair in range(pairs) for state in ((True, False) if pair % 2 == 0 else (False, True))]
    listening = False
    for state in order:
        if state != listening:
            (spark.streams.addListener if state else spark.streams.removeListener)(listener)
            listening = state
        await_batch(query, query.lastProgress["batchId"] + 2)
        began = time.time()
        await_batch(query, query.lastProgress["batchId"] + block + 1)
        schedule.append((began, time.time(), state))
    return schedule


def blocks_of(reports: Any, schedule: list[tuple[float, float, bool]]) -> list[Block]:
    """The batches that ran wholly within each block."""
    batches = [
        (parse_timestamp(each["timestamp"]), each["durationMs"]["triggerExecution"] / 1000)
        for each in map(json.loads, (report.json for report in reports))
        if each["numInputRows"] > 0
    ]
    return [
        Block(state, tuple(took for at, took in batches if began <= at and at + took <= ended))
        for began, ended, state in schedule
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
    """Markdown: the median ratio with its 95 % interval, and what it rests on."""
    pairs = [
        (a, b) if a.listening else (b, a)
        for a, b in zip(blocks[::2], blocks[1::2], strict=True)
        if len(a.durations) >= 2 and len(b.durations) >= 2
    ]
    logs = [math.log(statistics.median(on.durations) / statistics.median(off.durations)) for on, off in pairs]
    low, high = interval(logs)
    on = [took for pair in pairs for took in pair[0].durations]
    off = [took for pair in pairs for took in pair[1].durations]

    def percent(value: float) -> str:
        return f"{100 * (math.exp(value) - 1):+.2f} %"

    return "\n".join(
        [
            "| listener overhead on batch duration | value |",
            "|---|---|",
            f"| median of the pairs' ratios | **{percent(statistics.median(logs))}** |",
            f"| 95 % confidence interval (bootstrap) | {percent(low)} … {percent(high)} |",
            f"| pairs, batches with and without | {len(pairs)}, {len(on)} and {len(off)} |",
            f"| median batch with, without | {statistics.median(on):.3f} s, {statistics.median(off):.3f} s |",
            f"| standard deviation of a pair's log ratio | {statistics.stdev(logs):.3f} |",
            f"| rows a batch, batches a block | {given.rows}, {given.block} |",
        ]
    )


def interval(values: list[float], rounds: int = 5000) -> tuple[float, float]:
    """95 % percentile bootstrap of the median."""
    chance = random.Random(11)  # noqa: S311 (resampling)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds))
    return medians[round(0.025 * rounds)], medians[round(0.975 * rounds)]


if __name__ == "__main__":
    sys.exit(main())
