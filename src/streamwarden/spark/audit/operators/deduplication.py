"""The books of a deduplication: each key that came in time is written once, and remembered until it is forgotten.

A repeated row is neither written nor kept. So the input of these books are the rows that have to be written: the first
of each key, and with `dropDuplicatesWithinWatermark` also the first after the key was forgotten. A row is an entry with
all its columns. Beside the rows the books hold the keys that the state has to remember after the last batch: entries
whose other columns are null.

If one batch reads rows of a key that differ, Spark does not define which of them it writes. The output has to have one
of them then, and the entry of the key counts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from streamwarden.spark.audit.books import Sides, comparable
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.plan import AUDIT, DELAY, CannotBalance, children, descended, elements, kind, watermarked

ROWS: Final = "rows"
HELD: Final = "keys in the state"
FRACTIONS: Final = frozenset({"float", "double"})
"""Types whose values are compared by their sum over the rows that agree in all other columns."""
OPERATORS: Final = ("Deduplicate", "DeduplicateWithinWatermark")


@dataclass(frozen=True, kw_only=True)
class Deduplication:
    """A deduplication by its plan.

    Args:
        keys: column of the output -> the key's attribute below the operator, in the order of the state's key.
        others: the other columns of the output -> their expression below the operator.
        time: the attribute with a watermark; None: nothing is late and nothing is forgotten.
        delay_us: of the watermark, microseconds.
        within: a key is forgotten when the watermark passed its time by the delay; otherwise when it passed the time
            that is part of the key.
    """

    keys: Mapping[str, Any]
    others: Mapping[str, Any]
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
    shown = {**deduplication.keys, **deduplication.others}
    named = rows.select(
        *(column(expression).alias(name) for name, expression in shown.items()),
        time.alias("__time"),
        tag["batch"].alias("__batch"),
        tag["late_us"].alias("__late_us"),
    )
    flat = named.select(*_comparable(named, shown), "__time", "__batch", "__late_us")
    late = f.coalesce(f.col("__time") <= f.col("__late_us"), f.lit(False))
    opening = _state(audited, deduplication, audited.after) if audited.after >= 0 else None
    kept = _folded(deduplication, flat.where(~late), opening, audited.final_us).persist()
    fractions = [name for name in deduplication.others if flat.schema[name].dataType.typeName() in FRACTIONS]
    entries = _Entries(like=flat, keys=list(deduplication.keys), others=list(deduplication.others))
    frames = {
        "input": entries.expected(kept),
        "dropped": entries.of_keys(flat.where(late), written=1),
        "output": entries.written(audited.output(), kept),
        "closing": entries.of_keys(_state(audited, deduplication, audited.upto), held=1),
    }
    return Sides(
        operator="deduplication within the watermark" if deduplication.within else "deduplication",
        frames={
            name: frame.select("*", f.lit(None).cast("bigint").alias("__end_us"), f.lit(1).alias("__groups"))
            for name, frame in frames.items()
        },
        keys=[name for name in shown if name not in fractions],
        amounts=[ROWS, *fractions, HELD],
        counts=ROWS,
        exclusive=False,
        read=flat.count(),
    )


@dataclass(frozen=True, kw_only=True)
class _Entries:
    """The frames of the books: rows with all their columns, and keys with the other columns null.

    Args:
        like: a frame with the types of the columns.
    """

    like: DataFrame
    keys: Sequence[str]
    others: Sequence[str]

    def of_keys(
        self, frame: DataFrame, *, written: int | Column = 0, held: int | Column = 0, **more: Column
    ) -> DataFrame:
        """An entry for each key of the frame."""
        nulls = [f.lit(None).cast(self.like.schema[name].dataType).alias(name) for name in self.others]
        counts = [f.lit(written).alias(ROWS), f.lit(held).alias(HELD)]
        return frame.select(*_named(self.keys), *nulls, *counts, *(column.alias(name) for name, column in more.items()))

    def expected(self, kept: DataFrame) -> DataFrame:
        """The rows that have to be written, and the keys that have to be held."""
        batches = f.transform("__rows", lambda row: row["batch"])
        unclear = f.when(f.col("__several"), f.size("__written")).otherwise(0)
        keys = self.of_keys(
            kept,
            written=unclear,
            held=f.col("__held").cast("int"),
            __unsure=f.col("__unsure").cast("int"),
            __first=f.array_min(batches),
            __last=f.array_max(batches),
        )
        rows = kept.where("NOT __several").select(*_named(self.keys), f.explode("__written").alias("__row"))
        single = rows.select(
            *_named(self.keys),
            *(f.col("__row.shown")[0][name].alias(name) for name in self.others),
            f.lit(1).alias(ROWS),
            f.lit(0).alias(HELD),
            f.lit(0).alias("__unsure"),
            f.col("__row.batch").alias("__first"),
            f.col("__row.batch").alias("__last"),
        )
        return keys.union(single)

    def written(self, output: DataFrame, kept: DataFrame) -> DataFrame:
        """The rows of the output; one that is among the several that Spark may have taken counts for its key."""
        shown = output.select(*_comparable(output, [*self.keys, *self.others]))
        several = kept.where("__several").select(
            *(f.col(f"`{name}`").alias(f"__of {name}") for name in self.keys),
            f.explode(f.array_distinct(f.flatten(f.transform("__written", lambda row: row["shown"])))).alias("__may"),
        )
        exact = [name for name in self.others if self.like.schema[name].dataType.typeName() not in FRACTIONS]
        may = several.select(
            *(f.col(f"`__of {name}`") for name in self.keys),
            *(f.col("__may")[name].alias(f"__of {name}") for name in exact),
            f.lit(True).alias("__is_one"),
        ).distinct()
        same = [shown[f"`{name}`"].eqNullSafe(may[f"`__of {name}`"]) for name in [*self.keys, *exact]]
        joined = shown.join(may, reduce(lambda one, other: one & other, same), "left")
        return joined.select(
            *_named(self.keys),
            *(f.when(f.col("__is_one").isNull(), f.col(f"`{name}`")).alias(name) for name in self.others),
            f.lit(1).alias(ROWS),
            f.lit(0).alias(HELD),
        )


def _named(names: Iterable[str]) -> list[Column]:
    return [f.col(f"`{name}`") for name in names]


def _comparable(frame: DataFrame, names: Iterable[str]) -> list[Column]:
    return [comparable(frame, name).alias(name) for name in names]


def _read(audited: Audited) -> Deduplication:
    plan = audited.catalyst.merged(audited.batch)
    shown: Sequence[Any] = elements(plan.output())
    if kind(plan) == "Project":
        shown, plan = elements(plan.projectList()), children(plan)[0]
    if kind(plan) not in OPERATORS:
        raise CannotBalance(f"the step {kind(plan)} above the deduplication may drop or change its rows")
    ids = {name: expression for expression in shown if (name := _attribute(expression)) is not None}
    keys = {}
    for key in elements(plan.keys()):
        named = ids.get(key.exprId().id())
        if named is None:
            raise CannotBalance(f"the output does not have the column {key.name()}, by which rows are deduplicated")
        keys[named.name()] = key
    others = {expression.name(): _plain(expression) for expression in shown if expression.name() not in keys}
    below = children(plan)[0]
    return Deduplication(
        keys=keys,
        others=others,
        **_time_of(audited, below, keys),
        within=kind(plan) == "DeduplicateWithinWatermark",
    )


def _plain(expression: Any) -> Any:
    return children(expression)[0] if kind(expression) == "Alias" else expression


def _attribute(expression: Any) -> int | None:
    """The id of the column that an output column shows unchanged; None if it is computed."""
    plain = _plain(expression)
    return int(plain.exprId().id()) if kind(plain) == "AttributeReference" else None


def _time_of(audited: Audited, below: Any, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The column with a watermark: by its position below the operator of the streaming query, which alone knows it."""
    plan = descended(audited.streaming, *OPERATORS)
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


