"""What renaming the files of a checkpoint costs on a local disk: by the operating system, or as Spark does it there.

The same stateful query (counts by key, four partitions of RocksDB, to a parquet sink) reads the same small files again
and again in one JVM, with the settings that the runner submits, each time from an empty checkpoint: once with the file
manager that the runner chooses, once with Spark's own choice (`FileContext`, which starts a `readlink` process for each
step of a rename); which goes first alternates. Compared are the batches after the first of each run.

    python benchmarks/checkpoint_files/run.py [--pairs 6] [--batches 12]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamwarden.adapters.jvm.java import find_java
from streamwarden.lifecycle.settings import CHECKPOINT_FILES
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StreamSpec

ROWS = 2_000
WARM_UP = 1
"""Pairs that do not count: the JVM compiles."""


@dataclass(frozen=True)
class Run:
    """Median batch, and processes and threads that all programs on the machine started in a batch."""

    seconds: float
    started: float


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--pairs", type=int, default=6)
    options.add_argument("--batches", type=int, default=12)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpoint-files-") as folder:
        root = Path(folder)
        publish(root / "input", given.batches)
        spark = session(root)
        pairs = []
        for number in range(WARM_UP + given.pairs):
            ours = [run(spark, root / f"{number}-{kind}", root / "input", kind) for kind in order(number)]
            pairs.append(ours if number % 2 == 0 else ours[::-1])
        spark.stop()
    pairs = pairs[WARM_UP:]
    ratios = sorted(one.seconds / other.seconds for one, other in pairs)
    print("| renamed by | median batch | processes and threads started a batch |\n|---|---|---|")
    for name, place in (("the operating system", 0), ("Spark's own choice", 1)):
        seconds = statistics.median(pair[place].seconds for pair in pairs)
        started = statistics.median(pair[place].started for pair in pairs)
        print(f"| {name} | {seconds:.3f} s | {started:.0f} |")
    print(f"\nratio of a pair's batches: median {statistics.median(ratios):.2f}, {ratios[0]:.2f} … {ratios[-1]:.2f}")
    print(f"{len(pairs)} pairs; load of a core now: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}")
    return 0


def order(number: int) -> tuple[str, str]:
    """Who goes first."""
    return ("ours", "spark") if number % 2 == 0 else ("spark", "ours")


def publish(folder: Path, batches: int) -> None:
    """One file a batch: 500 keys."""
    folder.mkdir()
    for number in range(batches):
        lines = (json.dumps({"key": row % 500, "value": row}) for row in range(ROWS))
        path = folder / f"{number:03d}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (number + 1, number + 1))


def stream(root: Path) -> StreamSpec:
    """The settings of a stream like this one."""
    return StreamSpec(
        name="files", job="", checkpoint=str(root / "checkpoint"), sink=ParquetSink(path=str(root / "out"))
    )


def session(root: Path) -> Any:
    """A Spark with two cores."""
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.master", "local[2]").config("spark.local.dir", str(root))
    for key, value in spark_conf(stream(root)).items():
        if key != CHECKPOINT_FILES:
            builder = builder.config(key, value)
    builder = builder.config("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={root}").config(
        "spark.log.level", "ERROR"
    )
    return builder.config("spark.sql.warehouse.dir", str(root / "warehouse")).getOrCreate()


def run(spark: Any, root: Path, source: Path, kind: str) -> Run:
    """The query over all files."""
    chosen = spark_conf(stream(root))[CHECKPOINT_FILES]
    if kind == "ours":
        spark.conf.set(CHECKPOINT_FILES, chosen)
    else:
        spark.conf.unset(CHECKPOINT_FILES)
    rows = spark.readStream.schema("key BIGINT, value BIGINT").option("maxFilesPerTrigger", 1)
    rows = rows.option("maxFileAge", "100000d").json(str(source))
    before = forks()
    query = (
        rows.selectExpr("key", "timestamp_seconds(value) AS at")
        .withWatermark("at", "1 minute")
        .groupBy("key", "at")
        .count()
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(root / "out"))
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    took = [json.loads(report.json)["durationMs"]["triggerExecution"] / 1000 for report in query.recentProgress]
    return Run(statistics.median(took[1:]), (forks() - before) / len(took))


def forks() -> int:
    """Processes and threads that this machine has started since it runs."""
    with Path("/proc/stat").open() as stat:
        return next(int(line.split()[1]) for line in stat if line.startswith("processes "))


if __name__ == "__main__":
    sys.exit(main())
