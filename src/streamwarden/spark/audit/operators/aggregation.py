"""The books of an aggregation: its groups, with the counts and sums of its output.

Session windows grow and merge from batch to batch, so their books have one entry for all sessions of a key.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from streamwarden.sinks.base import WRITTEN_BY
from streamwarden.spark.audit.books import Sides, size_of
from streamwarden.spark.audit.context import Audited, top
from streamwarden.spark.audit.plan import (
    AUDIT,
    DELAY,
    CannotBalance,
    Catalyst,
    children,
    counts_rows,
    distinct_aggregates,
    elements,
    function_of,
    is_additive,
    is_aggregate,
    is_repeatable,
    kind,
    position,
    substituted,
    within,
)
from streamwarden.spark.internals.plans import analyzed

OPERATORS: Final = ("Aggregate",)


@dataclass(frozen=True, kw_only=True)
class Aggregation:
    """An aggregation by its plan.

    Args:
        grouping: what it groups by; marked: whether that has a watermark.
        aggregates: in the order in which the state holds their buffers.
        keys: columns of the output that follow from the group; amounts: those whose values add up.
        left_out: the other columns, with the reason.
        session: position of the session window in `grouping`; None: it has none.
    """

    catalyst: Catalyst
    grouping: Sequence[Any]
    marked: Sequence[bool]
    aggregates: Sequence[Any]
    keys: Mapping[str, Any]
    amounts: Mapping[str, Any]
    left_out: Mapping[str, str]
    session: int | None

    def end(self, column: Callable[[int], Column]) -> Column | None:
        """Time at which a group is closed, Unix microseconds; None if no watermark closes it.

        Args:
            column: the value of the grouping expression at a position.
        """
        for index, (expression, marked) in enumerate(zip(self.grouping, self.marked, strict=True)):
            if marked:
                value = column(index)
                return f.unix_micros(value.getField("end") if kind(expression.dataType()) == "StructType" else value)
        return None

    @property
    def identified(self) -> bool:
        """Whether the key columns of the output tell the groups apart."""
        if self.session is not None:
            return False
        plain = [children(key)[0] if kind(key) == "Alias" else key for key in self.keys.values()]
        bounds = [children(part)[0] for part in plain if kind(part) == "GetStructField"]  # of a window
        return all(position(expression, [*plain, *bounds]) is not None for expression in self.grouping)


def read(audited: Audited) -> Aggregation:
    """The aggregation of the query. Raises CannotBalance if it is not the last step."""
    catalyst = audited.catalyst
    node = top(catalyst.merged(audited.batch), "Aggregate")
    named = elements(top(catalyst.merged(audited.streaming), "Aggregate").groupingExpressions())
    results = elements(node.aggregateExpressions())
    grouping = elements(node.groupingExpressions())
    session = next((index for index, expression in enumerate(grouping) if _is_session(expression)), None)
    bounds = [] if session is None else [grouping[session]]
    computed = {result.name(): result for result in results if not any(map(is_aggregate, within(result)))}
    fixed = {name: result for name, result in computed.items() if is_repeatable(result)}
    keys = {
        name: result for name, result in fixed.items() if all(position(part, bounds) is None for part in within(result))
    }
    amounts = {result.name(): result for result in results if result.name() not in computed and is_additive(result)}
    others = [result.name() for result in results if result.name() not in {*computed, *amounts}]
    return Aggregation(
        catalyst=catalyst,
        grouping=grouping,
        marked=[
            kind(expression) == "AttributeReference" and expression.metadata().contains(DELAY) for expression in named
        ],
        aggregates=distinct_aggregates(results),
        keys=keys,
        amounts=amounts,
        left_out={
            **dict.fromkeys(others, "neither a count nor a sum, or a rounded one"),
            **dict.fromkeys((name for name in computed if name not in fixed), "has another value each time"),
            **dict.fromkeys((name for name in fixed if name not in keys), "sessions merge from batch to batch"),
        },
        session=session,
    )


def _is_session(expression: Any) -> bool:
    return kind(expression) == "AttributeReference" and expression.metadata().contains("spark.sessionWindow")


def sides(audited: Audited) -> Sides:
    """The sides of the books of a query whose last step is an aggregation. Raises CannotBalance."""
    aggregation = read(audited)
    taken = _input(aggregation, audited.rows_below("Aggregate"))
    frames = _replaced(audited, aggregation, taken) if audited.replaces else _appended(audited, aggregation, taken)
    plain = "windowed aggregation" if any(aggregation.marked) else "aggregation"
    return Sides(
        operator=plain if aggregation.session is None else "session windows",
        frames=frames,
        keys=list(aggregation.keys),
        amounts=list(aggregation.amounts),
        counts=next((name for name, amount in aggregation.amounts.items() if counts_rows(amount)), None),
        exclusive=aggregation.identified,
        left_out=aggregation.left_out,
    )


def _appended(audited: Audited, aggregation: Aggregation, taken: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """A group is written when the watermark has closed it. Until then it is in the state."""
    frames = {
        **taken,
        "output": audited.output().select("*", _or_null(None).alias("__end_us"), f.lit(1).alias("__groups")),
        "closing": _state(aggregation, audited.state(audited.upto)),
    }
    return frames if audited.after < 0 else frames | {"opening": _state(aggregation, audited.state(audited.after))}


def _replaced(audited: Audited, aggregation: Aggregation, taken: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """In output mode update each batch writes the groups of its rows, with all that it has counted of them: so the
    newest row of such a group is what the state held of it before, and the input. If a later batch has replaced the
    row since, the state after the batches shows it.
    """
    key = getattr(audited.spec.sink, "key", ())
    if not replace(
        aggregation, keys={name: expression for name, expression in aggregation.keys.items() if name in key}
    ).identified:
        raise CannotBalance(f"the key of the sink ({', '.join(key)}) does not tell the groups apart")
    names, amounts = list(aggregation.keys), list(aggregation.amounts)
    written_by = f.when(f.col(WRITTEN_BY) <= audited.upto, f.col(WRITTEN_BY))
    newest = audited.written.groupBy(*names).agg(f.max_by(f.struct(*amounts), written_by).alias("row"))
    columns: list[Column | str] = [*names, "row.*", _or_null(None).alias("__end_us"), f.lit(1).alias("__groups")]
    later = _among(newest.where("row IS NULL"), taken["input"], names)
    frames = {
        **{side: frame.withColumn("__end_us", _or_null(None)) for side, frame in taken.items()},
        "output": newest.where("row IS NOT NULL").select(*columns),
        "closing": _among(_state(aggregation, audited.state(audited.upto)), later, names),
    }
    if audited.after >= 0:
        frames["opening"] = _among(_state(aggregation, audited.state(audited.after)), taken["input"], names)
    return frames


def _among(frame: DataFrame, others: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of `frame` whose keys are in `others`."""
    wanted = others.select(*(f.col(f"`{key}`").alias(f"__k{index}") for index, key in enumerate(keys)))
    same = [frame[f"`{key}`"].eqNullSafe(wanted[f"__k{index}"]) for index, key in enumerate(keys)]
    return frame.join(wanted, same or None, "left_semi")


