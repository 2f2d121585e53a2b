"""Progress stalled: there is work and no batch of it has been committed for too long."""

from dataclasses import dataclass

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import PROGRESS_STALLED, STANDING_STILL
from streamwarden.health.signals.freshness import (
    ENOUGH,
    MEDIANS,
    RECENT_BATCHES,
    found_at,
    is_recent,
    one_batch,
    rhythm,
)
from streamwarden.health.signals.series import FRESH
from streamwarden.health.signals.stopped import has_ended, is_down, is_stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import DRIVERS_SINCE, Probed, Window
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.units import format_duration


@dataclass(frozen=True, slots=True)
class _Stuck:
    """Since when (Unix seconds) work has waited, and what was observed; `since` None: nothing waits.

    `no_input`: the input was checked, and none waits.
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
        memory = {"idle": True} if stuck.no_input else {"found_at": found_at(window)}
        return CHECK.verdict(window, Status.OK, stuck.what, 0.0, memory)
    allowed, proof = patience(window, thresholds)
    if is_down(window):
        # no batch runs that could be long: only a restart is pending
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
    """The window in seconds, max(trigger, p95 batch) x (tolerated + 2), at least `least`; and the numbers behind it.

    A batch that contains an outage or a restart is not in p95, and p95 counts as at most `longest_batch`. Until three
    batches are completed there is no p95, and a first batch may take `first_batch`. The first batch of a driver may
    take as long as the pause before it, at most `first_batch`. Neither applies in real-time mode, where a batch lasts
    `real_time`, whatever it reads.
    """
    limits_in_force, batches = thresholds.of(CHECK.name), rhythm(window, thresholds)
    longest = one_batch(window, thresholds)
    allowed = max(limits_in_force["least"], longest * (limits_in_force["tolerated"] + 2))
    if window.spec.trigger.real_time is None:
        first = limits_in_force["first_batch"]
        # a driver's first batch reads what arrived while no driver ran
        allowed = max(allowed, first if batches.completed < ENOUGH else min(first, _pause(window)))
    return allowed, {
        "trigger_s": window.spec.trigger.interval or 0.0,
        "p95_batch_s": batches.p95,
        "median_batch_s": batches.median,
        "longest_batch_s": batches.longest,
        "completed_batches": batches.completed,
        "disturbed_batches": batches.left_out,
    }


def _pause(window: Window) -> float:
    """Seconds without a driver before this one, until it has committed a batch."""
    if not window.drivers or window.log is None:
        return 0.0
    launched, committed_at = window.drivers[-1].launched_at, window.log.committed_at or 0.0
    if committed_at >= launched:
        return 0.0
    if len(window.drivers) > 1:
        end = window.drivers[-2].exit
        return max(0.0, launched - end.ended_at) if end is not None else 0.0
    # the driver that committed before that is no longer in the window
    return launched - committed_at if 0.0 < committed_at < window.now - DRIVERS_SINCE else 0.0


def _stuck(window: Window, thresholds: Thresholds) -> _Stuck | str:
    """The waiting work, or why it is unknown."""
    log = window.log
    driver = window.drivers[-1] if window.drivers else None
    if log is None:
        return "the checkpoint's logs could not be read"
    committed = f"batch {log.committed} was committed" if log.committed is not None else "no batch was ever committed"
    if has_ended(window):
        return _Stuck(None, f"not running: the query has ended, {committed}")
    if is_down(window):
        return _down(driver, wanted=not is_stopped(window))
    if log.planned is None and driver is None:
        return "the stream has never run"
    launched = driver.launched_at if driver is not None else 0.0
    if log.gap > 0:
        # a batch that a restart runs again was planned by an earlier driver: its time starts with the current driver
        since = max(launched, log.planned_at or 0.0)
        return (
            _Stuck(since, f"batch {log.planned} has been running, {committed}") if since else f"{committed}; no times"
        )
    last = max(launched, log.committed_at or 0.0)
    if window.waiting is None:
        # without knowledge of the input, idle and stuck cannot be distinguished
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
        return "the stream has never run" if wanted else _Stuck(None, "not running: the stream should be stopped")
    if driver.exit is None and not wanted:
        return _Stuck(None, "not running: the stream should be stopped; the driver vanished")
    if driver.exit is None:
        return _Stuck(driver.launched_at, "the driver vanished without an exit record and has been gone, at most,")
    if driver.exit.kind in (ExitKind.STOPPED, ExitKind.COMPLETED):
        return _Stuck(None, f"not running: the driver {_how(driver.exit)} ({driver.exit.message or 'no message'})")
    if not wanted:
        return _Stuck(None, f"not running: the stream should be stopped; the driver {_how(driver.exit)}")
    return _Stuck(driver.exit.ended_at, f"not running: the driver {_how(driver.exit)} and has been gone")


def _how(end: ExitRecord) -> str:
    """`failed`, `was killed`: how the driver ended, as the verb of a sentence."""
    return f"was {end.kind}" if end.kind in (ExitKind.KILLED, ExitKind.FENCED) else str(end.kind)


def _quiet(window: Window, thresholds: Thresholds, last: float, committed: str) -> _Stuck | str:
    report = next((batch.progress for batch in reversed(window.batches) if batch.progress is not None), None)
    if report is not None and not report.has_run and window.now - report.at <= FRESH:
        return _Stuck(None, f"idle: {committed}, and a later trigger found no data")
    quiet = window.now - last
    behind = _source_ahead(window)
    if behind:
        return _Stuck(last, f"the source is ahead ({behind}) and no batch was planned, {committed}")
    # the report says that the source had nothing more at its own time
    answered = behind == "" and report is not None and is_recent(window, thresholds, report.at)
    if answered:
        return _Stuck(None, f"idle: {committed}, and the source had nothing more")
    if quiet <= (window.spec.trigger.interval or 0.0):
        return _Stuck(None, f"{committed} less than a trigger ago")
    return (
        f"{committed} {format_duration(quiet)} ago; the source does not show whether input waits, so it is idle or "
        "stuck"
    )


def _source_ahead(window: Window) -> str | None:
    """The sources of the newest report that had input beyond the batch; "" if none, None if they do not report it."""
    report = next((batch.progress for batch in reversed(window.batches) if batch.progress is not None), None)
    sources = [source for source in report.sources if source.latest_offset is not None] if report is not None else []
    if not sources:
        return None
    ahead = [source.description for source in sources if source.latest_offset != source.end_offset]
    return ", ".join(ahead)


CHECK = Check(
    name=PROGRESS_STALLED,
    title="Progress stalled",
    unit=ValueUnit.TIMES,
    target="a batch commits within its window while there is work",
    thresholds=(
        *limits(1.0, 3.0, ValueUnit.TIMES, "waiting time in windows"),
        Threshold("tolerated", 3, ValueUnit.TIMES, "batches that may be missed, as in the window's formula"),
        Threshold("least", 60.0, ValueUnit.SECONDS, "shortest window"),
        Threshold(
            "longest_batch",
            120.0,
            ValueUnit.SECONDS,
            f"ceiling of p95 in the window's formula; {MEDIANS:g} median batches, if they are longer",
        ),
        Threshold(
            "first_batch",
            3600.0,
            ValueUnit.SECONDS,
            f"shortest window until {ENOUGH} batches are completed, and longest window of the first batch after a "
            "pause: a first batch may read a long backlog",
        ),
    ),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=STANDING_STILL,
    reads=(
        "The checkpoint's `offsets/` and `commits/` (newest number and modification time of each), because a long "
        "batch emits no progress report; the driver's record; the input folder of a file source compared with "
        "`sources/0`; otherwise `sources[].latestOffset` compared with `endOffset` of the newest report. A batch "
        "that is planned and not committed has run since the later of its plan and the driver's launch. If no batch "
        "runs and no input waits, the stream is idle, not stuck. Otherwise the input has waited since the latest of "
        "these: the last commit, the launch, the timestamp of the oldest input, and the first evaluation that found "
        f"input after one that found none. The window is max(trigger, p95 of the last {RECENT_BATCHES} batch "
        "durations) x (`tolerated` + 2), at least `least`. Batches during which a driver began or ended, or a broker "
        "or database was unreachable (`broker_unreachable`, `database_unreachable`), are left out of p95 as long as "
        f"{ENOUGH} others are known. p95 counts as at most `longest_batch` or {MEDIANS:g} median batches, whichever "
        "is longer: with the defaults a stream of short batches and a short trigger has a window of at most 10 "
        "minutes. A driver's first batch reads what arrived while no driver ran, so its window is as long as that "
        "pause, at most `first_batch`. Without a driver only a restart is pending: the window is then at most the "
        "cap of the restart's back-off. In real-time mode, where both logs are written when a batch ends, the "
        "trigger is the length of a batch, and records that arrived since the last commit wait for the next one. The "
        "value is the waiting time in windows. A stream that was stopped on request, or should be stopped, is OK. If "
        "its driver failed, was killed or vanished, the stream has waited since then."
    ),
    unknown=(
        "The checkpoint cannot be read, the stream never ran, or no batch runs and the source does not show whether "
        "input waits. A report that the source had nothing more is valid for two minutes and a batch."
    ),
    advice=(
        "See what the driver does: `streamwarden status`, the end of its driver.log, a thread dump (jstack). If a "
        "batch is only long, use a longer trigger or fewer files for each trigger. If it hangs, restart the stream."
    ),
    source=(
        "Design of Streamwarden; the window's factor leaves room for `tolerated` batches and the two at its edges. "
        "The ceiling is Streamwarden's own. Without it, outages of six minutes gave a stream with a trigger of 5 s a "
        "window of 29 minutes. Five times two minutes are 10 minutes, after which `topic_lag` and `backlog` warn "
        "too, and the default cap of a restart's back-off."
    ),
    essential=True,
)
