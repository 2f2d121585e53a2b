"""Batch longer than trigger: batches take longer than the interval at which they should start."""

from typing import Final

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import NOT_RUNNING
from streamwarden.health.signals.freshness import HISTORY
from streamwarden.health.signals.hysteresis import MEMORY, judge_series
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.progress import Progress

WARM_UP: Final = 60.0
"""Seconds after the start of a query in which its batches are not judged: classes are loaded, code is compiled, and
what arrived while no driver ran is read."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Durations of the newest batches in trigger intervals."""
    trigger = window.spec.trigger.interval
    if not trigger:
        reason = "each batch starts when the previous one ends: there is no trigger interval"
        return CHECK.not_applicable(window, reason)
    progress = [report for report in reports(window, MEMORY) if not _warms_up(window, report)]
    if not progress:
        reason = "no report of a batch after the first minute of its driver shows how long a batch took"
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    meant_ms = round((window.spec.trigger.real_time or 0.0) * 1000)
    # in milliseconds: a batch of exactly the interval is exactly 1
    observations = [
        (report.batch_id, round(max(0, report.duration_ms - meant_ms) / (trigger * 1000), 9)) for report in progress
    ]
    evidence: dict[str, object] = {"trigger_s": trigger, "latest_batch_ms": progress[-1].duration_ms}
    beyond = " beyond its length" if meant_ms else ""
    what = f"the time of a batch{beyond}, in intervals of {ValueUnit.SECONDS.show(trigger)}, is"
    return judge_series(CHECK, window, thresholds, observations, what=what, evidence=evidence)


def _warms_up(window: Window, batch: Progress) -> bool:
    starts = (driver.started_at for driver in window.drivers if driver.started_at is not None)
    return any(0 <= batch.at - start < WARM_UP for start in starts)


CHECK = Check(
    name="batch_longer_than_trigger",
    title="Batch longer than trigger",
    unit=ValueUnit.TIMES,
    target="< 1 trigger interval",
    thresholds=limits(1.0, 5.0, ValueUnit.TIMES, "batch duration in trigger intervals"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=NOT_RUNNING,
    while_running=True,
    reads=(
        "`batchDuration` (`durationMs.triggerExecution` in older reports) / the interval of the query's own trigger. "
        "In real-time mode a batch lasts `trigger.real_time` by design: the time beyond that, in which rows wait, is "
        "divided by it. Batches of the first minute of a driver do not count: it warms up, and reads what arrived "
        "while no driver ran."
    ),
    unknown=(
        "No progress report describes a batch after the first minute of its driver, or only one or two do, and they "
        f"are bad. {HISTORY}"
    ),
    advice=(
        "The stream no longer keeps up with its trigger: give it more cores, fewer files or rows in each batch, or a "
        "longer trigger. `durationMs` shows which phase grew: `addBatch` is the work itself, `latestOffset` the "
        "listing of the source."
    ),
    source="Design of Streamwarden.",
)
