"""Each event once, although a producer sends it again: the job for real-time mode, and as well for micro-batches.

    events  {"event_time": "2023-11-14T09:00:00.250Z", "event_id": "a1", "user_id": 7, "action": "login"}

A producer that gets no answer sends an event again, with the same id and the same time. It comes out once, at once: in
real-time mode within milliseconds, else in the batch that it first came in.

Why `dropDuplicates` over the id *and* the time: real-time mode has no `dropDuplicatesWithinWatermark`, and with the id
alone nothing could ever be forgotten (see `flight_dedup_unbounded`). With the watermark's column among its columns, an
event is forgotten when the watermark passes its time, from when on a repeat of it is late and dropped as such.

State: one row for each event that was seen and is not forgotten yet.
    key    (event_id, event_time)
    value  (nothing)
What bounds it: the watermark is the newest event, less ten minutes. Remembered are the events of the last ten minutes
and those of the running batch: at 1,000 a second and some 100 bytes a row, 60 MB.

What that means: the id of a repeat with another time is another event. An event more than ten minutes late is dropped.

Guarantee, end to end: exactly once into the parquet sink, for readers that honour its manifest (`_spark_metadata`).
Into a topic it is at least once, and exactly once for readers that drop the event ids (`streamwarden-event-id`) that
they have seen: a batch that runs again writes the same rows, and so the same ids.

Lines that do not fit, lack a column, or have a time more than an hour ahead of their own file or record are counted,
and kept aside in the stream's quarantine, by `read_rows`.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession

from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec

SCHEMA = "event_time TIMESTAMP, event_id STRING, user_id INT, action STRING"


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """Each event as it first came. Key: event_id, event_time."""
    events = read_rows(
        spark,
        spec,
        SCHEMA,
        required=("event_time", "event_id", "user_id", "action"),
        not_after={"event_time": timedelta(hours=1)},
    )
    return events.withWatermark("event_time", "10 minutes").dropDuplicates(["event_id", "event_time"])
