"""The books of `transformWithState`: the amounts that the stream's file declares (`audit.counted`), by grouping key.

What a job with state of its own does with a row is its own affair. So its declaration says of each amount how much an
input row adds, how much an output row writes, and how much an entry of a state variable holds meanwhile. Of each key,
the amount in the state before and in the input is then that in the output and in the state after.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamwarden.spark.audit.books import Sides, size_of
from streamwarden.spark.audit.context import Audited
from streamwarden.spark.audit.plan import AUDIT, CannotBalance, children, elements, kind, watermarked
from streamwarden.stream.audit import Counted

OPERATORS: Final = ("TransformWithState", "TransformWithStateInPandas", "TransformWithStateInPySpark")

_ABOVE: Final = frozenset({"CollectMetrics", "Project"})
"""Steps above the operator that drop no row."""

_OF_JVM: Final = "TransformWithState"
"""The operator of Scala and Java. A Python one takes the columns of the key twice, and first."""

_TTL: Final = "ttlExpirationMs"
"""Field of a variable's value that expires by itself."""


def sides(audited: Audited) -> Sides:
    """The sides of the books of a query whose last stateful step is `transformWithState`. Raises CannotBalance."""
    counted = audited.spec.audit.counted
    if not counted:
        raise CannotBalance(
            "the job keeps state of its own (transformWithState), and `audit.counted` of the stream's file does not "
            "declare what it counts"
        )
    batch, streaming = _operator(audited.batch), _operator(audited.streaming)
    keys = _keys(batch)
    missing = [key for key in keys if key not in audited.frame.columns]
    if missing:
        raise CannotBalance(f"the output does not have the column {missing[0]}, by which the job groups its rows")
    frames = {
        **_input(audited, counted, keys, kind(batch), streaming),
        "output": _summed(audited.output(), keys, _outputs(counted)),
        "closing": _state(audited, counted, keys, audited.upto),
    }
    if audited.after >= 0:
        frames["opening"] = _state(audited, counted, keys, audited.after)
    return Sides(
        operator="transformWithState",
        frames={
            side: frame.select("*", f.lit(None).cast("bigint").alias("__end_us"), f.lit(1).alias("__groups"))
            for side, frame in frames.items()
        },
        keys=keys,
        amounts=list(counted),
        counts=next((name for name, variable in counted.items() if variable.input == Counted().input), None),
        exclusive=False,
    )


def _operator(plan: Any) -> Any:
    while kind(plan) in _ABOVE:
        plan = children(plan)[0]
    if not kind(plan).startswith("TransformWithState"):
        raise CannotBalance(f"the step {kind(plan)} above transformWithState may drop or change its rows")
    return plan


def _keys(operator: Any) -> list[str]:
    """The columns by which the job groups."""
    if kind(operator) == _OF_JVM:
        return [attribute.name() for attribute in elements(operator.groupingAttributes())]
    shown = [attribute.name() for attribute in elements(children(operator)[0].output())]
    return shown[: operator.groupingAttributesLen()]


def _outputs(counted: Mapping[str, Counted]) -> dict[str, str]:
    return {name: amount.output or f"`{name}`" for name, amount in counted.items()}


def _input(
    audited: Audited, counted: Mapping[str, Counted], keys: Sequence[str], operator: str, streaming: Any
) -> dict[str, DataFrame]:
    """The rows that were in time, and those that were late."""
    marked = watermarked(children(streaming)[0])
    rows = audited.rows_below(operator, repeated=0 if operator == _OF_JVM else len(keys))
    late = f.lit(False)
    if marked:
        late = f.coalesce(f.unix_micros(f.col(f"`{marked[0].name()}`")) <= f.col(f"{AUDIT}.late_us"), f.lit(False))
    tagged = rows.withColumn("__late", late)
    batches = {"__first": f.min(f"{AUDIT}.batch"), "__last": f.max(f"{AUDIT}.batch")}
    amounts = {name: amount.input for name, amount in counted.items()}
    return {
        "input": _summed(tagged.where("NOT __late"), keys, amounts, batches),
        "dropped": _summed(tagged.where("__late"), keys, amounts, batches),
    }


def _state(audited: Audited, counted: Mapping[str, Counted], keys: Sequence[str], batch: int) -> DataFrame:
    """Content of the variables after `batch`: one frame for all of them, since their amounts add up."""
    none = dict.fromkeys(counted, "0")
    frames = [_summed(audited.nothing(), keys, none)]
    for variable in dict.fromkeys(amount.variable for amount in counted.values() if amount.variable is not None):
        held = _entries(audited, variable, keys, batch)
        own = {name: amount.state for name, amount in counted.items() if amount.variable == variable}
        frames.append(_summed(held, [f"__key{index}" for index in range(len(keys))], none | own))
    renamed = [
        frame.select(
            *(f.col(f"`{old}`").alias(key) for old, key in zip(frame.columns, keys, strict=False)),
            *(f.col(f"`{column}`") for name in counted for column in (name, size_of(name))),
        )
        for frame in frames
    ]
    return reduce(lambda one, other: one.unionByName(other), renamed)


def _entries(audited: Audited, variable: str, keys: Sequence[str], batch: int) -> DataFrame:
    """The entries of a variable: the columns `__key0`, … and the fields of its value."""
    raw = audited.state(batch, stateVarName=variable)
    value = next(name for name in ("value", "list_element", "user_map_value") if name in raw.columns)
    fields: Any = raw.schema[value].dataType
    if isinstance(fields, StructType) and _TTL in fields.names:
        raise CannotBalance(f"what the state variable {variable} holds expires by itself (its time to live)")
    held: Any = raw.schema["key"].dataType
    if len(held.names) != len(keys):
        raise CannotBalance(f"the state's keys are ({', '.join(held.names)}), and the job's ({', '.join(keys)})")
    named = [f.col("key").getField(name).alias(f"__key{index}") for index, name in enumerate(held.names)]
    return raw.select(*named, f"{value}.*" if isinstance(fields, StructType) else value)


def _summed(
    frame: DataFrame, keys: Sequence[str], amounts: Mapping[str, str], more: Mapping[str, Column] | None = None
) -> DataFrame:
    """The sums of the amounts by key. Raises CannotBalance for an expression that Spark does not understand."""
    sums = []
    for name, expression in amounts.items():
        try:
            frame.select(f.expr(expression).alias(name))
        except (AnalysisException, ParseException) as error:
            said = str(error).partition("\n")[0]
            raise CannotBalance(f"`audit.counted.{name}` has the expression {expression!r}: {said}") from error
        sums.append(f.coalesce(f.sum(f.expr(expression)), f.lit(0)).alias(name))
        sums.append(f.coalesce(f.sum(f.abs(f.expr(expression).cast("double"))), f.lit(0.0)).alias(size_of(name)))
    more = more or {}
    grouped = frame.groupBy(*(f.col(f"`{key}`") for key in keys))
    return grouped.agg(*sums, *(column.alias(name) for name, column in more.items()))
