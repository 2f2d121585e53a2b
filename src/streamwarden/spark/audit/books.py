"""Compares the two sides of a query's books, entry by entry: input, and output with state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, FloatType

from streamwarden.verification.balance import AFTER, BEFORE, FRACTION, GROUPS, Books, Entry, Range


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The sides of the books as frames with the same columns: `keys`, `__end_us`, `__groups` and `amounts`.

    Args:
        operator: what was audited, in words.
        frames: side -> its rows; those of one entry add up.
        amounts: the columns that have to balance.
        counts: the one of `amounts` that counts input rows; None: there is none.
        exclusive: an entry is in the output once, or in the state once, and never in both.
        left_out: output column -> why it is not balanced.
        unit: what `counts` counts.
        read: input rows of the batches, if `counts` of the sides does not show them.

    A frame may have the column `__unsure`: an entry of which it is not 0 is counted, and not judged. It may have
    `__first` and `__last`: the first and the last batch that read rows of the entry.
    """

    operator: str
    frames: Mapping[str, DataFrame]
    keys: Sequence[str]
    amounts: Sequence[str]
    counts: str | None
    exclusive: bool
    left_out: Mapping[str, str] = field(default_factory=dict)
    read: int | None = None
    unit: str = "rows"


_MAY_HAVE: Final[Mapping[str, int | None]] = {"__unsure": 0, "__first": None, "__last": None}
"""Column that a frame may have -> what stands for it in the others."""


def compared(sides: Sides, *, limit: int) -> Books:
    """The totals of each side, and the entries that do not balance: all are counted, `limit` are named."""
    names = list(sides.frames)
    keys = [f"k{index}" for index in range(len(sides.keys))]
    amounts = [f"a{index}" for index in range(len(sides.amounts))]
    frames = []
    for name, frame in sides.frames.items():
        columns: list[Column | str] = [
            *(f.col(f"`{given}`").alias(key) for given, key in zip(sides.keys, keys, strict=True)),
            "__end_us",
            f.col("__groups").alias(GROUPS),
            *(
                f.col(column) if column in frame.columns else f.lit(none).cast("bigint").alias(column)
                for column, none in _MAY_HAVE.items()
            ),
            *(f.col(f"`{given}`").alias(to) for given, to in zip(sides.amounts, amounts, strict=True)),
        ]
        frames.append(frame.select(f.lit(name).alias("side"), *columns))
    together = reduce(lambda one, other: one.unionByName(other), frames)
    sums = [
        f.sum(f.when(f.col("side") == name, f.col(column))).alias(f"{name}_{column}")
        for name in names
        for column in (GROUPS, *amounts)
    ]
    entries = together.groupBy(*keys).agg(
        *(f.max(column).alias(column) for column in ("__end_us", "__unsure", "__last")),
        f.min("__first").alias("__first"),
        *sums,
    )
    unbalanced = reduce(lambda one, other: one | other, _differences(entries, sides, names, amounts))
    entries = entries.withColumn("unbalanced", unbalanced & (f.col("__unsure") == 0)).persist()
    totals = entries.agg(
        f.count(f.when(f.col("unbalanced"), 1)).alias("unbalanced"),
        f.count(f.when(f.col("__unsure") > 0, 1)).alias("__unsure"),
        f.count("*").alias("entries"),
        *(f.sum(f"{name}_{column}").alias(f"{name}_{column}") for name in names for column in (GROUPS, *amounts)),
    ).collect()[0]
    shown = entries.where("unbalanced").orderBy("__end_us", *keys).limit(limit)
    text = f.to_json(f.struct(*keys), {"ignoreNullFields": "false"}) if keys else f.lit("{}")
    worst = shown.select(text.alias("key"), "*").collect() if totals["unbalanced"] else []

    def amounts_of(row: Any) -> dict[str, dict[str, Any]]:
        pairs = list(zip((GROUPS, *sides.amounts), (GROUPS, *amounts), strict=True))
        return {name: {given: row[f"{name}_{column}"] for given, column in pairs} for name in names}

    renamed = dict(zip(keys, sides.keys, strict=True))
    return Books(
        operator=sides.operator,
        amounts=tuple(sides.amounts),
        counts=sides.counts,
        left_out=dict(sides.left_out),
        entries=totals["entries"],
        unbalanced=totals["unbalanced"],
        unsure=totals["__unsure"],
        read=sides.read,
        unit=sides.unit,
        totals=amounts_of(totals),
        worst=tuple(
            Entry(
                key={renamed[name]: value for name, value in json.loads(row["key"]).items()},
                end_ms=None if row["__end_us"] is None else row["__end_us"] // 1000,
                read_by=None if row["__first"] is None else Range(after=row["__first"] - 1, upto=row["__last"]),
                sides=amounts_of(row),
                exclusive=sides.exclusive,
            )
            for row in worst
        ),
    )


def _differences(entries: DataFrame, sides: Sides, names: Sequence[str], amounts: Sequence[str]) -> list[Column]:
    def of(name: str, column: str) -> Column:
        return f.coalesce(f.col(f"{name}_{column}"), f.lit(0)) if name in names else f.lit(0)

    differences = []
    for column in amounts:
        before, after = (reduce(lambda a, b: a + b, [of(name, column) for name in side]) for side in (BEFORE, AFTER))
        fraction = isinstance(entries.schema[f"{names[0]}_{column}"].dataType, DoubleType | FloatType)
        differ = before != after
        if fraction:  # NaN and the infinities are only equal to themselves
            bound = f.greatest(f.abs(before), f.abs(after)) * FRACTION
            differ &= ~((f.abs(before - after) <= bound) & (bound < float("inf")))
        differences.append(differ)
    if sides.exclusive:
        there = f.greatest(*(of(side, GROUPS) for side in BEFORE))
        differences.append(there != reduce(lambda a, b: a + b, [of(side, GROUPS) for side in AFTER]))
    return differences
