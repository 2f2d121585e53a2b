"""Checkpoint duration: the wall time a batch spends on the WAL, the state commit and the commit log."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.freshness import HISTORY
from streamwarden.health.signals.hysteresis import MEMORY, judge_series
from streamwarden.health.signals.series import checkpoint_seconds, cores, reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Wall time of the newest batches' checkpoints compared with the documented limits."""
    progress = reports(window, MEMORY)
    if not progress:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report shows how long a checkpoint took")
    observations = [
        (report.batch_id, seconds)
        for report, seconds in zip(progress, checkpoint_seconds(window.spec, progress), strict=True)
    ]
    last = progress[-1]
    evidence: dict[str, object] = {
        "walCommit_ms": last.durations_ms.get("walCommit"),
        "commitOffsets_ms": last.durations_ms.get("commitOffsets"),
        "commitTimeMs_sum_over_tasks": sum(operator.commit_ms for operator in last.operators),
        "cores": cores(window.spec),
    }
    return judge_series(CHECK, window, thresholds, observations, what="checkpointing a batch took", evidence=evidence)


CHECK = Check(
    name="checkpoint_duration",
    title="Checkpoint duration",
    unit=ValueUnit.SECONDS,
    target="< 10 s",
    thresholds=limits(10.0, 30.0, ValueUnit.SECONDS, "wall time of one batch's checkpoint"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=NOT_RUNNING,
    while_running=True,
    reads=(
        "`durationMs.walCommit` + `durationMs.commitOffsets`, which are wall time, plus the state commit: "
        "`stateOperators[].commitTimeMs` is a sum over the operator's tasks, so it is divided by the actual "
        "parallelism, min(`numShufflePartitions`, cores), and summed over operators. Cores come from `spark.master` "
        "(`local[n]`), from `spark.cores.max`, or from `spark.executor.instances` x `spark.executor.cores`. If they "
        "are not known, the sum is not divided. The result is capped by `durationMs.addBatch`, which contains the "
        "commit."
    ),
    unknown=f"There is no progress report, or there are only one or two, and they are bad. {HISTORY}",
    advice="Lengthen the checkpoint interval (a longer trigger), or put the checkpoint on faster storage.",
    source="Documented target < 10 s, warning 10-30 s, critical > 30 s.",
    essential=True,
)
