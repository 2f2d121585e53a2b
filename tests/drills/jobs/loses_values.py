"""Windowed values that leave out each hundredth value, once they were restarted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import windowed_values

from streamwarden.spark.sources import read_rate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    restarted = any(Path(spec.checkpoint, "commits").glob("[0-9]*"))

    def read(*args: Any) -> DataFrame:
        rows = read_rate(*args)
        return rows.where("value % 100 > 0") if restarted else rows

    windowed_values.read_rate = read  # type: ignore[assignment]  # this process runs this job and no other
    return windowed_values.build(spark, spec)
