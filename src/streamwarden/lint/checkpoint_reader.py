"""Reads the stateful operators of a query that has run from its checkpoint."""

from collections.abc import Mapping
from typing import Final

from streamwarden.checkpoint.diagnosis.report import CheckpointReport, OperatorReport
from streamwarden.lint.facts import Bound, Operator, OperatorKind
from streamwarden.lint.finding import FactOrigin

_KINDS: Final[Mapping[str, OperatorKind]] = {
    "dedupe": OperatorKind.DEDUPLICATION,
    "dedupeWithinWatermark": OperatorKind.DEDUPLICATION,
    "symmetricHashJoin": OperatorKind.JOIN,
    "transformWithStateExec": OperatorKind.PROCESSOR,
    "transformWithStateInPandasExec": OperatorKind.PROCESSOR,
    "transformWithStateInPySparkExec": OperatorKind.PROCESSOR,
    "flatMapGroupsWithState": OperatorKind.GROUP_STATE,
    "applyInPandasWithState": OperatorKind.GROUP_STATE,
}
"""Kinds of operators by their names in a checkpoint; all others aggregate."""
_BY_ITSELF: Final = frozenset({"dedupeWithinWatermark", "sessionWindowStateStoreSaveExec"})
"""Operators that Spark only runs with a watermark, or that close their rows by it."""


_YOUNG: Final = 10
"""Batches within which a watermark may not have moved yet: until an event of each source came, Spark writes 0 for it,
as it does for a query that has none."""


def operators_of(report: CheckpointReport, *, named: bool = False) -> tuple[Operator, ...]:
    """The stateful operators. One without a name (its checkpoint is older than Spark 4, and its schema cannot be read)
    is not judged. `named`: the job's text sets a watermark."""
    watermark: bool | None = report.watermark_ms is not None or named or None
    if watermark is None and (report.position.committed or 0) >= _YOUNG:
        watermark = False
    return tuple(_operator(operator, watermark) for operator in report.operators)


def _operator(report: OperatorReport, watermark: bool | None) -> Operator:
    kind = _KINDS.get(report.name or "", OperatorKind.AGGREGATION)
    bound, why = _bound(report, kind, watermark)
    if report.name is None:
        bound, why = Bound.UNKNOWN, "the checkpoint names no operators, and the state's schema cannot be read"
    return Operator(
        kind=kind,
        name=report.name or "an operator without a name",
        bound=bound,
        why=why,
        origin=FactOrigin.CHECKPOINT,
        where=f"state/{report.operator}",
    )


def _bound(report: OperatorReport, kind: OperatorKind, watermark: bool | None) -> tuple[Bound, str]:
    if kind is OperatorKind.PROCESSOR:
        return _processor(report)
    if kind is OperatorKind.GROUP_STATE:
        return Bound.UNKNOWN, "its timeout is not in the checkpoint"
    keys = [key for schema in report.schemas for family in schema.families for key in family.key]
    if kind is OperatorKind.AGGREGATION and report.schemas and not keys:
        return Bound.ONE_ROW, "its key has no fields"
    if watermark is None:
        return Bound.UNKNOWN, "the query is new: no event has moved a watermark yet, if it has one"
    if not watermark:
        return Bound.NONE, "the query has committed without a watermark, so nothing ever leaves its state"
    windowed = any(key.partition(" ")[0] in ("window", "session_window") for key in keys)
    if report.name in _BY_ITSELF or windowed:
        return Bound.WATERMARK, "the query has a watermark, and its key is a window"
    return Bound.UNKNOWN, "the query has a watermark; whether this operator uses it is not in the checkpoint"


def _processor(report: OperatorReport) -> tuple[Bound, str]:
    families = [family for schema in report.schemas for family in schema.families]
    variables = [family for family in families if family.kind is not None]
    if variables and all("expires" in (family.kind or "") for family in variables):
        return Bound.TTL, "all its state variables have a time to live"
    if any(family.name.startswith("$") and "Timers" in family.name for family in families):
        return Bound.UNKNOWN, "it may register timers; whether they clear its state is not in the checkpoint"
    if variables:
        names = ", ".join(variable.name for variable in variables)
        return Bound.NONE, f"it has neither timers nor a time to live for {names}"
    return Bound.UNKNOWN, "its state variables are not in the checkpoint"
