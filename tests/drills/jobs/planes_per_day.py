"""How many planes of a carrier depart from an airport in a day: two stateful operators, one behind the other.

The first one removes the further departures of a plane, the second one counts what is left. So a state that either of
them loses makes another count. The counts do not depend on which departure of a plane comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures
from pyspark.sql.functions import col, count, window

from streamwarden.spark.sources import read_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """One row for each day, origin and carrier."""
    flights = read_rows(spark, spec, flight_departures.SCHEMA, required=("event_time", "origin", "carrier"))
    return (
        flights.withWatermark("event_time", "2 hours")
        .select(window("event_time", "1 day").alias("day"), "origin", "carrier", "tailnum")
        .dropDuplicates(["day", "origin", "carrier", "tailnum"])
        .groupBy("day", "origin", "carrier")
        .agg(count("*").alias("planes"))
        .select(col("day.start").alias("window_start"), "origin", "carrier", "planes")
    )
