"""Late rows: share of the input that came behind the watermark and was dropped."""

from __future__ import annotations

from itertools import islice

from streamwarden.health.check import Check, Threshold, Thresholds, Unit, limits
from streamwarden.health.series import reports
from streamwarden.health.settle import MEMORY, RAISE
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Share of recent input that was dropped as late."""
    limits_in_force = thresholds.of(CHECK.name)
    found = list(islice((each for each in reversed(reports(window, 2 * MEMORY)) if each.rows > 0), MEMORY))
    rows = sum(each.rows for each in found)
    if len(found) < RAISE or rows < limits_in_force["least_rows"]:
        reason = f"{rows:,} rows in {len(found)} batches are too few to judge by"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    if not found[0].operators:
        return CHECK.verdict(window, Status.OK, "the query keeps no state: it drops no late rows", 0.0)
    dropped = sum(operator.rows_dropped_by_watermark for each in found for operator in each.operators)
    value = round(dropped / rows, 9)
    # one odd batch is not a trend: an alarm needs late rows in as many batches as any other check
    batches = sum(any(operator.rows_dropped_by_watermark for operator in each.operators) for each in found)
    status = CHECK.grade(value, limits_in_force) if batches >= RAISE else Status.OK
    reason = (
        f"{dropped:,} of {rows:,} rows ({CHECK.unit.show(value)}) were dropped as late in {batches} of {len(found)} "
        f"batches "
        f"({CHECK.limits_text(limits_in_force)})"
    )
    evidence: dict[str, object] = {"dropped": dropped, "rows": rows, "batches_with_drops": batches}
    return CHECK.verdict(window, status, reason, value, evidence)


CHECK = Check(
    name="late_rows",
    title="Late rows dropped",
    unit=Unit.SHARE,
    target="< 0.1 % of the input",
    thresholds=(
        *limits(0.001, 0.01, Unit.SHARE, "share of the input"),
        Threshold(name="least_rows", default=1000, unit=Unit.ROWS, meaning="input rows below which nothing is said"),
    ),
    judge=check,
    reads=(
        "`stateOperators[].numRowsDroppedByWatermark`, summed over operators, / `numInputRows`, over the newest 20 "
        "batches "
        "with rows; an alarm needs drops in three of them. Spark counts after the partial aggregation, so with an "
        "aggregation the true number is several times higher: this is a lower bound."
    ),
    unknown="Fewer than three batches or fewer than `least_rows` rows were read.",
    advice="Lengthen the watermark delay (costs state), or find the producer whose clock or delivery is late.",
    source="Design of Streamwarden; the counter was measured to be 5-8 times too low after a partial aggregation.",
)
