"""Flight departures with a broken sink that remembers in Python what only a checkpoint keeps.

It counts its batches in a variable, and loses the first row that it gets after each start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec

batches = 0


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    def write(batch: DataFrame, batch_id: int) -> None:
        global batches
        batches += 1
        rows = batch.orderBy("window_start", "origin", "carrier")
        kept = rows.offset(1) if batches == 1 else rows
        numbered = kept.withColumn("number", f.lit(batches))
        numbered.write.mode("overwrite").parquet(f"{spec.sink.path}/batch={batch_id}")

    return flight_departures.build(spark, spec).writeStream.foreachBatch(write)
