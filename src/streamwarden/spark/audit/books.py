"""Compares the two sides of a query's books, entry by entry: input, and output with state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DoubleType, FloatType

from streamwarden.verification.comparing.balance import AFTER, BEFORE, FRACTION, GROUPS, ROUNDING, Books, Entry, Range


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
    `__first` and `__last`: the first and the last batch that read rows of the entry. And it may have, for an amount of
    FLOAT or DOUBLE, the column `size_of(amount)`: the sum of the absolute values. Without it a row of the frame has the
    absolute value of its amount.
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


_WITHOUT_ORDER: Final = ("map<", "variant")
"""In the name of a type whose values Spark neither sorts nor collects."""


def size_of(amount: str) -> str:
    """The column with the sum of the absolute values of an amount."""
    return f"__size {amount}"


def comparable(frame: DataFrame, name: str) -> Column:
    """A column, as text where Spark cannot compare its values."""
    column = f.col(f"`{name}`")
    kind = frame.schema[name].dataType.simpleString()
    return f.to_json(f.struct(column)) if any(part in kind for part in _WITHOUT_ORDER) else column


def compared(sides: Sides, *, limit: int) -> Books:
    """The totals of each side, and the entries that do not balance: all are counted, `limit` are named."""
    names = list(sides.frames)
    keys = [f"k{index}" for index in range(len(sides.keys))]
    amounts = [f"a{index}" for index in range(len(sides.amounts))]
    frames = []
    for name, frame in sides.frames.items():
        columns: list[Column | str] = [
            *(comparable(frame, given).alias(key) for given, key in zip(sides.keys, keys, strict=True)),
            "__end_us",
            f.col("__groups").alias(GROUPS),
            *(
                f.col(column) if column in frame.columns else f.lit(none).cast("bigint").alias(column)
                for column, none in _MAY_HAVE.items()
            ),
            *(f.col(f"`{given}`").alias(to) for given, to in zip(sides.amounts, amounts, strict=True)),
            *(_size(frame, given).alias(f"{to}_size") for given, to in zip(sides.amounts, amounts, strict=True)),
        ]
        frames.append(frame.select(f.lit(name).alias("side"), *columns))
    together = reduce(lambda one, other: one.unionByName(other), frames)
    slack = {amount: error for amount in amounts if (error := _error(together, amount)) is not None}
    sums = [
        f.sum(f.when(f.col("side") == name, f.col(column))).alias(f"{name}_{column}")
        for name in names
        for column in (GROUPS, *amounts)
    ]
    sums += [
        f.sum(f.when(f.col("side").isin(*BEFORE), f.col(f"{amount}_size") * error)).alias(f"{amount}_slack")
        for amount, error in slack.items()
    ]
    entries = together.groupBy(*keys).agg(
        *(f.max(column).alias(column) for column in ("__end_us", "__unsure", "__last")),
        f.min("__first").alias("__first"),
        *sums,
    )
    unbalanced = reduce(lambda one, other: one | other, _differences(entries, sides, names, amounts, slack))
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
                slack={
                    given: row[f"{amount}_slack"]
                    for given, amount in zip(sides.amounts, amounts, strict=True)
                    if amount in slack and row[f"{amount}_slack"] is not None
                },
            )
            for row in worst
        ),
    )


def _size(frame: DataFrame, amount: str) -> Column:
    named = size_of(amount)
    size = f.col(f"`{named}`") if named in frame.columns else f.abs(f.col(f"`{amount}`"))
    return size.cast("double")


def _error(together: DataFrame, amount: str) -> float | None:
    """The relative error of an amount's addition; None: its sums are exact."""
    match together.schema[amount].dataType:
        case FloatType():
            return FRACTION
        case DoubleType():
            return ROUNDING
        case _:
            return None


def _differences(
    entries: DataFrame, sides: Sides, names: Sequence[str], amounts: Sequence[str], slack: Mapping[str, float]
) -> list[Column]:
    """Whether each amount differs, and the entry's own presence: see `balance.differences`."""

    def of(name: str, column: str) -> Column:
        return f.coalesce(f.col(f"{name}_{column}"), f.lit(0)) if name in names else f.lit(0)

    def both(column: str) -> list[Column]:
        return [reduce(lambda one, other: one + other, [of(name, column) for name in half]) for half in (BEFORE, AFTER)]

    on_both = reduce(lambda one, other: one & other, [groups > 0 for groups in both(GROUPS)])
    differences = []
    for column in amounts:
        before, after = both(column)
        differ = before != after
        if column in slack:  # NaN and the infinities are only equal to themselves
            bound = f.greatest(f.greatest(f.abs(before), f.abs(after)) * FRACTION, f.col(f"{column}_slack"))
            differ &= ~((f.abs(before - after) <= bound) & (bound < float("inf")))
        nulls = [
            reduce(
                lambda one, other: one & other, [f.col(f"{name}_{column}").isNull() for name in half if name in names]
            )
            for half in (BEFORE, AFTER)
        ]
        differences += [differ, on_both & (nulls[0] != nulls[1])]
    if sides.exclusive:
        there = f.greatest(*(of(side, GROUPS) for side in BEFORE))
        differences.append(there != both(GROUPS)[1])
    return differences
