"""Reads what an audit needs out of the plan of a job's query: the operator that keeps state, and the rows below it.

A job's `build` is called with the streaming readers replaced by readers of what the audited batches read. The analyzed
plan of the batch query that it returns has the same operator. Each row carries one more column, AUDIT, from its source
up to the operator: the file that it comes from. It gives the batch that read the row, and so the watermark of the batch
before, which decides whether the row is late.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession

from streamwarden.sources.audited import AUDIT as AUDIT
from streamwarden.sources.audited import CannotBalance as CannotBalance
from streamwarden.spark.internals import classic, plans
from streamwarden.spark.internals.plans import kind as kind

DELAY: Final = "spark.watermarkDelayMs"
"""Metadata of the column that has a watermark, in the plan of a streaming query."""

_THROUGH: Final = frozenset({"CollectMetrics", "EventTimeWatermark", "SubqueryAlias"})
"""Nodes below the operator that neither change nor drop a row."""

_ADDED: Final = frozenset({"Count", "Sum"})
"""Aggregates whose results for two sets of rows add up to the result for both."""


_CLOCKS: Final = frozenset(
    {"CurrentBatchTimestamp", "CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now"}
)
"""Expressions whose value is the time at which they are computed. Spark calls them deterministic."""

_SAME_AGAIN: Final = frozenset({"InputFileBlockLength", "InputFileBlockStart", "InputFileName", "RaiseError"})
"""Expressions that Spark does not call deterministic, and whose value is the same when a file is read again."""


@dataclass(frozen=True)
class Catalyst:
    """Spark's own plans and expressions, as far as an audit uses them."""

    spark: SparkSession

    def plan(self, frame: DataFrame) -> Any:
        """The analyzed plan without aliases of its parts."""
        return plans.without_aliases(frame)

    def merged(self, plan: Any) -> Any:
        """The plan with each projection merged into the projection or aggregation below it."""
        return plans.merged_projections(self.spark, plan)

    def frame(self, plan: Any) -> DataFrame:
        """The rows of a plan."""
        return classic.frame_of_plan(self.spark, plan)

    def column(self, expression: Any) -> Column:
        """An expression over the rows of its plan."""
        return classic.column_of(self.spark, expression)

    def tagged(self, node: Any) -> Any:
        """The plan with the column AUDIT in its output. Raises CannotBalance if a step does not pass it on."""
        if self.tag(node) is not None:
            return node
        name = kind(node)
        below = children(node)
        if name in _THROUGH:
            return self.tagged(below[0])
        if not below:
            return node
        above = [self.tagged(child) for child in below]
        tag = next((attribute for child in above if (attribute := self.tag(child)) is not None), None)
        if name == "Project" and tag is not None:
            return self._logical.Project(self.seq([*elements(node.projectList()), tag]), above[0])
        if name == "Expand" and tag is not None:  # a sliding window: a row becomes one for each of its windows
            projections = [self.seq([*elements(projection), tag]) for projection in elements(node.projections())]
            return self._logical.Expand(self.seq(projections), self.seq([*elements(node.output()), tag]), above[0])
        made = node.withNewChildren(self.seq(above))
        if tag is not None and self.tag(made) is None:
            raise CannotBalance(f"the step {name} below the operator does not pass on which batch read a row")
        return made

    def tag(self, plan: Any) -> Any | None:
        """The attribute AUDIT of a plan's output; None if it has none."""
        return next((attribute for attribute in elements(plan.output()) if attribute.name() == AUDIT), None)

    @property
    def _logical(self) -> Any:
        return plans.logical_nodes(self.spark)

    def seq(self, values: Sequence[Any]) -> Any:
        """A Scala sequence."""
        return plans.scala_seq(self.spark, values)


