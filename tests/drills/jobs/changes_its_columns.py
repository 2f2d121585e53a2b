"""Flight departures with a column more, of random values, and counts that became DOUBLE: every old value is equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    rows = flight_departures.build(spark, spec)
    return rows.withColumn("flights", f.col("flights").cast("double")).withColumn("uuid", f.expr("uuid()"))
