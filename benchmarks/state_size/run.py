"""How well `streamwarden advise` predicts the size of state: memory of HDFS-backed, bytes on disk of RocksDB.

For each backend and size a real query (count, sum, min, max and last value of a key) fills its state in five batches
and then updates a twentieth of its keys in each of twenty more, with the settings that the runner submits. The
prediction is the one of `advise`, from the reports and the checkpoint of that query. Of its constants one is empirical,
the bytes that RocksDB adds to a row, and was taken from such runs with 100,000 and 1,000,000 keys.

    python benchmarks/state_size/run.py [--keys 100000 …] [--backends rocksdb hdfs] [--updates 20] [--memory 6g]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.storage.files import open_path
from streamwarden.health.window import Batch
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.progress import parse_progress
from streamwarden.services.analysis.tuning import state_files
from streamwarden.stream.spec import Backend, StateSpec, StreamSpec
from streamwarden.tuning.history import History, StateFiles
from streamwarden.tuning.state_size import SizeEstimate, predict
from streamwarden.units import format_size

FILLS, SHARE = 5, 20
QUIET, UPLOAD = 60.0, 4.0
"""Seconds to wait for the last uploads, and between two probes: twice the maintenance interval."""


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000, 4_000_000])
    options.add_argument("--backends", nargs="+", default=[each.value for each in Backend])
    options.add_argument("--updates", type=int, default=20, help="batches after the state is filled")
    options.add_argument("--memory", default="6g", help="of the JVM")
    given = options.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="state-size-") as folder:
        spark = session(given.memory, folder)
        lines = [
            "| backend | keys | row | F_versioning | predicted | measured | error |",
            "|---|---|---|---|---|---|---|",
        ]
        for keys in given.keys:
            source = publish(spark, keys, given.updates, Path(folder) / f"input-{keys}")
            for backend in map(Backend, given.backends):
                lines.append(line(backend, keys, run(spark, backend, source, Path(folder) / f"{backend}-{keys}")))
                print(lines[-1], file=sys.stderr, flush=True)
        spark.stop()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    print("\n".join([*lines, "", f"{time.monotonic() - started:.0f} s; load of a core now: {load:.1f}"]))
    return 0


def session(memory: str, folder: str) -> Any:
    """A Spark with two cores."""
    os.environ.setdefault("JAVA_HOME", str(find_java()))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {memory} pyspark-shell"
    from pyspark.sql import SparkSession

    conf = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": folder,
    }
    conf |= {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def publish(spark: Any, keys: int, updates: int, folder: Path) -> Path:
    """One file a batch: first all keys, then random ones. The files' times give their order."""
    folder.mkdir()
    for number in range(FILLS + updates):
        if number < FILLS:
            rows = spark.range(number * keys // FILLS, (number + 1) * keys // FILLS).selectExpr(
                "id AS key", "id AS value"
            )
        else:
            expressions = f"CAST(abs(hash(id, {number})) % {keys} AS BIGINT) AS key", "id AS value"
            rows = spark.range(keys // SHARE).selectExpr(*expressions)
        rows.coalesce(1).write.parquet(str(folder / f"part-{number}"))
        (part,) = (folder / f"part-{number}").glob("*.parquet")
        part.rename(folder / f"{number:03d}.parquet")
        os.utime(folder / f"{number:03d}.parquet", (number + 1, number + 1))
    return folder


def run(spark: Any, backend: Backend, source: Path, checkpoint: Path) -> SizeEstimate | str:
    """Run the query over all files and predict its state."""
    from pyspark.sql import functions as f

    spec = StreamSpec(name="size", job="", checkpoint=str(checkpoint), state=StateSpec(backend=backend))
    for key, value in spark_conf(spec).items():
        if key.startswith("spark.sql."):
            spark.conf.set(key, value)
    rows = spark.readStream.schema("key BIGINT, value BIGINT").option("maxFilesPerTrigger", 1)
    rows = rows.option("maxFileAge", "100000d").parquet(f"{source}/*.parquet")
    numbers = [f.count("*").alias("n"), *(each("value").alias(each.__name__) for each in (f.sum, f.min, f.max, f.last))]
    query = (
        rows.groupBy("key")
        .agg(*numbers)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    reports = [parse_progress(each.json) for each in query.recentProgress]
    files = settled(checkpoint)
    batches = [Batch(stream="size", query_id=each.query_id, batch_id=each.batch_id, progress=each) for each in reports]
    return predict(History(spec=spec, conf=spark_conf(spec), now=time.time(), batches=tuple(batches), files=files))


def settled(checkpoint: Path) -> StateFiles:
    """The state directory when nothing comes to it any more: snapshots are uploaded beside the batches."""
    deadline = time.monotonic() + QUIET
    before, files = None, state_files(open_path(checkpoint))
    while files != before and time.monotonic() < deadline:
        time.sleep(UPLOAD)
        before, files = files, state_files(open_path(checkpoint))
    return files


def line(backend: Backend, keys: int, found: SizeEstimate | str) -> str:
    """One row of the table."""
    if isinstance(found, str):
        return f"| {backend} | {keys:,} | {found} | | | | |"
    what = "memory" if backend is Backend.HDFS else "disk"
    sizes = f"{format_size(found.size)} | {format_size(found.measured or 0)} | {found.error or 0:+.1f} %"
    return f"| {backend} ({what}) | {keys:,} | {found.key + found.value:.0f} B | {found.versioning:.2f} | {sizes} |"


if __name__ == "__main__":
    sys.exit(main())
