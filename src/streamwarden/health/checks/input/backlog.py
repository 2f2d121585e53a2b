"""Backlog: seconds of work that wait in front of the stream."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import PROGRESS_STALLED, STANDING_STILL
from streamwarden.health.signals.freshness import HISTORY, is_recent, one_batch, standing, still_holds
from streamwarden.health.signals.hysteresis import MEMORY
from streamwarden.health.signals.series import batch_seconds, current_batches, reports
from streamwarden.health.signals.stopped import is_down, is_stopped
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, WaitingInput, Window
from streamwarden.progress import Progress, offset_value
from streamwarden.units import format_count, format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Seconds of work that wait, from the best source that is available."""
    if is_stopped(window):
        return CHECK.verdict(window, Status.OK, *_until_started(window.waiting))
    longest = one_batch(window, thresholds)
    measured = _by_commit(window, longest) or _by_input(window, longest)
    estimate = measured or _by_offsets(window) or _by_rates(window)
    if estimate is None:
        reason = (
            "neither the input folder, nor the newest offsets of the sources, nor the rates show how much input waits"
        )
        return CHECK.verdict(window, Status.UNKNOWN, reason)
    seconds, how, evidence = estimate
    value = round(seconds, 6)
    limits_in_force = thresholds.of(CHECK.name)
    near = CHECK.shown(value, limits_in_force)
    behind = f"{near if near != CHECK.unit.show(value) else format_duration(value)} of work behind: " if value else ""
    reason = f"{behind}{how} ({CHECK.limits_text(limits_in_force)})"
    advice = _STANDS if is_down(window) or standing(window) > longest else None
    verdict = CHECK.verdict(window, CHECK.grade(value, limits_in_force), reason, value, evidence, advice)
    if measured is None and verdict.status is Status.OK and not _reported_lately(window, thresholds):
        return replace(
            verdict, status=Status.UNKNOWN, reason=f"the newest report is too old to show what waits: {reason}"
        )
    return still_holds(window, thresholds, verdict)


def _reported_lately(window: Window, thresholds: Thresholds) -> bool:
    """Whether the newest report is current: no report shows what arrived after it."""
    newest = reports(window, 1)
    return bool(newest) and is_recent(window, thresholds, newest[-1].at + newest[-1].duration_ms / 1000)


def _until_started(waiting: WaitingInput | None) -> tuple[str, float, dict[str, object]]:
    """Reason, value and evidence for a stream that is stopped: input may wait then."""
    if waiting is None:
        return "not running: input waits until the stream is started", 0.0, {}
    what = f"{waiting.what}s"
    return (
        f"not running: {waiting.count:,} {what} wait until the stream is started",
        0.0,
        {f"waiting_{what}": waiting.count},
    )


_STANDS: Final = (
    "The stream is not slow, it stands still: see why (`driver_down`, `progress_stalled`). Once it runs at the speed "
    "that it had, it needs this long to catch up."
)

Found = tuple[float, str, dict[str, object]]


def _by_commit(window: Window, longest: float) -> Found | None:
    """In real-time mode: the age, at the last commit, of the oldest record that the commit did not reach.

    The running batch reads what came since then, and its progress is not recorded until it ends. If the batch lasts
    longer than usual, everything that it should have committed counts as behind.
    """
    waiting, log = window.waiting, window.log
    if window.spec.trigger.real_time is None or window.driver_alive is False:
        return None
    if waiting is None or log is None or log.committed_at is None:
        return None
    if waiting.count and waiting.since is None:
        return None
    behind = 0.0 if waiting.since is None else max(0.0, log.committed_at - waiting.since)
    overdue = max(0.0, standing(window) - longest)
    how = (
        f"the commit of batch {log.committed} left records of that age"
        if behind
        else "each commit reaches the newest record"
    )
    if overdue:
        behind += overdue
        how = f"the commit after batch {log.committed} is {format_duration(overdue)} overdue"
    evidence: dict[str, object] = {
        f"uncommitted_{waiting.what}s": waiting.count,
        "committed_s_ago": max(0.0, window.now - log.committed_at),
    }
    return behind, how, evidence


def _by_input(window: Window, longest: float) -> Found | None:
    """Waiting files or records, divided by the number that the recent batches read in a second, up to now."""
    waiting = window.waiting
    if waiting is None:
        return None
    if waiting.count == 0:
        return 0.0, f"every input {waiting.what} is read", {f"waiting_{waiting.what}s": 0}
    fed = (batch for batch in reversed(current_batches(window)) if batch.progress is None or batch.progress.rows)
    seconds = sum(batch_seconds(list(islice(fed, waiting.planned_batches))))
    if not waiting.planned or seconds <= 0:
        return None
    # Time in which nothing is committed says nothing about the speed: an average over it calls a dead stream slow.
    stood = standing(window)
    rate = waiting.planned / seconds
    # With a limit, a slow trigger leaves the stream waiting between batches: it cannot read faster, and what the next
    # batch reads is not behind. Without a limit the next batch reads everything.
    trigger, next_in = window.spec.trigger.interval or 0.0, 0.0
    if window.spec.source.limit is not None and trigger * waiting.planned_batches > seconds:
        rate, next_in = waiting.planned / (trigger * waiting.planned_batches), trigger
    evidence: dict[str, object] = {
        f"waiting_{waiting.what}s": waiting.count,
        "waiting_bytes": waiting.size,
        "oldest_waits_s": None if waiting.since is None else max(0.0, window.now - waiting.since),
        f"{waiting.what}s_per_second": rate,
        "batches": waiting.planned_batches,
        "uncommitted_s": stood,
    }
    if waiting.parts:
        evidence["waiting_by_partition"] = dict(waiting.parts)
    what = f"{waiting.what}s"
    behind = max(0.0, waiting.count / rate - next_in)
    read = f"the stream reads {rate:.3g} {what}/s"
    if is_down(window):
        read = f"no driver runs, and while one did, the stream read {rate:.3g} {what}/s"
    elif stood > longest:
        read = f"nothing was committed for {format_duration(stood)}, and before, the stream read {rate:.3g} {what}/s"
    return behind, f"{waiting.count:,} {what} wait, {read}", evidence


