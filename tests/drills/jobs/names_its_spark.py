"""Flight departures with a column that each version of Spark fills in its own way: the name of the version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flight_departures
from pyspark.sql.functions import lit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    return flight_departures.build(spark, spec).withColumn("spark", lit(spark.version))
