"""A small stateful query that loads the classes most streams need: in a standby, and for the archive of classes."""

from pathlib import Path
from typing import Any

from pyspark.sql import functions as f

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.spark.internals.listener import ProgressListener


def rehearse(spark: Any, folder: Path) -> None:
    """Count rows in windows, from JSON files to parquet, under a listener, until `folder/input` is read: see
    `class_archive.write_rehearsal`."""
    listener = ProgressListener(lambda event: None)
    spark.streams.addListener(listener)
    schema = "key INT, at TIMESTAMP, _corrupt_record STRING"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(to_hadoop(str(folder / "input")))
    counted = rows.observe("input", f.count(f.lit(1)).alias("read")).where("_corrupt_record IS NULL")
    windows = counted.withWatermark("at", "10 seconds").groupBy(f.window("at", "10 seconds"), "key")
    query = (
        windows.agg(f.count("*").alias("n"))
        .writeStream.format("parquet")
        .option("path", to_hadoop(str(folder / "output")))
        .option("checkpointLocation", to_hadoop(str(folder / "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.streams.removeListener(listener)
