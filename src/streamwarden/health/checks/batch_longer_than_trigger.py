"""Batch longer than trigger: batches take longer than the interval at which they should start."""

from __future__ import annotations

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.freshness import HISTORY
from streamwarden.health.series import reports
from streamwarden.health.settle import MEMORY, judge_series
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Durations of the newest batches in trigger intervals."""
    trigger = window.spec.trigger.interval
    if not trigger:
        return CHECK.verdict(window, Status.OK, "batches start as soon as the one before ended: there is no interval")
    found = reports(window, MEMORY)
    if not found:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report says how long a batch took")
    meant_ms = round((window.spec.trigger.real_time or 0.0) * 1000)
    # in milliseconds: a batch of exactly the interval is exactly 1
    observations = [(each.batch_id, round(max(0, each.duration_ms - meant_ms) / (trigger * 1000), 9)) for each in found]
    evidence: dict[str, object] = {"trigger_s": trigger, "latest_batch_ms": found[-1].duration_ms}
    beyond = " beyond its length" if meant_ms else ""
    what = f"a batch took{beyond}, in intervals of {ValueUnit.SECONDS.show(trigger)},"
    return judge_series(CHECK, window, thresholds, observations, what=what, evidence=evidence)


CHECK = Check(
    name="batch_longer_than_trigger",
    title="Batch longer than trigger",
    unit=ValueUnit.TIMES,
    target="< 1 trigger interval",
    thresholds=limits(1.0, 5.0, ValueUnit.TIMES, "batch duration in trigger intervals"),
    judge=check,
    reads=(
        "`batchDuration` (`durationMs.triggerExecution` in older reports) / the interval of the query's own trigger. "
        "In real-time mode a batch lasts `trigger.real_time` by design: what it takes beyond that, while rows wait, is "
        "divided by it."
    ),
    unknown=f"No progress report is there, or the only one or two are bad. {HISTORY}",
    advice=(
        "The stream no longer keeps its rhythm: give it cores, fewer files or rows per batch, or a longer trigger. "
        "Look at "
        "which phase grew (`durationMs`): `addBatch` is the work itself, `latestOffset` the listing of the source."
    ),
    source="Design of Streamwarden.",
)
