"""Flight departures with a broken sink: the fifth batch loses its first row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec

BROKEN_BATCH = 4


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.orderBy("window_start", "origin", "carrier")
        kept = rows.offset(1) if batch_id == BROKEN_BATCH else rows
        kept.write.mode("overwrite").parquet(f"{spec.sink.path}/batch={batch_id}")

    return flight_departures.build(spark, spec).writeStream.foreachBatch(write)
