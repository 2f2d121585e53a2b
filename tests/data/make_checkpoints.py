"""Writes tests/data/checkpoints/*.tar.gz: small checkpoints made by real Sparks, one interpreter a Spark version.

    python3.11 -m venv /tmp/spark35 && /tmp/spark35/bin/pip install pyspark==3.5.6
    /tmp/spark35/bin/python tests/data/make_checkpoints.py
    python3.11 -m venv /tmp/spark40 && /tmp/spark40/bin/pip install pyspark==4.0.1
    /tmp/spark40/bin/python tests/data/make_checkpoints.py
    .venv/bin/python tests/data/make_checkpoints.py            # the project's own Spark

Each archive holds checkpoint/ and output/ of a query that counts rows per key and minute of event time into the parquet
sink. Its input: files of {id, key, at}, one a batch, in order.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Iterable
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

KINDS: dict[str, dict[str, tuple[int, dict[str, str]]]] = {
    "3.5.6": {"hdfs": (5, HDFS), "rocksdb": (3, ROCKSDB)},
    "4.0.1": {"hdfs": (3, HDFS), "changelog": (5, CHANGELOG)},
    "4.3.0": {
        "hdfs": (8, HDFS),
        "rocksdb": (3, ROCKSDB),
        "changelog": (13, CHANGELOG),
        "format2": (4, {**CHANGELOG, f"{STATE}.checkpointFormatVersion": "2"}),
        "offsets2": (3, {**CHANGELOG, "spark.sql.streaming.offsetLog.formatVersion": "2"}),
    },
}


def main() -> None:
    """Make every archive of this interpreter's Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    TARGET.mkdir(exist_ok=True)
    for kind, (files, conf) in KINDS[pyspark.__version__].items():
        name = f"spark-{pyspark.__version__}-{kind}"
        shutil.rmtree(ROOT / name, ignore_errors=True)
        _make(ROOT / name, files, conf)
        with tarfile.open(TARGET / f"{name}.tar.gz", "w:gz") as archive:
            for part in ("checkpoint", "output"):
                archive.add(ROOT / name / part, part)
        print(name, flush=True)


def builder(conf: dict[str, str]) -> Any:
    """Of a session for small checkpoints that soon have snapshots."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        f"{STATE}.maintenanceInterval": "100ms",
        f"{STATE}.minDeltasForSnapshot": "3",
        **conf,
    }
    made = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        made = made.config(key, value)
    return made


def write_input(source: Path, indexes: Iterable[int]) -> None:
    """A file of 20 rows on three keys for each index: that minute of event time."""
    source.mkdir(parents=True, exist_ok=True)
    for index in indexes:
        rows = [
            {"id": index * 20 + n, "key": f"k{n % 3}", "at": f"2013-01-01T00:{index:02d}:{n:02d}Z"} for n in range(20)
        ]
        path = source / f"in {index:03d}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, (1_700_000_000 + index,) * 2)


def _make(root: Path, files: int, conf: dict[str, str]) -> None:
    spark = builder(conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    source = root / "input"
    write_input(source, range(files))
    writer = _query(spark, str(source)).format("parquet").option("path", str(root / "output"))
    query = writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    time.sleep(1)  # the maintenance thread uploads what it still has
    spark.stop()


def _query(spark: SparkSession, source: str) -> Any:
    rows = spark.readStream.schema("id long, key string, at timestamp").option("maxFilesPerTrigger", "1").json(source)
    windows = (
        rows.withWatermark("at", "1 minute")
        .groupBy(F.window("at", "1 minute"), "key")
        .agg(F.count("*").alias("n"), F.sum("id").alias("total"))
    )
    return windows.select(F.col("window.start").alias("start"), "key", "n", "total").writeStream


if __name__ == "__main__":
    main()
