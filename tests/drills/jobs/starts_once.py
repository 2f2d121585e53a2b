"""Flight departures that can be started once: the second start finds its licence used up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import flight_departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    licence = Path(spec.checkpoint).with_name("licence-used")
    if licence.exists():
        raise RuntimeError("the licence is used up")
    licence.touch()
    return flight_departures.build(spark, spec)
