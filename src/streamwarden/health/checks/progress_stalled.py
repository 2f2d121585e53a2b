"""Progress stalled: there is work and no batch of it has been committed for too long."""

from __future__ import annotations

from dataclasses import dataclass

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.freshness import (
    ENOUGH,
    MEDIANS,
    PROGRESS,
    RECENT_BATCHES,
    found_at,
    is_recent,
    one_batch,
    rhythm,
)
from streamwarden.health.series import FRESH
from streamwarden.health.stopped import has_ended, is_down, stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DRIVERS_SINCE, Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.units import format_duration


@dataclass(frozen=True, slots=True)
class _Stuck:
    """Since when (Unix seconds) work has waited, and what was seen; `since` None: nothing waits.

    `no_input`: the input was looked at, and none waits.
    """

    since: float | None
    what: str
    no_input: bool = False


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long work has waited for a commit, in windows."""
    limits_in_force = thresholds.of(CHECK.name)
    stuck = _stuck(window, thresholds)
    if isinstance(stuck, str):
        return CHECK.verdict(window, Status.UNKNOWN, stuck, evidence={"found_at": found_at(window)})
    if stuck.since is None:
        seen = {"idle": True} if stuck.no_input else {"found_at": found_at(window)}
        return CHECK.verdict(window, Status.OK, stuck.what, 0.0, seen)
    allowed, proof = patience(window, thresholds)
    if is_down(window):
        # no batch runs that could be long: only a restart is waited for
        allowed = min(allowed, max(limits_in_force["least"], window.spec.restart.cap))
    waited = max(0.0, window.now - stuck.since)
    value = round(waited / allowed, 6)
    status = CHECK.grade(value, limits_in_force)
    reason = f"{stuck.what} for {format_duration(waited)}, {value:.3g} x the window of {format_duration(allowed)}"
    log = window.log
    proof |= {"found_at": found_at(window), "waited_s": waited, "window_s": allowed}
    if log is not None:
        proof |= {"planned": log.planned, "committed": log.committed, "planned_at": log.planned_at}
    return CHECK.verdict(window, status, reason, value, proof)


def patience(window: Window, thresholds: Thresholds) -> tuple[float, dict[str, object]]:
    """The window in seconds, max(trigger, p95 batch) x (tolerated + 2), at least `least`; and what it was made of.

    A batch that contains an outage or a restart is not in p95, and no p95 counts for more than `longest_batch`. Until
    three batches are completed there is no p95: a first batch may take `first_batch`. The first one of a driver may
    take as long as nothing ran before it, at most `first_batch`. Neither holds in real-time mode, where a batch lasts
    `real_time`, whatever it finds.
    """
    limits_in_force, batches = thresholds.of(CHECK.name), rhythm(window, thresholds)
    longest = one_batch(window, thresholds)
    allowed = max(limits_in_force["least"], longest * (limits_in_force["tolerated"] + 2))
    if window.spec.trigger.real_time is None:
        first = limits_in_force["first_batch"]
        # a driver's first batch reads what came while nobody ran
        allowed = max(allowed, first if batches.completed < ENOUGH else min(first, _away(window)))
    return allowed, {
        "trigger_s": window.spec.trigger.interval or 0.0,
        "p95_batch_s": batches.p95,
        "median_batch_s": batches.median,
        "longest_batch_s": batches.longest,
        "completed_batches": batches.completed,
        "disturbed_batches": batches.left_out,
    }


def _away(window: Window) -> float:
    """Seconds without a driver before this one, until it has committed a batch."""
    if not window.drivers or window.log is None:
        return 0.0
    launched, committed_at = window.drivers[-1].launched_at, window.log.committed_at or 0.0
    if committed_at >= launched:
        return 0.0
    if len(window.drivers) > 1:
        end = window.drivers[-2].exit
        return max(0.0, launched - end.ended_at) if end is not None else 0.0
    # whoever committed before that is no longer among the drivers
    return launched - committed_at if 0.0 < committed_at < window.now - DRIVERS_SINCE else 0.0


def _stuck(window: Window, thresholds: Thresholds) -> _Stuck | str:
    """What waits, or why that cannot be told."""
    log = window.log
    driver = window.drivers[-1] if window.drivers else None
    if log is None:
        return "the checkpoint's logs could not be read"
    committed = f"batch {log.committed} was committed" if log.committed is not None else "no batch was ever committed"
    if has_ended(window):
        return _Stuck(None, f"not running: the query has ended, {committed}")
    if is_down(window):
        return _down(driver, wanted=not stopped(window))
    if log.planned is None and driver is None:
        return "the stream has never run"
    launched = driver.launched_at if driver is not None else 0.0
    if log.gap > 0:
        # a batch that a restart runs again was planned in an earlier life: its clock starts with this one
        since = max(launched, log.planned_at or 0.0)
        return (
            _Stuck(since, f"batch {log.planned} has been running, {committed}") if since else f"{committed}; no times"
        )
    last = max(launched, log.committed_at or 0.0)
    if window.waiting is None:
        # whether it is idle or stuck cannot be told without a look at its input
        return _quiet(window, thresholds, last, committed)
    if not window.waiting.count:
        return _Stuck(None, f"idle: {committed}, and no input waits", no_input=True)
    unread = "unplanned" if window.spec.trigger.real_time is None else "for the commit of their batch"
    return _Stuck(
        max(last, window.waiting.since or 0.0, found_at(window)),
        f"{window.waiting.count:,} input {window.waiting.what}s have waited {unread}, {committed}",
    )


def _down(driver: DriverRecord | None, *, wanted: bool) -> _Stuck | str:
    if driver is None:
        return "the stream has never run" if wanted else _Stuck(None, "not running: it is wanted stopped")
    if driver.exit is None and not wanted:
        return _Stuck(None, "not running: it is wanted stopped; the driver vanished")
    if driver.exit is None:
        return _Stuck(driver.launched_at, "the driver vanished: it has been gone, at most,")
    if driver.exit.kind in (ExitKind.STOPPED, ExitKind.COMPLETED):
        return _Stuck(None, f"not running: the driver {driver.exit.kind} ({driver.exit.message or 'no message'})")
    if not wanted:
        return _Stuck(None, f"not running: it is wanted stopped; the driver {driver.exit.kind}")
    return _Stuck(driver.exit.ended_at, f"not running: the driver {driver.exit.kind} and has been gone")


def _quiet(window: Window, thresholds: Thresholds, last: float, committed: str) -> _Stuck | str:
    report = next((batch.progress for batch in reversed(window.batches) if batch.progress is not None), None)
    if report is not None and not report.has_run and window.now - report.at <= FRESH:
        return _Stuck(None, f"idle: {committed}, and a trigger since then found no data")
    quiet = window.now - last
    behind = _source_ahead(window)
    if behind:
        return _Stuck(last, f"the source is ahead ({behind}) and no batch was planned, {committed}")
    # that the source had nothing more is an answer of the time of the report
    answered = behind == "" and report is not None and is_recent(window, thresholds, report.at)
    if answered:
        return _Stuck(None, f"idle: {committed}, and the source had nothing more")
    if quiet <= (window.spec.trigger.interval or 0.0):
        return _Stuck(None, f"{committed} less than a trigger ago")
    return (
        f"{committed} {format_duration(quiet)} ago; whether input waits cannot be seen, so idle and stuck look the same"
    )


def _source_ahead(window: Window) -> str | None:
    """What the newest report's sources had beyond the batch; "" if nothing, None if they do not say."""
    report = next((batch.progress for batch in reversed(window.batches) if batch.progress is not None), None)
    told = [each for each in report.sources if each.latest_offset is not None] if report is not None else []
    if not told:
        return None
    ahead = [each.description for each in told if each.latest_offset != each.end_offset]
    return ", ".join(ahead)


