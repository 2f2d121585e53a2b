"""The books of a join of two streams: each pair of rows that were in time is written once.

The rows that are joined are those that the state held before the audited batches and those that came in time in them.
They are joined again as a batch, by the job's own condition. A pair of two rows that the state held was written before.
A row of the outer side without a partner is written when it leaves the state, so it is in the output or in the state.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from streamwarden.spark.audit.books import Sides
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.plan import AUDIT, CannotBalance, children, descended, elements, kind, watermarked
from streamwarden.spark.internals.plans import analyzed

OPERATORS: Final = ("Join",)

ROWS: Final = "rows"
_SIDES: Final = ("left", "right")
_OUTER: Final = {"Inner": (), "LeftOuter": ("left",), "RightOuter": ("right",), "FullOuter": ("left", "right")}
"""Type of the join -> the sides whose rows are written without a partner too."""
_FRACTIONS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, kw_only=True)
class Joined:
    """A join by its plan.

    Args:
        node: the join. shown: the columns of the output as expressions over it, by name.
        late: side -> name of its column with a watermark; None: none of its rows is late.
        outer: sides whose rows are written without a partner too.
    """

    node: Any
    shown: dict[str, Any]
    late: dict[str, str | None]
    outer: tuple[str, ...]


def sides(audited: Audited) -> Sides:
    """The sides of the books of a query whose last stateful step is a join. Raises CannotBalance."""
    join = _read(audited)
    new = {side: _new(audited, join, side) for side in _SIDES}
    in_time = {side: rows.where("NOT __late").drop("__late") for side, rows in new.items()}
    live = {side: _with_state(audited, in_time[side], side) for side in _SIDES}
    wanted = _joined(audited, join, live)
    fractions = [field.name for field in audited.frame.schema.fields if field.dataType.typeName() in _FRACTIONS]
    keys = [name for name in audited.frame.columns if name not in fractions]
    frames = {
        "input": wanted,
        "output": audited.output(),
        "closing": _waiting(audited, join, in_time),
        "dropped": _dropped(audited, new),
    }
    return Sides(
        operator="join of two streams",
        unit="joined rows",
        frames={
            name: frame.select(
                "*",
                f.lit(1).alias(ROWS),
                f.lit(None).cast("bigint").alias("__end_us"),
                f.lit(1).alias("__groups"),
            )
            for name, frame in frames.items()
        },
        keys=keys,
        amounts=[ROWS, *fractions],
        counts=ROWS,
        exclusive=False,
    )


def _read(audited: Audited) -> Joined:
    plan = audited.catalyst.merged(audited.batch)
    shown = elements(plan.output())
    if kind(plan) == "Project":
        shown, plan = elements(plan.projectList()), children(plan)[0]
    if kind(plan) != "Join":
        raise CannotBalance(f"the step {kind(plan)} above the join may drop or change its rows")
    type_of = str(plan.joinType().getClass().getSimpleName()).rstrip("$")
    if type_of not in _OUTER:
        raise CannotBalance(f"the audit does not know how to balance a join of the type {type_of}")
    of_sides = zip(_SIDES, children(descended(audited.streaming, "Join")), strict=True)
    return Joined(
        node=descended(audited.batch, "Join"),
        shown={attribute.name(): attribute for attribute in shown},
        late={side: next((marked.name() for marked in watermarked(child)), None) for side, child in of_sides},
        outer=_OUTER[type_of],
    )


def _new(audited: Audited, join: Joined, side: str) -> DataFrame:
    """The rows that came in the audited batches, and whether each was late."""
    child = children(join.node)[_SIDES.index(side)]
    rows = audited.given.with_batches(audited.catalyst.frame(audited.catalyst.tagged(child)))
    named = join.late[side]
    late: Column = f.lit(False)
    if named is not None:
        late = f.coalesce(f.unix_micros(named) <= f.col(f"{AUDIT}.late_us"), f.lit(False))
    return rows.select("*", late.alias("__late"), f.col(f"{AUDIT}.batch").alias(f"__{side}_batch")).drop(AUDIT)


def _with_state(audited: Audited, new: DataFrame, side: str) -> DataFrame:
    """The new rows, and those that the state held before them: `__SIDE_old`, `__SIDE_matched`."""
    marked = new.select("*", f.lit(False).alias(f"__{side}_old"), f.lit(False).alias(f"__{side}_matched"))
    return marked if audited.after < 0 else marked.union(_state(audited, new, side, audited.after))


def _state(audited: Audited, like: DataFrame, side: str, batch: int) -> DataFrame:
    """The rows that the state holds after `batch`. A column that the join does not need is null."""
    raw = audited.state(batch, storeName=f"{side}-keyWithIndexToValue")
    held: Any = raw.schema["value"].dataType
    if "matched" not in held.names:
        raise CannotBalance("the state of the join has a format that the audit does not know")
    columns = [
        (f.col("value").getField(field.name) if field.name in held.names else f.lit(None).cast(field.dataType)).alias(
            field.name
        )
        for field in like.schema.fields
    ]
    matched = f.col("value.matched").alias(f"__{side}_matched")
    return raw.select(*columns, f.lit(True).alias(f"__{side}_old"), matched)


def _joined(audited: Audited, join: Joined, rows: dict[str, DataFrame]) -> DataFrame:
    """The rows that have to be written: by the batches, or by a later one."""
    plans = [analyzed(rows[side]) for side in _SIDES]
    joined = audited.catalyst.frame(join.node.withNewChildren(audited.catalyst.seq(plans)))
    left, right = (f.col(f"__{side}_old") for side in _SIDES)
    written = [left & right]
    if "left" in join.outer:
        written.append(f.col("__left_matched") & right.isNull())
    if "right" in join.outer:
        written.append(f.col("__right_matched") & left.isNull())
    fresh = joined.where(~f.coalesce(reduce(lambda one, other: one | other, written), f.lit(False)))
    batch = f.greatest(*(f.col(f"__{side}_batch") for side in _SIDES))  # of two rows the later one makes the pair
    return fresh.select(
        *(audited.catalyst.column(attribute).alias(name) for name, attribute in join.shown.items()),
        batch.alias("__first"),
        batch.alias("__last"),
    )


def _waiting(audited: Audited, join: Joined, like: dict[str, DataFrame]) -> DataFrame:
    """The rows of an outer side that the state holds after the batches and that have no partner yet."""
    waiting = audited.nothing()
    for side in join.outer:
        rows = {name: _marked_none(like[name], name) for name in _SIDES}
        alone = _state(audited, like[side], side, audited.upto).where(~f.col(f"__{side}_matched"))
        rows[side] = rows[side].union(alone)
        waiting = waiting.unionByName(_joined(audited, join, rows), allowMissingColumns=True)
    return waiting


def _marked_none(like: DataFrame, side: str) -> DataFrame:
    none = like.where(f.lit(False))
    return none.select("*", f.lit(False).alias(f"__{side}_old"), f.lit(False).alias(f"__{side}_matched"))


def _dropped(audited: Audited, new: dict[str, DataFrame]) -> DataFrame:
    """As many rows as were late, without values: they were never joined."""
    nothing = [f.lit(None).cast(field.dataType).alias(field.name) for field in audited.frame.schema.fields]
    left, right = (rows.where("__late").select(*nothing) for rows in new.values())
    return left.unionAll(right)
