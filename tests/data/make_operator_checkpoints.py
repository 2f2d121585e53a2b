"""Writes tests/data/checkpoints/*.tar.gz of queries with other stateful operators than an aggregation.

    .venv/bin/python tests/data/make_operator_checkpoints.py

Settings, input and layout are those of make_checkpoints.py: RocksDB with changelogs, files of {id, key, at}, one a
batch. The join reads a second folder of such files.

- join: stream-stream inner join, state format 2: four stores a partition.
- join-columns: the same in state format 3: one store a partition with four column families.
- processor: transformWithState with a value that expires, a list, a map and a timer; operator metadata 2, schema 3.
- sessions: duplicates dropped, then counted by session window: two operators.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyspark
from make_checkpoints import CHANGELOG, ROOT, STATE, TARGET, builder, write_input
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

FILES = 5


def join(left: DataFrame, right: DataFrame) -> DataFrame:
    """Each id of the left with the same id of the right, at most a minute apart."""
    other = right.select(F.col("id").alias("other"), F.col("at").alias("then")).withWatermark("then", "1 minute")
    near = F.expr("id = other AND then BETWEEN at - INTERVAL 1 MINUTE AND at + INTERVAL 1 MINUTE")
    return left.withWatermark("at", "1 minute").join(other, near).select("id", "key", "at", "then")


def process(rows: DataFrame, _: DataFrame) -> DataFrame:
    """A count per key, with every kind of state variable and a timer that is always in the future."""
    schema = "key string, n long"
    return rows.groupBy("key").transformWithState(
        statefulProcessor=Everything(), outputStructType=schema, outputMode="Append", timeMode="ProcessingTime"
    )


def sessions(rows: DataFrame, _: DataFrame) -> DataFrame:
    """Two operators, one behind the other."""
    unique = rows.withWatermark("at", "1 minute").dropDuplicatesWithinWatermark(["id"])
    counts = unique.groupBy(F.session_window("at", "10 seconds"), "key").agg(F.count("*").alias("n"))
    return counts.select(F.col("session_window.start").alias("start"), "key", "n")


class Everything(StatefulProcessor):
    """Keeps the count (for an hour), the last ids and the rows of each second."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n long", ttlDurationMs=3_600_000)
        self._ids = handle.getListState("ids", "id long")
        self._seconds = handle.getMapState("seconds", "second long", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        from pyspark.sql import Row

        count = self._count.get()[0] if self._count.exists() else 0
        for row in rows:
            count += 1
            self._ids.appendValue((row.id,))
            second = (row.at.second,)
            old = self._seconds.getValue(second)[0] if self._seconds.containsKey(second) else 0
            self._seconds.updateValue(second, (old + 1,))
        self._count.update((count,))
        self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_600_000)
        yield Row(key=key[0], n=count)

    def close(self) -> None:
        pass


Query = Callable[[DataFrame, DataFrame], DataFrame]
QUERIES: dict[str, tuple[Query, dict[str, str]]] = {
    "join": (join, {"spark.sql.streaming.join.stateFormatVersion": "2"}),
    "join-columns": (join, {"spark.sql.streaming.join.stateFormatVersion": "3"}),
    "processor": (process, {f"{STATE}.encodingFormat": "avro"}),
    "sessions": (sessions, {f"{STATE}.encodingFormat": "unsaferow"}),
}


def main() -> None:
    """Make every archive, or those that are named."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for query in sys.argv[1:] or QUERIES:
        name = f"spark-{pyspark.__version__}-{query}"
        root = ROOT / name
        shutil.rmtree(root, ignore_errors=True)
        make, conf = QUERIES[query]
        spark = builder({**CHANGELOG, **conf}).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        # A query with timers of processing time always wants another batch: it is run file by file, one batch each.
        steps = [range(each, each + 1) for each in range(FILES)] if query == "processor" else [range(FILES)]
        for indexes in steps:
            for folder in ("input", "other"):
                write_input(root / folder, indexes)
            result = make(_read(spark, str(root / "input")), _read(spark, str(root / "other")))
            writer = result.writeStream.format("parquet").option("path", str(root / "output"))
            trigger = {"once": True} if len(steps) > 1 else {"availableNow": True}
            writer.option("checkpointLocation", str(root / "checkpoint")).trigger(**trigger).start().awaitTermination()
            time.sleep(1)  # the maintenance thread uploads what it still has
        spark.stop()
        with tarfile.open(TARGET / f"{name}.tar.gz", "w:gz") as archive:
            for part in ("checkpoint", "output"):
                archive.add(root / part, part)
        print(name, flush=True)


def _read(spark: SparkSession, folder: str) -> DataFrame:
    rows = spark.readStream.schema("id long, key string, at timestamp").option("maxFilesPerTrigger", "1")
    return rows.json(folder)


if __name__ == "__main__":
    main()
