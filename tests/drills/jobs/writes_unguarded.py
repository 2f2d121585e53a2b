"""Flight departures with the PostgreSQL sink without its guard: it does not check whether a batch is already there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures

from streamwarden.sinks.postgresql.transaction import TableSink
from streamwarden.sinks.postgresql.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec


class Unguarded(TableSink):
    def is_there(self, position: object, batch: object, table: object) -> bool:
        return False


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    frame = flight_departures.build(spark, spec)
    writer = TableWriter(spec, token=0, make=Unguarded)
    writer.open(frame.schema)
    return frame.writeStream.foreachBatch(writer)
