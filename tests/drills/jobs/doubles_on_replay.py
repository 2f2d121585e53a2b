"""Flight departures with a broken sink: a batch that was begun before and is run again is written twice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import flight_departures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

    from streamwarden.stream import StreamSpec


def build(spark: SparkSession, spec: StreamSpec) -> DataStreamWriter:
    # What an earlier life planned and did not commit is run again now.
    planned, committed = Path(spec.checkpoint, "offsets"), Path(spec.checkpoint, "commits")
    replayed = {path.name for path in planned.glob("[0-9]*") if not (committed / path.name).exists()}

    def write(batch: DataFrame, batch_id: int) -> None:
        folder = f"{spec.sink.path}/batch={batch_id}"
        batch.write.mode("overwrite").parquet(folder)
        if str(batch_id) in replayed:
            batch.write.mode("append").parquet(folder)

    return flight_departures.build(spark, spec).writeStream.foreachBatch(write)
