"""Writes tests/data/checkpoints/*.tar.gz: small checkpoints made by real Sparks, one interpreter a Spark version.

    python3.11 -m venv /tmp/spark35 && /tmp/spark35/bin/pip install pyspark==3.5.6
    /tmp/spark35/bin/python tests/data/make_checkpoints.py
    python3.11 -m venv /tmp/spark40 && /tmp/spark40/bin/pip install pyspark==4.0.1
    /tmp/spark40/bin/python tests/data/make_checkpoints.py
    .venv/bin/python tests/data/make_checkpoints.py            # the project's own Spark

Each archive holds checkpoint/ and, for a parquet sink, output/. The query counts rows per key and minute of event time
(input: files of {id, key, at}, one a batch, in order); `join` and `processor` are what their names say.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

ROOT = Path("/tmp/checkpoints")  # the paths inside the archives begin with it
TARGET = Path(__file__).parent / "checkpoints"
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
CHANGELOG = {**ROCKSDB, f"{STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
HDFS = {f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"}

KINDS: dict[str, dict[str, tuple[int, dict[str, str], str]]] = {
    "3.5.6": {"hdfs": (5, HDFS, "minutes"), "rocksdb": (3, ROCKSDB, "minutes")},
    "4.0.1": {"hdfs": (3, HDFS, "minutes"), "changelog": (5, CHANGELOG, "minutes")},
    "4.3.0": {
        "hdfs": (8, HDFS, "minutes"),
        "rocksdb": (3, ROCKSDB, "minutes"),
        "changelog": (13, CHANGELOG, "minutes"),
        "format2": (4, {**CHANGELOG, f"{STATE}.checkpointFormatVersion": "2"}, "minutes"),
        "offsets2": (3, {**CHANGELOG, "spark.sql.streaming.offsetLog.formatVersion": "2"}, "minutes"),
        "join": (4, CHANGELOG, "join"),
        "processor": (3, CHANGELOG, "processor"),
    },
}


def main() -> None:
    """Make every archive of this interpreter's Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    TARGET.mkdir(exist_ok=True)
    for kind, (files, conf, query) in KINDS[pyspark.__version__].items():
        name = f"spark-{pyspark.__version__}-{kind}"
        shutil.rmtree(ROOT / name, ignore_errors=True)
        _make(ROOT / name, files, conf, query)
        with tarfile.open(TARGET / f"{name}.tar.gz", "w:gz") as archive:
            for part in ("checkpoint", "output"):
                if (ROOT / name / part).exists():
                    archive.add(ROOT / name / part, part)
        print(name, flush=True)


def _make(root: Path, files: int, conf: dict[str, str], query: str) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        f"{STATE}.maintenanceInterval": "100ms",
        f"{STATE}.minDeltasForSnapshot": "3",
        **conf,
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = root / "input"
    source.mkdir(parents=True)
    for index in range(files):
        rows = [
            {"id": index * 20 + n, "key": f"k{n % 3}", "at": f"2013-01-01T00:{index:02d}:{n:02d}Z"} for n in range(20)
        ]
        path = source / f"in {index:03d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + index,) * 2)
    running = _query(spark, str(source), query).option("checkpointLocation", str(root / "checkpoint"))
    if query == "minutes":
        running = running.format("parquet").option("path", str(root / "output"))
    else:
        running = running.format("noop")
    started = running.trigger(availableNow=True).start()
    started.awaitTermination()
    time.sleep(1)  # the maintenance thread uploads what it still has
    spark.stop()


def _query(spark: SparkSession, source: str, query: str) -> Any:
    rows = spark.readStream.schema("id long, key string, at timestamp").option("maxFilesPerTrigger", "1").json(source)
    rows = rows.withWatermark("at", "1 minute")
    if query == "join":
        other = rows.select(F.col("id").alias("other"), F.col("at").alias("later")).withWatermark("later", "1 minute")
        return rows.join(other, F.expr("id = other AND later >= at AND later <= at + INTERVAL 1 MINUTE")).writeStream
    if query == "processor":
        return _processor(rows).writeStream.outputMode("update")
    windows = rows.groupBy(F.window("at", "1 minute"), "key").agg(F.count("*").alias("n"), F.sum("id").alias("total"))
    return windows.select(F.col("window.start").alias("start"), "key", "n", "total").writeStream


def _processor(rows: Any) -> Any:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.seen = handle.getValueState("seen", "n long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            n = (self.seen.get()[0] if self.seen.exists() else 0) + sum(1 for _ in rows)
            self.seen.update((n,))
            yield Row(key=key[0], n=n)

    return rows.groupBy("key").transformWithState(
        statefulProcessor=Counter(), outputStructType="key string, n long", outputMode="update", timeMode="none"
    )


if __name__ == "__main__":
    main()
