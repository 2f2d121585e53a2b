"""How not to do it: each flight once, by a state that remembers every flight there ever was. See `flight_dedup`.

`dropDuplicates` without the watermark's column among its columns never forgets a row. The job is right on the first
day, and slower and larger on each day after it, until the driver runs out of memory. It is here to be recognized, and
as the stream on which the check `state_growth` is tested.

State: one row for each flight that was ever seen.
    key    (flight_id)
    value  (nothing)
What bounds it: nothing. That is the defect. With one flight in two seconds and some 100 bytes a row it grows by 4 MB a
day; a stream of 10,000 rows a second reaches a gigabyte within 20 minutes.

The remedy is one line: `withWatermark(…)` and `dropDuplicatesWithinWatermark`.

Guarantee, end to end: exactly once, as long as it runs, by the same means as `flight_dedup`.
"""

from __future__ import annotations

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
    """Each flight as it was first reported, and never again."""
    return read_rows(spark, spec, SCHEMA, required=("flight_id", "event_time")).dropDuplicates(["flight_id"])