def _input(aggregation: Aggregation, rows: DataFrame) -> dict[str, DataFrame]:
    """The rows that were in time, and those that were late, by group."""
    column = aggregation.catalyst.column
    end = aggregation.end(lambda index: column(aggregation.grouping[index]))
    late = f.lit(False) if end is None else f.coalesce(end <= f.col(f"{AUDIT}.late_us"), f.lit(False))
    grouped = (
        rows.select("*", late.alias("__late"))
        .groupBy(
            "__late",
            *(
                column(expression).alias(f"__g{index}")
                for index, expression in enumerate(aggregation.grouping)
                if index != aggregation.session
            ),
            *(column(expression).alias(name) for name, expression in aggregation.keys.items()),
            _or_null(end if aggregation.session is None else None).alias("__end_us"),
        )
        .agg(
            f.lit(1).alias("__groups"),
            f.min(f"{AUDIT}.batch").alias("__first"),
            f.max(f"{AUDIT}.batch").alias("__last"),
            *(column(amount).alias(name) for name, amount in aggregation.amounts.items()),
            *(_size(aggregation.catalyst, amount).alias(size_of(name)) for name, amount in aggregation.amounts.items()),
        )
    )
    return {"input": grouped.where("NOT __late"), "dropped": grouped.where("__late")}


