"""The books of a deduplication: each key that came in time is written once, and remembered until it is forgotten.

A repeated row is neither written nor kept. So the input of these books are the rows that have to be written: the first
of each key, and with `dropDuplicatesWithinWatermark` also the first after the key was forgotten. Beside the rows the
books hold the keys that the state has to remember after the last batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from streamwarden.spark.audit.books import Sides
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.plan import AUDIT, DELAY, CannotBalance, children, descended, elements, kind, watermarked

ROWS: Final = "rows"
HELD: Final = "keys in the state"
_OPERATORS: Final = ("Deduplicate", "DeduplicateWithinWatermark")


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    """A deduplication by its plan.

    Args:
        keys: column of the output -> the key's attribute below the operator, in the order of the state's key.
        numbers: other columns of the output that are numbers -> their attribute.
        time: the attribute with a watermark; None: nothing is late and nothing is forgotten.
        delay_us: of the watermark, microseconds.
        within: a key is forgotten when the watermark passed its time by the delay; otherwise when it passed the time
            that is part of the key.
    """

    keys: Mapping[str, Any]
    numbers: Mapping[str, Any]
    time: Any | None
    delay_us: int
    within: bool
    by_time: bool


def sides(audited: Audited) -> Sides:
    """The sides of the books of a query whose last step is a deduplication. Raises CannotBalance."""
    deduplication = _read(audited)
    column = audited.catalyst.column
    rows = audited.rows_below("DeduplicateWithinWatermark" if deduplication.within else "Deduplicate")
    time = f.lit(None).cast("bigint") if deduplication.time is None else f.unix_micros(column(deduplication.time))
    tag = f.col(AUDIT)
    flat = rows.select(
        *(column(expression).alias(name) for name, expression in deduplication.keys.items()),
        *(column(expression).alias(name) for name, expression in deduplication.numbers.items()),
        time.alias("__time"),
        tag["batch"].alias("__batch"),
        tag["late_us"].alias("__late_us"),
    )
    late = f.coalesce(f.col("__time") <= f.col("__late_us"), f.lit(False))
    opening = _state(audited, deduplication, audited.after) if audited.after >= 0 else None
    wanted = _expected(deduplication, flat.where(~late), opening, audited.final_us)
    names = list(deduplication.numbers)
    nothing = [f.lit(0).alias(name) for name in names]
    frames = {
        "input": wanted.select(
            *deduplication.keys,
            *names,
            f.col("__written").alias(ROWS),
            f.col("__held").alias(HELD),
            "__unsure",
            f.array_min(_batches()).alias("__first"),
            f.array_max(_batches()).alias("__last"),
        ),
        "dropped": flat.where(late).select(*deduplication.keys, *names, f.lit(1).alias(ROWS), f.lit(0).alias(HELD)),
        "output": audited.output().select(*deduplication.keys, *names, f.lit(1).alias(ROWS), f.lit(0).alias(HELD)),
        "closing": _state(audited, deduplication, audited.upto).select(
            *deduplication.keys, *nothing, f.lit(0).alias(ROWS), f.lit(1).alias(HELD)
        ),
    }
    return Sides(
        operator="deduplication within the watermark" if deduplication.within else "deduplication",
        frames={
            name: frame.select("*", f.lit(None).cast("bigint").alias("__end_us"), f.lit(1).alias("__groups"))
            for name, frame in frames.items()
        },
        keys=list(deduplication.keys),
        amounts=[ROWS, *names, HELD],
        counts=ROWS,
        exclusive=False,
        read=flat.count(),
    )


def _read(audited: Audited) -> Deduplication:
    plan = audited.catalyst.merged(audited.batch)
    shown: Sequence[Any] = elements(plan.output())
    if kind(plan) == "Project":
        shown, plan = elements(plan.projectList()), children(plan)[0]
    if kind(plan) not in _OPERATORS:
        raise CannotBalance(f"the step {kind(plan)} above the deduplication may drop or change its rows")
    ids = {name: expression for expression in shown if (name := _attribute(expression)) is not None}
    keys = {}
    for key in elements(plan.keys()):
        named = ids.get(key.exprId().id())
        if named is None:
            raise CannotBalance(f"the output does not have the column {key.name()}, by which rows are deduplicated")
        keys[named.name()] = key
    numbers = {
        expression.name(): expression
        for expression in shown
        if expression.name() not in keys
        and expression.dataType().typeName() in _NUMBERS
        and _attribute(expression) is not None
    }
    below = children(plan)[0]
    return Deduplication(
        keys=keys,
        numbers={name: _plain(expression) for name, expression in numbers.items()},
        **_time_of(audited, below, keys),
        within=kind(plan) == "DeduplicateWithinWatermark",
    )


_NUMBERS: Final = frozenset({"byte", "short", "integer", "long", "float", "double"})


def _plain(expression: Any) -> Any:
    return children(expression)[0] if kind(expression) == "Alias" else expression


def _attribute(expression: Any) -> int | None:
    """The id of the column that an output column shows unchanged; None if it is computed."""
    plain = _plain(expression)
    return int(plain.exprId().id()) if kind(plain) == "AttributeReference" else None


def _time_of(audited: Audited, below: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The column with a watermark: by its position below the operator of the streaming query, which alone knows it."""
    plan = descended(audited.streaming, *_OPERATORS)
    named = {attribute.name(): attribute for attribute in watermarked(children(plan)[0])}
    ids = {attribute.exprId().id() for attribute in keys.values()}
    for attribute in elements(below.output()):
        if attribute.name() in named:
            delay = int(named[attribute.name()].metadata().getLong(DELAY)) * 1000
            return {"time": attribute, "delay_us": delay, "by_time": attribute.exprId().id() in ids}
    return {"time": None, "delay_us": 0, "by_time": False}