def _folded(deduplication: Deduplication, rows: DataFrame, opening: DataFrame | None, final_us: int) -> DataFrame:
    """For each key: `__rows`, what each batch read of it; `__written`, those of them of which a row has to be written;
    `__several`, whether Spark may choose the row; `__held`, whether the state has to hold the key after the last batch.

    `__unsure` are keys of which one batch read rows of different times, if the time decides when the key is forgotten:
    any of their rows may be written, and any number of them.
    """
    keys = list(deduplication.keys)
    shown = f.struct(f.lit(0).alias("__row"), *_named(deduplication.others))
    by_batch = rows.groupBy(*_named(keys), "__batch", "__late_us").agg(
        f.min("__time").alias("__from"), f.max("__time").alias("__until"), f.collect_set(shown).alias("__shown")
    )
    fields = {"batch": "__batch", "late_us": "__late_us", "time": "__from", "until": "__until", "shown": "__shown"}
    read = f.struct(*(f.col(column).alias(field) for field, column in fields.items()))
    grouped = by_batch.groupBy(*_named(keys)).agg(f.sort_array(f.collect_list(read)).alias("__rows"))
    if opening is None:
        grouped = grouped.select("*", f.lit(None).cast("bigint").alias("__expires"), f.lit(False).alias("__known"))
    else:
        before = opening.select(*_named(keys), "__expires", f.lit(True).alias("__known"))
        same = reduce(
            lambda one, other: one & other, [grouped[f"`{key}`"].eqNullSafe(before[f"`{key}`"]) for key in keys]
        )
        either = [f.coalesce(grouped[f"`{key}`"], before[f"`{key}`"]).alias(key) for key in keys]
        grouped = grouped.join(before, same, "full").select(
            *either, "__rows", "__expires", f.coalesce("__known", f.lit(False)).alias("__known")
        )
    none = f.array().cast("array<bigint>")
    start = f.struct(f.col("__expires").alias("expires"), f.col("__known").alias("known"), none.alias("written"))

    def step(so_far: Column, row: Column) -> Column:
        forgotten = f.coalesce(so_far["expires"] <= row["late_us"], f.lit(False))
        new = ~so_far["known"] | forgotten
        expires = (
            row["time"] + deduplication.delay_us
            if deduplication.within
            else row["time"]
            if deduplication.by_time
            else f.lit(None)
        )
        return f.struct(
            f.when(new, expires.cast("bigint")).otherwise(so_far["expires"]).alias("expires"),
            f.lit(True).alias("known"),
            f.concat(so_far["written"], f.when(new, f.array(row["batch"])).otherwise(none)).alias("written"),
        )

    folded = grouped.select("*", f.aggregate(f.coalesce("__rows", f.array()), start, step).alias("__end"))
    unsure = f.exists("__rows", lambda row: row["time"] != row["until"]) if deduplication.within else f.lit(False)
    judged = folded.withColumn("__unsure", f.coalesce(unsure, f.lit(False)))
    new = f.filter("__rows", lambda row: f.col("__unsure") | f.array_contains(f.col("__end.written"), row["batch"]))
    return judged.select(
        *_named(keys),
        "__rows",
        new.alias("__written"),
        f.coalesce(f.exists(new, lambda row: f.size(row["shown"]) > 1) | f.col("__unsure"), f.lit(False)).alias(
            "__several"
        ),
        (~f.coalesce(f.col("__end.expires") <= final_us, f.lit(False))).alias("__held"),
        "__unsure",
    )