def _by_offsets(window: Window) -> Found | None:
    """(newest offsets - offsets of the batch) / rows processed a second, for sources that report `latestOffset`."""
    progress = reports(window, MEMORY)
    if not progress:
        return None
    lags = [_lag(source.latest_offset, source.end_offset) for source in progress[-1].sources]
    measured_lags = [lag for lag in lags if lag is not None]
    if not lags or len(measured_lags) < len(lags):
        return None
    behind = sum(measured_lags)
    if behind == 0:
        return 0.0, "the newest offsets of the sources are read", {"rows_behind": 0}
    rate = _processed(progress)
    if not rate:
        return None
    evidence: dict[str, object] = {"rows_behind": behind, "rows_per_second": rate, "batch": progress[-1].batch_id}
    return behind / rate, f"{behind:,} rows wait, the stream processes {rate:,.0f} rows/s", evidence


def _by_rates(window: Window) -> Found | None:
    """How far processing fell behind input within the window: a queue that grows by duration - interval a batch.

    rows / `processedRowsPerSecond` is the time a batch took, rows / `inputRowsPerSecond` the time its rows took to
    arrive. With a limit for each batch the input rate shows what was read, not what arrived, so it is not used.
    """
    if window.spec.source.limit is not None or window.spec.trigger.available_now:
        return None
    queue, used = 0.0, 0
    for report in reports(window, 5 * MEMORY):
        if report.rows and report.input_rows_per_second and report.processed_rows_per_second:
            queue += report.rows / report.processed_rows_per_second - report.rows / report.input_rows_per_second
            queue, used = max(0.0, queue), used + 1
    if used < 2:
        return None
    how = "input arrived faster than it was processed" if queue else "input is processed as fast as it arrives"
    return queue, f"{how} (over {format_count(used, 'batch')})", {"batches": used}


def _processed(found: Sequence[Progress]) -> float:
    """Rows a second, while batches ran."""
    rows = sum(report.rows for report in found)
    seconds = sum(report.duration_ms for report in found if report.rows) / 1000
    return rows / seconds if seconds else 0.0


def _lag(latest: Any, end: Any) -> int | None:
    """Rows between two offsets: numbers, or Kafka's {topic: {partition: offset}}, also as JSON text."""
    latest, end = offset_value(latest), offset_value(end)
    if isinstance(latest, int) and isinstance(end, int):
        return max(0, latest - end)
    if isinstance(latest, Mapping) and isinstance(end, Mapping) and latest:
        lags = [_lag(value, end.get(key, {} if isinstance(value, Mapping) else 0)) for key, value in latest.items()]
        return None if any(lag is None for lag in lags) else sum(lag for lag in lags if lag is not None)
    return None


CHECK = Check(
    name="backlog",
    title="Backlog",
    unit=ValueUnit.SECONDS,
    target="< 10 minutes of work",
    thresholds=limits(600.0, 3600.0, ValueUnit.SECONDS, "work that waits, at the current speed"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=(*STANDING_STILL, PROGRESS_STALLED),
    raise_after=1,
    reads=(
        "In real-time mode: the time of the last commit - the timestamp of the oldest record that it did not reach, "
        "as the broker reports it. Otherwise, or if the broker does not report it, the first of these that is known: "
        "(1) for a file source, the files of the input folder that `sources/0` of the checkpoint does not name / the "
        "files in a second of the recent batches (with a limit for each batch, the pauses of the trigger are included "
        "and what the next batch reads is subtracted); for a topic, the records that the newest `offsets/` does not "
        "reach, as the broker reports them / the records in a second; (2) for sources that report `latestOffset`, "
        "`latestOffset` - `endOffset` in rows / the rows in a second of the newest 20 reports; (3) without a limit for "
        "each batch, the queue q = max(0, q + numInputRows / `processedRowsPerSecond` - numInputRows / "
        "`inputRowsPerSecond`) over the newest 100 reports. Durations are wall time, so they are not divided. Speeds "
        "are those of the recent batches: time in which nothing was committed does not count. A stream "
        "that was stopped on request, or should be stopped, is OK. So is an `available_now` stream between two runs."
    ),
    unknown=(
        "The input is not a folder, the sources report no newest offset, and batches have a limit (so the input rate "
        "shows what was read, not what arrived). Or files wait, and no batch shows how fast they are read. Or offsets "
        f"and rates are older than two minutes and a batch. {HISTORY}"
    ),
    advice=(
        "The stream reads more slowly than data arrives. See `batch_longer_than_trigger` and `checkpoint_duration` for "
        "the cause. Raise the limit for each batch, or give the stream more cores. At the current speed it needs this "
        "long to catch up."
    ),
    source="Design of Streamwarden; the queue is Lindley's recursion.",
)