def elements(seq: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [seq.apply(index) for index in range(seq.size())]


def children(node: Any) -> list[Any]:
    """The children of a plan or an expression."""
    return elements(node.children())


def descended(plan: Any, *names: str) -> Any:
    """The first operator of one of these names on the way down by the first children."""
    while kind(plan) not in names:
        plan = children(plan)[0]
    return plan


def watermarked(plan: Any) -> list[Any]:
    """The attributes of the output that have a watermark, in the plan of a streaming query."""
    return [attribute for attribute in elements(plan.output()) if attribute.metadata().contains(DELAY)]


def within(expression: Any) -> Iterator[Any]:
    """The expression and all its parts."""
    yield expression
    for child in children(expression):
        yield from within(child)


def is_repeatable(expression: Any) -> bool:
    """Whether a second computation over the same row gives the same value."""
    return not any(map(_differs, within(expression)))


def _differs(part: Any) -> bool:
    """Whether the value of this part differs by itself, not because of one of its own parts."""
    own = not part.deterministic() and all(child.deterministic() for child in children(part))
    return kind(part) in _CLOCKS or (own and kind(part) not in _SAME_AGAIN)


def require_repeatable(plan: Any) -> None:
    """Raises CannotBalance if the rows of the plan differ each time that it runs."""
    for expression in elements(plan.expressions()):
        if not is_repeatable(expression):
            raise CannotBalance(f"the job computes {expression.sql()}, which has another value each time")
    for child in children(plan):
        require_repeatable(child)


def is_aggregate(expression: Any) -> bool:
    """Whether it is a call of an aggregate function."""
    return kind(expression) == "AggregateExpression"


def function_of(aggregate: Any) -> str:
    """`Count`, `Sum`, …"""
    return kind(aggregate.aggregateFunction())


_WHOLE: Final = frozenset({"ByteType", "ShortType", "IntegerType", "LongType"})
_FRACTIONS: Final = frozenset({"FloatType", "DoubleType"})
_DECIMAL: Final = "DecimalType"
_NUMBERS: Final = _WHOLE | _FRACTIONS | {_DECIMAL}


def is_additive(expression: Any) -> bool:
    """Whether the results for two sets of rows add up to the result for both: counts, sums, and their differences."""
    parts = children(expression)
    match kind(expression):
        case "Alias" | "UnaryMinus":
            return is_additive(parts[0])
        case "Cast":
            return is_additive(parts[0]) and _keeps_sums(parts[0].dataType(), expression.dataType())
        case "AggregateExpression":
            counted = function_of(expression) in _ADDED and not expression.isDistinct()
            return counted and kind(expression.dataType()) in _NUMBERS
        case "Coalesce":
            return len(parts) == 2 and is_additive(parts[0]) and _is_zero(parts[1])
        case "Add" | "Subtract":
            return all(is_additive(part) for part in parts)
        case _:
            return False


def _keeps_sums(of: Any, to: Any) -> bool:
    """Whether a cast of a sum is the sum of the casts: it does not round."""
    before, after = kind(of), kind(to)
    if after == _DECIMAL:
        return before in _WHOLE or (before == _DECIMAL and bool(of.scale() <= to.scale()))
    return after in _FRACTIONS or (after in _WHOLE and before in _WHOLE)


def _is_zero(expression: Any) -> bool:
    plain = children(expression)[0] if kind(expression) == "Cast" else expression
    return kind(plain) == "Literal" and plain.value() is not None and float(str(plain.value())) == 0


def counts_rows(expression: Any) -> bool:
    """Whether it is `count(*)`."""
    plain = children(expression)[0] if kind(expression) == "Alias" else expression
    if not is_aggregate(plain) or function_of(plain) != "Count" or plain.isDistinct() or plain.filter().isDefined():
        return False
    return all(kind(argument) == "Literal" for argument in children(plain.aggregateFunction()))


def distinct_aggregates(expressions: Sequence[Any]) -> list[Any]:
    """The aggregates in the order in which Spark keeps their buffers: each once, by first occurrence."""
    aggregates: list[Any] = []
    for expression in expressions:
        for part in within(expression):
            if is_aggregate(part) and position(part, aggregates) is None:
                aggregates.append(part)
    return aggregates


def position(expression: Any, known: Sequence[Any]) -> int | None:
    """Index in `known` of an expression with the same meaning; None if there is none."""
    canonical = expression.canonicalized()
    return next((index for index, candidate in enumerate(known) if canonical.equals(candidate.canonicalized())), None)


def substituted(expression: Any, catalyst: Catalyst, replace: Callable[[Any], Any | None]) -> Any:
    """The expression with each part that `replace` knows replaced by what it returns."""
    replacement = replace(expression)
    if replacement is not None:
        return replacement
    parts = children(expression)
    if not parts:
        return expression
    return expression.withNewChildren(catalyst.seq([substituted(part, catalyst, replace) for part in parts]))
