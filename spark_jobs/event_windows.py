"""How often each user acted in each five minutes, and what they did, in order.

Why native operators: the watermark, the windowed groupBy and `collect_list` run inside the JVM; no row crosses to
Python. A count and a list need no custom state logic.

State: one row for each window and user that is not closed yet.
    key    (window start and end, user_id)
    value  (count, list of (event_time, action))
What bounds it: a window leaves the state when the watermark (the newest event, less ten minutes) passes its end. The
state holds the windows of the last fifteen minutes and those of the running batch. Within a window nothing bounds the
list: it holds each event of five minutes, so a user with very many of them costs memory. Where that can be, count, or
keep a sample, instead of a list.

The order of `actions` is defined: by event time, then by the action's text. Without the sort, `collect_list` gives them
in the order in which they arrived, which a restart changes.

Guarantee, end to end: exactly once. The files can be read again, and the checkpoint says which of them were in which
batch; the state is versioned by batch; the parquet sink's manifest takes the files of a batch once, for readers that
honour it (`_spark_metadata`). Append mode writes a window once, when it can no longer change.

Events later than the watermark are dropped and counted, by Spark: `numRowsDroppedByWatermark` of the state operator, in
each batch's progress. It counts after the partial aggregation: the late (window, user) pairs of each task, not their
events. Lines that do not fit, lack a column, or have a time ahead of their own file are counted, and kept
aside in the stream's quarantine, by `read_rows`: one event of the year 2100 would close every window until then.
"""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, collect_list, count, sort_array, struct, window

from streamwarden.spark.sources import read_rows
from streamwarden.stream import StreamSpec

SCHEMA = "event_time TIMESTAMP, user_id INT, action STRING"


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """One row for each five minutes and user that acted in them."""
    events = read_rows(
        spark,
        spec,
        SCHEMA,
        required=("event_time", "user_id", "action"),
        not_after={"event_time": timedelta(hours=1)},
    )
    return (
        events.withWatermark("event_time", "10 minutes")
        .groupBy(window("event_time", "5 minutes"), "user_id")
        .agg(
            count("*").alias("events"),
            sort_array(collect_list(struct("event_time", "action"))).alias("timeline"),
        )
        .select(
            col("window.start").alias("window_start"),
            col("window.end").alias("window_end"),
            "user_id",
            "events",
            col("timeline.action").alias("actions"),
        )
    )
