"""The difference between the states of two batches, of one checkpoint or of two.

The rows of both states are counted by key, item, value and expiry: a row of which the two have different numbers has
changed. So lists and joins, whose keys have several rows, are compared as any other table, without their order.
"""

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from streamwarden.lifecycle.time_travel.answers import Change, Difference, Question
from streamwarden.spark.state.entries import Keyed, entries, key_of, keyed

_SIDES: Final = ("before", "after")
_GROWTH: Final = 10
"""Keys that grew the most, and that are named."""


def compare(spark: SparkSession, question: Question) -> Difference:
    """The counts, the keys that grew the most, and a sample of what changed."""
    before, after = (
        keyed(entries(spark, checkpoint, question.table, batch), question.table, question.keys)
        for checkpoint, batch in question.sides
    )
    by_key = _by_key(before, after).persist()
    try:
        return _difference(by_key, after, question.limit)
    finally:
        by_key.unpersist()


def _by_key(before: Keyed, after: Keyed) -> DataFrame:
    keys = after.keys
    sides = zip(_SIDES, (before, after), strict=True)
    first, second = (
        found.frame.select(*keys, "item", "value", "expires_ms", "size", *_marks(side)) for side, found in sides
    )
    rows = first.unionByName(second).groupBy(*keys, "item", "value", "expires_ms")
    counted = rows.agg(
        *(f.sum(side).alias(side) for side in _SIDES),
        *(f.sum(f.col(side) * f.col("size")).alias(f"bytes_{side}") for side in _SIDES),
    )
    text = f.to_json(f.struct("item", "value", "expires_ms"))
    only = {"before": f.col("before") > f.col("after"), "after": f.col("after") > f.col("before")}
    return counted.groupBy(*keys).agg(
        *(f.sum(side).alias(f"rows_{side}") for side in _SIDES),
        *(f.sum(f"bytes_{side}").alias(f"bytes_{side}") for side in _SIDES),
        *(f.min(f.when(only[side], text)).alias(side) for side in _SIDES),
        f.max(f.col("before") != f.col("after")).alias("differs"),
    )


def _marks(side: str) -> list[Any]:
    return [f.lit(int(name == side)).cast("long").alias(name) for name in _SIDES]


def _difference(by_key: DataFrame, found: Keyed, limit: int) -> Difference:
    here, there = f.col("rows_before") > 0, f.col("rows_after") > 0
    rows, size = f.col("rows_after") - f.col("rows_before"), f.col("bytes_after") - f.col("bytes_before")
    more, less = (rows > 0, rows < 0) if not found.sized else ((rows > 0) | (size > 0), (rows < 0) | (size < 0))
    kinds = {
        "appeared": ~here,
        "vanished": ~there,
        "changed": here & there & f.col("differs"),
        "unchanged": ~f.col("differs"),
        "grew": here & there & more,
        "shrank": here & there & less,
    }
    totals = by_key.agg(
        *(f.count(f.when(holds, 1)).alias(kind) for kind, holds in kinds.items()),
        *(f.coalesce(f.sum(f"rows_{side}"), f.lit(0)).alias(f"rows_{side}") for side in _SIDES),
    ).collect()[0]
    most = by_key.where(kinds["grew"]).orderBy(f.desc(size), f.desc(rows), *found.keys).limit(_GROWTH)
    sample = by_key.where("differs").orderBy(*found.keys).limit(limit)
    return Difference(
        fields=found.fields,
        growth=tuple(_change(row, found) for row in most.collect()),
        sample=tuple(_change(row, found) for row in sample.collect()),
        **totals.asDict(),
    )


def _change(row: Any, found: Keyed) -> Change:
    names = [f"{what}_{side}" for what in ("rows", "bytes") for side in _SIDES]
    return Change(key=key_of(row, found.fields), **{name: row[name] for name in (*names, *_SIDES)})
