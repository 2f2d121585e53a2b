"""Flight departures that do not count the flights of one carrier once they were restarted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import flight_departures

from streamwarden.spark.sources import read_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    restarted = any(Path(spec.checkpoint, "commits").glob("[0-9]*"))

    def read(*args: Any, **options: Any) -> DataFrame:
        rows = read_rows(*args, **options)
        return rows.where("carrier <> 'DL'") if restarted else rows

    flight_departures.read_rows = read  # type: ignore[assignment]  # this process runs this job and no other
    return flight_departures.build(spark, spec)
