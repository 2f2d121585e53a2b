"""State update latency: update time per updated row."""

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.freshness import HISTORY
from streamwarden.health.signals.hysteresis import MEMORY, judge_series
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Time per updated row of the newest batches, compared with the documented limits."""
    least = thresholds.of(CHECK.name)["least_rows"]
    progress = reports(window, 2 * MEMORY)
    if progress and not progress[-1].operators:
        return CHECK.not_applicable(window, "the query keeps no state")
    if window.spec.trigger.real_time is not None:
        reason = "real-time mode: Spark's timer runs while a task waits for rows, so it shows the length of the batch"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    enough = max(1.0, least)
    observations: list[tuple[int | float, float]] = []
    for report in reversed(progress):
        # the worst operator; the sums over tasks cancel out: task-milliseconds over the rows of the same tasks
        latencies = [op.update_ms / op.rows_updated for op in report.operators if op.rows_updated >= enough]
        if latencies:
            observations.append((report.batch_id, round(max(latencies) / 1000, 9)))
            if len(observations) == MEMORY:
                break
    observations.reverse()
    if not observations:
        which = f"none of {len(progress)} reports has" if progress else "there is no progress report with"
        return CHECK.verdict(window, Status.UNKNOWN, f"{which} at least {least:.0f} updated rows")
    return judge_series(CHECK, window, thresholds, observations, what="updating one row of state took")


CHECK = Check(
    name="state_update_latency",
    title="State update latency",
    unit=ValueUnit.SECONDS,
    target="< 10 ms",
    thresholds=(
        *limits(0.010, 0.050, ValueUnit.SECONDS, "time per updated row"),
        Threshold(
            "least_rows",
            100,
            ValueUnit.ROWS,
            "updated rows below which a batch is not judged: the fixed cost of its tasks would count as latency",
        ),
    ),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=NOT_RUNNING,
    while_running=True,
    reads=(
        "`stateOperators[].allUpdatesTimeMs` / `numRowsUpdated`, the worst operator of each batch. Both are sums "
        "over the same tasks, so the quotient is the mean time that one task spent on one row. Nothing else is "
        "divided. Spark's timer also runs while the operator pulls rows from its input, so the true latency is lower."
    ),
    unknown=(
        "No batch updated `least_rows` rows, or there is no progress report. In real-time mode it is always UNKNOWN, "
        f"because the operator waits for rows for most of the batch. {HISTORY}"
    ),
    advice="Tune the state store (RocksDB with changelog, block cache, write buffers) and give it memory.",
    source="Documented target < 10 ms, warning 10-50 ms, critical > 50 ms.",
)
