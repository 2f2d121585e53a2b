"""How many flights each carrier has had, forgotten ten minutes after the last ones by the clock: Spark's TTL of state.

A row for each carrier and batch: the flights of the batch, and all that are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamwarden.spark.sources import read_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamwarden.stream import StreamSpec

TTL_MS = 600_000


class Remembered(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._flights = handle.getValueState("flights", "total BIGINT", TTL_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 (Spark's)
        flights = sum(1 for _ in rows)
        total = flights + (self._flights.get()[0] if self._flights.exists() else 0)
        self._flights.update((total,))
        yield Row(carrier=key[0], at_ms=timerValues.getCurrentProcessingTimeInMs(), flights=flights, total=total)


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    if spec.trigger.available_now:  # in processing time there is always one batch more to run, and no end
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return (
        read_rows(spark, spec, "carrier STRING", required=("carrier",))
        .groupBy("carrier")
        .transformWithState(
            Remembered(), "carrier STRING, at_ms BIGINT, flights BIGINT, total BIGINT", "Append", "ProcessingTime"
        )
    )
