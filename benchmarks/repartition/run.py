"""How long a stream with a million keys stands still while it gets 8 partitions instead of 4.

A query counts rows per key and day. Its state is filled with one row for each key, then repartitioned as the command
`streamwarden repartition` does it: savepoint, rewriting, verification, exchange, each process a real one. Then the
query goes on: a tenth of the keys get a second row, the day ends, and the output has to have each key once, with the
right count.

    python benchmarks/repartition/run.py [--keys 1000000] [--before 4] [--after 8]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.store import Store
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state import repartitioning
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec

FILLS = 4
STEPS = {"create": "savepoint", "_rewrite": "rewriting", "_verify": "verification"}


def main() -> int:
    """Parse the options, measure, judge, print."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--keys", type=int, default=1_000_000)
    options.add_argument("--before", type=int, default=4)
    options.add_argument("--after", type=int, default=8)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="repartition-") as folder:
        spec = stream(Path(folder), given.before)
        spark = session(spec, folder)
        for number in range(FILLS):
            share = given.keys // FILLS
            publish(spark, spec, spark.range(number * share, (number + 1) * share), "2026-01-01 00:00:00")
            run(spark, spec)
        took = {name: timed(name) for name in STEPS}
        began = time.monotonic()
        with Store(f"sqlite:///{folder}/store.db") as store:
            store.migrate()
            repartitioning.repartition(store, spec, given.after, Author(by="benchmark", reason=""))
        total = time.monotonic() - began
        publish(spark, spec, spark.range(given.keys // 10), "2026-01-01 12:00:00")
        publish(spark, spec, spark.range(1), "2026-01-03 00:00:00")
        run(spark, spec)
        judge(spark, spec, given.keys)
        spark.stop()
    parts = ", ".join(f"{words} {took[name][0]:.1f} s" for name, words in STEPS.items())
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(f"{given.keys:,} keys, {given.before} to {given.after} partitions: {total:.1f} s in all: {parts}")
    print(f"every key came out once, with its count; load of a core now: {load:.1f}")
    return 0


def stream(root: Path, partitions: int) -> StreamSpec:
    """The declaration of the query; its job is never run by a driver."""
    return StreamSpec(
        name="keys",
        job=str(root / "keys.py"),
        checkpoint=str(root / "checkpoint"),
        source=FilesSource(path=str(root / "input"), format="parquet", max_files_per_trigger=1),
        sink=ParquetSink(path=str(root / "output")),
        state=StateSpec(backend=Backend.ROCKSDB, shuffle_partitions=partitions),
        data=str(root / "data"),
    )


def session(spec: StreamSpec, scratch: str) -> SparkSession:
    """With the settings that the runner submits."""
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    own = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    places = {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
    builder = SparkSession.builder.master("local[2]").appName("repartition")
    for key, value in {**spark_conf(spec), **own, **places, "spark.driver.memory": "2g"}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def publish(spark: SparkSession, spec: StreamSpec, keys: Any, at: str) -> None:
    """One input file with a row for each key."""
    rows = keys.select(
        f.concat(f.lit("key-"), f.lpad("id", 9, "0")).alias("key"), f.lit(at).cast("timestamp").alias("at")
    )
    rows.coalesce(1).write.mode("append").parquet(str(spec.source.path))


def run(spark: SparkSession, spec: StreamSpec) -> None:
    """Read what is there, to its end."""
    rows = spark.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", "1")
    given = rows.parquet(str(spec.source.path)).withWatermark("at", "1 hour")
    counts = given.groupBy(f.window("at", "1 day"), "key").agg(f.count("*").alias("n"))
    writer = counts.select("key", "n").writeStream.format("parquet").option("path", str(spec.sink.path))
    query = writer.option("checkpointLocation", spec.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def timed(name: str) -> list[float]:
    """From now on, the seconds of each call of a step of the repartition."""
    step: Callable[..., Any] = getattr(repartitioning, name)
    seconds: list[float] = []

    def measured(*arguments: Any, **options: Any) -> Any:
        began = time.monotonic()
        try:
            return step(*arguments, **options)
        finally:
            seconds.append(time.monotonic() - began)

    setattr(repartitioning, name, measured)
    return seconds


def judge(spark: SparkSession, spec: StreamSpec, keys: int) -> None:
    """Each key once, the first tenth with two rows."""
    found = spark.read.parquet(str(spec.sink.path))
    number = f.substring("key", 5, 9).cast("long")
    right = f.col("n") == f.when(number < keys // 10, 2).otherwise(1)
    seen = found.agg(
        f.count("*"), f.countDistinct("key"), f.min(number), f.max(number), f.count(f.when(right, 1))
    ).first()
    assert seen is not None
    assert tuple(seen) == (keys, keys, 0, keys - 1, keys), seen


if __name__ == "__main__":
    raise SystemExit(main())
