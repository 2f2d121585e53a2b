"""State cleanup time: the wall time a batch spends on removing expired state."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.freshness import HISTORY
from streamwarden.health.signals.hysteresis import MEMORY, judge_series
from streamwarden.health.signals.series import cores, reports, wall_times
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Wall time of the newest batches' removals against the documented limits."""
    progress = reports(window, MEMORY)
    if not progress:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report shows how long removing state took")
    last = progress[-1]
    if not last.operators:
        return CHECK.not_applicable(window, "the query keeps no state", 0.0)
    times = wall_times(window.spec, progress, "removal_ms")
    observations = [(report.batch_id, seconds) for report, seconds in zip(progress, times, strict=True)]
    evidence: dict[str, object] = {
        "allRemovalsTimeMs_sum_over_tasks": sum(operator.removal_ms for operator in last.operators),
        "rows_removed": sum(operator.rows_removed for operator in last.operators),
        "cores": cores(window.spec),
    }
    what = "removing state of a batch took"
    return judge_series(CHECK, window, thresholds, observations, what=what, evidence=evidence)


CHECK = Check(
    name="state_cleanup_time",
    title="State cleanup time",
    unit=ValueUnit.SECONDS,
    target="< 5 s",
    thresholds=limits(5.0, 15.0, ValueUnit.SECONDS, "wall time of one batch's removals"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=NOT_RUNNING,
    while_running=True,
    reads=(
        "`stateOperators[].allRemovalsTimeMs`, a sum over the operator's tasks, divided by the actual parallelism, "
        "min(`numShufflePartitions`, cores), summed over operators and capped by `durationMs.addBatch`, as for the "
        "checkpoint duration. A batch that removed nothing counts: it took no time."
    ),
    unknown=f"There is no progress report, or there are only one or two, and they are bad. {HISTORY}",
    advice="Clean up more often with smaller batches; a shorter watermark delay spreads removals over more batches.",
    source="Documented target < 5 s, warning 5-15 s, critical > 15 s.",
)
