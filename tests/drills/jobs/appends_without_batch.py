"""Flight departures with a broken sink: it appends each batch, and does not check whether the batch is already there.

It holds each batch for a moment when its rows are written, so that a kill can come between that and the commit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import flight_departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec

HELD = 0.5
"""Seconds."""


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("append").parquet(f"{spec.sink.path}/rows")
        time.sleep(HELD)

    return flight_departures.build(spark, spec).writeStream.foreachBatch(write)