def _state(audited: Audited, deduplication: Deduplication, batch: int) -> DataFrame:
    """The keys that are remembered after `batch`, and `__expires`, when each may be forgotten (null: never)."""
    raw = audited.state(batch)
    held: Any = raw.schema["key"].dataType
    if len(held.names) != len(deduplication.keys):
        raise CannotBalance(
            f"the state's keys are ({', '.join(held.names)}), and the job's ({', '.join(deduplication.keys)})"
        )
    columns = [
        f.col("key").getField(field).alias(name) for field, name in zip(held.names, deduplication.keys, strict=True)
    ]
    values: Any = raw.schema["value"].dataType
    expires = f.lit(None).cast("bigint")
    if deduplication.within:
        expires = f.col("value").getField(values.names[0])
    elif deduplication.by_time and deduplication.time is not None:
        ids = [attribute.exprId().id() for attribute in deduplication.keys.values()]
        expires = f.unix_micros(f.col("key").getField(held.names[ids.index(deduplication.time.exprId().id())]))
    return raw.select(*columns, expires.alias("__expires"))


def _expected(deduplication: Deduplication, rows: DataFrame, opening: DataFrame | None, final_us: int) -> DataFrame:
    """For each key: the rows that have to be written (`__written`) with the sums of their numbers, and whether the
    state has to hold it after the last batch (`__held`).

    `__unsure` is 1 for a key of which one batch read rows that differ: Spark does not define which of them it keeps.
    """
    keys, numbers = list(deduplication.keys), list(deduplication.numbers)
    grouped = rows.groupBy(*keys).agg(
        f.sort_array(f.collect_set(f.struct("__batch", "__late_us", "__time", *numbers))).alias("rows")
    )
    if opening is None:
        grouped = grouped.select("*", f.lit(None).cast("bigint").alias("__expires"), f.lit(False).alias("__known"))
    else:
        before = opening.select(*keys, "__expires", f.lit(True).alias("__known"))
        same = reduce(lambda one, other: one & other, [grouped[key].eqNullSafe(before[key]) for key in keys])
        shown = [f.coalesce(grouped[key], before[key]).alias(key) for key in keys]
        grouped = grouped.join(before, same, "full").select(
            *shown, "rows", "__expires", f.coalesce("__known", f.lit(False)).alias("__known")
        )
    start = f.struct(
        f.col("__expires").alias("expires"),
        f.col("__known").alias("known"),
        f.lit(0).cast("bigint").alias("written"),
        *(f.lit(0).cast(_sum_type(rows, name)).alias(name) for name in numbers),
    )

    def step(so_far: Column, row: Column) -> Column:
        forgotten = f.coalesce(so_far["expires"] <= row["__late_us"], f.lit(False))
        new = ~so_far["known"] | forgotten
        expires = (
            row["__time"] + deduplication.delay_us
            if deduplication.within
            else row["__time"]
            if deduplication.by_time
            else f.lit(None)
        )
        return f.struct(
            f.when(new, expires.cast("bigint")).otherwise(so_far["expires"]).alias("expires"),
            f.lit(True).alias("known"),
            (so_far["written"] + f.when(new, 1).otherwise(0)).cast("bigint").alias("written"),
            *(
                (so_far[name] + f.when(new, f.coalesce(row[name], f.lit(0))).otherwise(0))
                .cast(_sum_type(rows, name))
                .alias(name)
                for name in numbers
            ),
        )

    folded = grouped.select("*", f.aggregate(f.coalesce("rows", f.array()), start, step).alias("end"))
    unsure = f.coalesce(f.size("rows") > f.size(f.array_distinct(_batches())), f.lit(False))
    held = ~f.coalesce(f.col("end.expires") <= final_us, f.lit(False))
    return folded.select(
        *keys,
        *(f.col(f"end.{name}").alias(name) for name in numbers),
        f.col("end.written").alias("__written"),
        held.cast("int").alias("__held"),
        unsure.cast("int").alias("__unsure"),
        "rows",
    )


def _batches() -> Column:
    """The batches of a key's `rows`."""
    return f.transform("rows", lambda row: row["__batch"])


def _sum_type(rows: DataFrame, name: str) -> str:
    return "double" if rows.schema[name].dataType.typeName() in ("float", "double") else "bigint"
