"""How many values came in each five minutes, recomputed every minute: count, sum, least and greatest.

    source  Spark's `rate`: rows (timestamp, value), value counting up from 0, so many a second by the wall clock
    args    ["window=5m", "slide=1m", "watermark=1m"], also the defaults

The job to try a cluster, a state store or an upgrade with: it needs no input, never ends, and what it writes can be
checked to the row, since second, value and time of each row follow from the checkpoint.

Why native operators: the watermark, the sliding window and its aggregates run inside the JVM.

State: one row for each window that is not closed yet.
    key    window start and end
    value  count, sum, least, greatest
What bounds it: a window leaves the state when the watermark (the newest timestamp, less a minute) passes its end. A row
is in five windows, so some seven rows are open, whatever the rate.

Guarantee, end to end: exactly once. The source makes the same rows again for the same seconds, and the checkpoint says
which seconds were in which batch; the state is versioned by batch; the parquet sink's manifest takes the files of a
batch once, for readers that honour it (`_spark_metadata`). After a stop, the first batch makes up for the seconds that
were missed: after a night that is a long batch.

No row is late or malformed: the source makes them in order. It has no end, so a drill's fork ends after a number of
batches (`fork.batches`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, max, min, sum, window

from streamwarden.errors import ConfigError
from streamwarden.spark.sources import read_rate
from streamwarden.stream import StreamSpec
from streamwarden.units import parse_duration

DEFAULTS = {"window": 300.0, "slide": 60.0, "watermark": 60.0}


def build(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """One row for each window, when no more of its rows can come."""
    seconds = {name: f"{value:g} seconds" for name, value in parameters(spec.args, spec.file).items()}
    return (
        read_rate(spark, spec)
        .withWatermark("timestamp", seconds["watermark"])
        .groupBy(window("timestamp", seconds["window"], seconds["slide"]))
        .agg(
            count("*").alias("values"),
            sum("value").alias("total"),
            min("value").alias("least"),
            max("value").alias("greatest"),
        )
        .select(
            col("window.start").alias("window_start"),
            col("window.end").alias("window_end"),
            "values",
            "total",
            "least",
            "greatest",
        )
    )


def parameters(args: Sequence[str], where: str = "") -> dict[str, float]:
    """Seconds of `window`, `slide` and `watermark`, from `NAME=DURATION`. Raises ConfigError."""
    found = dict(DEFAULTS)
    for arg in args:
        name, _, duration = arg.partition("=")
        try:
            seconds = parse_duration(duration) if name in DEFAULTS else 0.0
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            raise ConfigError(
                f"args: {arg!r}",
                expected="window=DURATION, slide=DURATION or watermark=DURATION, such as slide=1m",
                where=where,
                next_step="correct `args` in the stream's file",
            )
        found[name] = seconds
    if found["slide"] > found["window"]:
        raise ConfigError(
            f"args: a slide of {found['slide']:g} s is longer than the window of {found['window']:g} s",
            expected="slide <= window, so that no row falls between windows",
            where=where,
            next_step="correct `args` in the stream's file",
        )
    return found