CHECK = Check(
    name=PROGRESS,
    title="Progress stalled",
    unit=ValueUnit.TIMES,
    target="a batch commits within its window while there is work",
    thresholds=(
        *limits(1.0, 3.0, ValueUnit.TIMES, "waiting time in windows"),
        Threshold(
            name="tolerated",
            default=3,
            unit=ValueUnit.TIMES,
            meaning="batches that may be missed, as in the window's formula",
        ),
        Threshold(name="least", default=60.0, unit=ValueUnit.SECONDS, meaning="shortest window"),
        Threshold(
            name="longest_batch",
            default=120.0,
            unit=ValueUnit.SECONDS,
            meaning=f"ceiling of p95 in the window's formula; {MEDIANS:g} median batches, if they are longer",
        ),
        Threshold(
            name="first_batch",
            default=3600.0,
            unit=ValueUnit.SECONDS,
            meaning=(
                f"shortest window until {ENOUGH} batches are completed, and the most that a pause gives the first "
                "batch after it: a first batch may read a long backlog"
            ),
        ),
    ),
    judge=check,
    reads=(
        "The checkpoint's `offsets/` and `commits/` (newest number and modification time of each), because a long "
        "batch "
        "emits no progress report at all; the driver's record; the input folder of a file source against "
        "`sources/0`; else `sources[].latestOffset` against `endOffset` of the newest report. A batch that is planned "
        "and not "
        "committed runs since the later of its plan and the driver's launch. With none running, the stream is idle if "
        "no input waits, and idle is not stuck; else that has waited since the latest of the last commit, the launch, "
        "the timestamp of the oldest input, and the first look that found input after one that found none. The window "
        f"is max(trigger, p95 of the last {RECENT_BATCHES} batch durations) x "
        "(`tolerated` + 2), at least `least`. Batches during which a driver began or ended, or a broker or database "
        "was away (`broker_unreachable`, `database_unreachable`), are left out of p95 as long as "
        f"{ENOUGH} others are known. p95 counts as at most `longest_batch` or {MEDIANS:g} median batches, whichever is "
        "longer: with the defaults a stream of short batches and a short trigger has a window of at most 10 minutes. "
        "A driver's first batch reads what came while none ran, and is given as "
        "long, at most `first_batch`. Without a driver only a restart is waited for: the window is then no longer than "
        "the cap of the restart's back-off. In real-time mode, where both logs are written when a batch ends, the "
        "trigger is the length of a batch, and records that came since the last commit wait for the next. "
        "The value is the waiting time in windows. A stream that was stopped on "
        "request, or is wanted stopped, is OK; one whose driver failed, was killed or vanished has waited since then."
    ),
    unknown=(
        "The checkpoint cannot be read, the stream never ran, or nothing runs and it cannot be seen whether input "
        "waits. A report in which the source had nothing more says so for two minutes and a batch."
    ),
    advice=(
        "See what the driver does: `streamwarden status`, the end of its driver.log, a thread dump (jstack). A batch "
        "that "
        "only is long wants a longer trigger or fewer files per trigger; a hung one wants a restart."
    ),
    source=(
        "Design of Streamwarden; the window's factor leaves room for `tolerated` batches and the two at its edges. The "
        "ceiling is Streamwarden's own. Without it, outages of six minutes had taught a stream with a trigger of 5 s a "
        "window of 29 minutes. Five times two minutes are 10 minutes, after which `topic_lag` and `backlog` warn too, "
        "and the default cap of a restart's back-off."
    ),
)
