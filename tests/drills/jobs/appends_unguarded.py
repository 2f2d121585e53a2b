"""Flight departures with a broken sink: each batch is appended to a table of Delta or Iceberg without its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    rows = flight_departures.build(spark, spec)
    if spec.sink.kind == "iceberg":
        from streamwarden.sinks.iceberg.spark_table import ensure_table

        ensure_table(spark, spec, rows.schema)

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format(spec.sink.kind).mode("append").save(str(spec.sink.path))

    return rows.writeStream.foreachBatch(write)