def _size(catalyst: Catalyst, amount: Any) -> Column:
    """The sum of the absolute values of what an amount adds or subtracts."""
    if not is_aggregate(amount):
        parts = [part for part in children(amount) if any(map(is_aggregate, within(part)))]
        return reduce(lambda one, other: one + other, [_size(catalyst, part) for part in parts])
    if function_of(amount) == "Count":
        return catalyst.column(amount).cast("double")
    value = f.abs(catalyst.column(children(amount.aggregateFunction())[0]).cast("double"))
    if amount.filter().isDefined():
        value = f.when(catalyst.column(amount.filter().get()), value)
    return f.coalesce(f.sum(value), f.lit(0.0))


def _state(aggregation: Aggregation, raw: DataFrame) -> DataFrame:
    """The groups that the state holds, as the output would show them. Raises CannotBalance."""
    buffers = [
        [attribute.name() for attribute in elements(agg.aggregateFunction().aggBufferAttributes())]
        for agg in aggregation.aggregates
    ]
    starts = [0, *accumulate(map(len, buffers))]
    needed = [name for buffer in buffers for name in buffer]
    keys, values = (_fields(raw, part) for part in ("key", "value"))
    groups = "k"
    if aggregation.session is not None:  # the value holds the whole row, and the key only a part of the window
        groups, keys, values = "v", values[: len(aggregation.grouping)], values[len(aggregation.grouping) :]
        starts = [len(aggregation.grouping) + start for start in starts]
    if values != needed or len(keys) != len(aggregation.grouping):
        raise CannotBalance(
            f"the state holds ({', '.join(values)}) for each group of {len(keys)} columns, and the job needs "
            f"({', '.join(needed)}) for {len(aggregation.grouping)}"
        )
    flat = raw.select(_numbered(raw, "key").alias("k"), _numbered(raw, "value").alias("v")).select("k.*", "v.*")
    held = {attribute.name(): attribute for attribute in elements(analyzed(flat).output())}

    def replace(expression: Any) -> Any | None:
        at = position(expression, aggregation.grouping)
        if at is not None:
            return held[f"{groups}{at}"]
        at = position(expression, aggregation.aggregates) if is_aggregate(expression) else None
        return None if at is None else held[f"v{starts[at]}"]

    results = {**aggregation.keys, **aggregation.amounts}
    return flat.select(
        *(
            aggregation.catalyst.column(substituted(result, aggregation.catalyst, replace)).alias(name)
            for name, result in results.items()
        ),
        _or_null(None if aggregation.session is not None else aggregation.end(lambda index: f.col(f"k{index}"))).alias(
            "__end_us"
        ),
        f.lit(1).alias("__groups"),
    )


def _fields(raw: DataFrame, part: str) -> list[str]:
    kept: Any = raw.schema[part].dataType
    return list(kept.names)


def _numbered(raw: DataFrame, part: str) -> Column:
    """A struct of the state with names by position: two aggregates may have buffers of one name."""
    kept: Any = raw.schema[part].dataType
    fields = [StructField(f"{part[0]}{index}", field.dataType) for index, field in enumerate(kept.fields)]
    return f.col(part).cast(StructType(fields))


def _or_null(column: Column | None) -> Column:
    return f.lit(None).cast("bigint") if column is None else column
