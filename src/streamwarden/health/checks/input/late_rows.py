"""Late rows: share of the input that came behind the watermark and was dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING, WATERMARK_AHEAD
from streamwarden.health.signals.event_time import ahead_since, jump
from streamwarden.health.signals.freshness import HISTORY, still_holds
from streamwarden.health.signals.hysteresis import MEMORY, RAISE
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.progress import OperatorProgress, Progress
from streamwarden.units import format_count

_DUPLICATES: Final = "numDroppedDuplicateRows"
"""Spark's count of the rows that a deduplication had already seen: they reached the state and did not change it."""

AHEAD: Final = (
    "Do not lengthen the watermark delay: one event moved the watermark too far, and no delay brings it back. Follow "
    "the advice of `watermark_ahead`."
)
"""The advice while the watermark is wrong, not the rows."""


@dataclass(frozen=True, slots=True)
class _Dropped:
    """The late rows of one batch. `whole`: only late rows reached the state, so `rows` are all of its input."""

    batch: int
    rows: int
    whole: bool


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """The share of recent input that was dropped as late."""
    limits_in_force = thresholds.of(CHECK.name)
    progress = list(islice((report for report in reversed(reports(window, 2 * MEMORY)) if report.rows > 0), MEMORY))
    rows = sum(report.rows for report in progress)
    dropped = [drop for drop in map(_dropped, progress) if drop.rows]
    whole = sorted(drop.batch for drop in dropped if drop.whole)
    few = len(progress) < RAISE or rows < limits_in_force["least_rows"]
    if few and not whole:
        reason = f"too few for a verdict: {format_count(rows, 'row')} in {format_count(len(progress), 'batch')}"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    if not progress[0].operators:
        return CHECK.not_applicable(window, "the query keeps no state, so it drops no late rows", 0.0)
    value = round(sum(drop.rows for drop in dropped) / rows, 9)
    # one odd batch is not a trend: an alarm needs late rows in as many batches as any other check
    status = Status.OK if few or len(dropped) < RAISE else CHECK.grade(value, limits_in_force)
    if whole:
        status = max(status, Status.WARNING, key=lambda grade: grade.rank)
    evidence: dict[str, object] = {
        "dropped": sum(drop.rows for drop in dropped),
        "rows": rows,
        "batches_with_drops": len(dropped),
        "batches_dropped_whole": whole,
    }
    reason = f"{_counted(dropped, rows, len(progress))} ({CHECK.limits_text(limits_in_force)})"
    advice = AHEAD if _leaped(window, thresholds) else None
    return still_holds(window, thresholds, CHECK.verdict(window, status, reason, value, evidence, advice))


def _leaped(window: Window, thresholds: Thresholds) -> bool:
    """Whether the rows are late because one event moved the watermark too far."""
    allowed = thresholds.of(WATERMARK_AHEAD)["warning"]
    return ahead_since(window, allowed) is not None or jump(window) is not None


def _counted(dropped: Sequence[_Dropped], rows: int, batches: int) -> str:
    """How many rows were dropped, and whether the number is exact or a lower bound."""
    total = sum(drop.rows for drop in dropped)
    least = "" if all(drop.whole for drop in dropped) else "at least "
    share = CHECK.unit.show(total / rows)
    text = f"{least}{total:,} of {rows:,} rows ({share}) were dropped as late in {len(dropped)} of {batches} batches"
    whole = [drop for drop in dropped if drop.whole]
    if not whole:
        return text
    newest = max(whole, key=lambda drop: drop.batch)
    return (
        f"batch {newest.batch} kept none of its {newest.rows:,} rows: all rows that reached its state were late; {text}"
    )


def _dropped(report: Progress) -> _Dropped:
    """Spark counts late rows after the partial aggregation, so its number is too low unless all rows were late."""
    counted = sum(operator.rows_dropped_by_watermark for operator in report.operators)
    whole = counted > 0 and not any(map(_kept, report.operators))
    return _Dropped(report.batch_id, report.rows if whole else counted, whole)


def _kept(operator: OperatorProgress) -> int:
    """Rows that reached the operator's state in time."""
    return operator.rows_updated + operator.custom.get(_DUPLICATES, 0)


CHECK = Check(
    name="late_rows",
    title="Late rows dropped",
    unit=ValueUnit.SHARE,
    target="< 0.1 % of the input",
    thresholds=(
        *limits(0.001, 0.01, ValueUnit.SHARE, "share of the input"),
        Threshold("least_rows", 1000, ValueUnit.ROWS, "input rows below which the verdict is UNKNOWN"),
    ),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=(*NOT_RUNNING, WATERMARK_AHEAD),
    while_running=True,
    raise_after=1,
    reads=(
        "`stateOperators[].numRowsDroppedByWatermark`, summed over operators, / `numInputRows`, over the newest 20 "
        "batches with rows; an alarm needs drops in three of them. Spark counts after the partial aggregation, so with "
        "an aggregation the true number is several times higher: the verdict says `at least`. The exact number depends "
        "on the job's windows and on the rows themselves (a row is late if its window's end is at or before "
        "`batchWatermarkMs` of `offsets/` of the batch before). A drill's oracle counts late rows that way; a check "
        "that runs each minute does not read the input. One case is certain without it: a batch with input rows and "
        "late rows that updated no row of state (and found no duplicate, `customMetrics.numDroppedDuplicateRows`) kept "
        "nothing. All of its rows count, and it is a WARNING by itself, however few rows it had."
    ),
    unknown=(
        f"Fewer than three batches or fewer than `least_rows` rows were read, and no batch lost all its rows. {HISTORY}"
    ),
    advice=(
        "Find the producer whose clock or delivery is late, or lengthen the watermark delay (this costs state). Where "
        "`watermark_ahead` alarms too, no delay helps: follow its advice."
    ),
    source="Design of Streamwarden; the counter was measured to be 5-8 times too low after a partial aggregation.",
)
