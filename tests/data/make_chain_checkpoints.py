"""Writes tests/data/checkpoints/*-chain.tar.gz: one query with five stateful operators, one behind the other.

    python3.11 -m venv /tmp/spark35 && /tmp/spark35/bin/pip install pyspark==3.5.6
    /tmp/spark35/bin/python tests/data/make_chain_checkpoints.py
    .venv/bin/python tests/data/make_chain_checkpoints.py      # the project's own Spark

Settings, input and layout are those of make_checkpoints.py, with the HDFS-backed state store. Spark numbers the
operators from the sink: 0 limit (one partition), 1 aggregation, 2 join, 3 and 4 the two kinds of deduplication.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from typing import Any

import pyspark
from make_checkpoints import HDFS, ROOT, TARGET, builder, write_input
from pyspark.sql import functions as F  # noqa: N812

FILES = 3


def main() -> None:
    """Make the archive of this interpreter's Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    name = f"spark-{pyspark.__version__}-chain"
    root = ROOT / name
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("input", "other"):
        write_input(root / folder, range(FILES))
    spark = builder(HDFS).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    result = _chain(_read(spark, str(root / "input")), _read(spark, str(root / "other")))
    writer = result.writeStream.format("parquet").option("path", str(root / "output"))
    query = writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()
    with tarfile.open(TARGET / f"{name}.tar.gz", "w:gz") as archive:
        for part in ("checkpoint", "output"):
            archive.add(root / part, part)
    print(name, flush=True)


def _chain(left: Any, right: Any) -> Any:
    unique = left.dropDuplicates(["id", "at"])
    others = right.dropDuplicatesWithinWatermark(["id"])
    others = others.select(F.col("id").alias("other"), F.col("at").alias("then"))
    near = F.expr("id = other AND then BETWEEN at - INTERVAL 1 MINUTE AND at + INTERVAL 1 MINUTE")
    counts = unique.join(others, near).groupBy(F.window("at", "1 minute"), "key").agg(F.count("*").alias("n"))
    return counts.select(F.col("window.start").alias("start"), "key", "n").limit(1000)


def _read(spark: Any, folder: str) -> Any:
    rows = spark.readStream.schema("id long, key string, at timestamp").option("maxFilesPerTrigger", "1")
    return rows.json(folder).withWatermark("at", "1 minute")


if __name__ == "__main__":
    main()
