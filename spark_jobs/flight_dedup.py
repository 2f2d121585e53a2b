"""Each flight once, although its reports are repeated: what a producer that delivers at least once makes necessary.

Why a native operator: `dropDuplicatesWithinWatermark` runs inside the JVM and keeps the identity of a row, not the row.

State: one row for each flight that was seen and is not forgotten yet.
    key    (flight_id)
    value  (instant at which it may be forgotten)
What bounds it: a flight is forgotten when the watermark (the newest scheduled departure, less six hours) has moved six
hours beyond its own scheduled departure. The state holds the flights of the last twelve hours and those of the
running batch, however long the stream runs. `flight_dedup_unbounded` is the same without this bound.

What that means: repeats whose scheduled times lie less than six hours apart are found, whenever they come. A repeat
with a later time than that can be taken for a new flight; one that lies behind the watermark is dropped as late.
Repeats are taken to be equal in all columns. Where they differ within one batch, Spark does not define which of them is
kept: the oracle reports it.

Guarantee, end to end: exactly once. The files can be read again, and the checkpoint says which of them were in which
batch; the state is versioned by batch; the parquet sink's manifest takes the files of a batch once, for readers that
honour it (`_spark_metadata`). A flight is written in the batch that it first came in.

Lines that do not fit, lack the id or the time, or have a time more than a day ahead of their own file are counted,
and kept aside in the stream's quarantine, by `read_rows`: one flight of the year 2100 would make all others late.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec

SCHEMA = """
    flight_id STRING,
    event_time TIMESTAMP,
    origin STRING,
    carrier STRING,
    dest STRING,
    tailnum STRING,
    departed_at TIMESTAMP,
    dep_delay INT
"""


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """Each flight as it was first reported."""
    flights = read_rows(
        spark,
        spec,
        SCHEMA,
        required=("flight_id", "event_time"),
        not_after={"event_time": timedelta(days=1)},  # a flight is scheduled hours ahead
    )
    return flights.withWatermark("event_time", "6 hours").dropDuplicatesWithinWatermark(["flight_id"])
