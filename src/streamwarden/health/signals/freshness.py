"""How long a batch usually takes, and whether the newest numbers still describe the stream.

While work waits and nothing is committed, the reports of older batches are out of date: an OK that is based on them
becomes UNKNOWN.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.health.check import Thresholds
from streamwarden.health.check_relations import PROGRESS_STALLED
from streamwarden.health.signals.series import FRESH, batch_seconds, current_batches, percentile
from streamwarden.health.signals.services import outages
from streamwarden.health.signals.stopped import is_down, is_stopped, running_since
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Batch, Service, Window
from streamwarden.units import format_duration

RECENT_BATCHES: Final = 60
"""Batches from which p95 and median are computed."""
ENOUGH: Final = 3
"""Completed batches that p95 needs at least."""
MEDIANS: Final = 3.0
"""The length of a batch counts as at most this many medians, if these are long."""

HISTORY: Final = (
    "It is also UNKNOWN instead of OK while work has waited for two minutes more than a batch takes and nothing was "
    "committed, because the newest reports are then out of date."
)
"""When a check that judges by the reports of batches is UNKNOWN; part of its declaration."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How long the batches of the stream take, seconds.

    Args:
        p95, median: of the completed batches that contain no outage and no restart; p95 of all completed batches if
            there are fewer than three of these. 0 if there are none.
        completed: how many batches were completed; left_out: how many of them contain an outage or a restart.
        longest: the ceiling of p95.
    """

    p95: float
    median: float
    completed: int
    left_out: int
    longest: float

    @property
    def batch(self) -> float:
        """Seconds that a long batch of the stream takes."""
        return min(self.p95, self.longest)


def rhythm(window: Window, thresholds: Thresholds) -> Rhythm:
    """The rhythm of the newest batches; those with an outage or a restart count only if fewer than three others exist.

    A batch that waited for a broker does not show how long the next one may take: with such batches, a stream with
    seven outages of six minutes gave a batch of 5 s a window of 29 minutes.
    """
    least = thresholds.of(PROGRESS_STALLED)["longest_batch"]
    key = f"rhythm, at least {least}"
    if key not in window.derived:
        window.derived[key] = _rhythm(window, least)
    cached: Rhythm = window.derived[key]
    return cached


def _rhythm(window: Window, least: float) -> Rhythm:
    batches = current_batches(window)
    calm = batch_seconds(undisturbed(window, batches))
    completed = batch_seconds(batches)
    used = (calm if len(calm) >= ENOUGH else completed)[-RECENT_BATCHES:]
    # only batches without an outage define a long batch, however few there are
    median = statistics.median(calm[-RECENT_BATCHES:]) if calm else 0.0
    return Rhythm(
        p95=percentile(used, 0.95) if used else 0.0,
        median=median,
        completed=len(completed[-RECENT_BATCHES:]),
        left_out=len(completed) - len(calm),
        longest=max(least, MEDIANS * median),
    )


def one_batch(window: Window, thresholds: Thresholds) -> float:
    """The longer of a trigger and a long batch: seconds for which nothing is committed by design."""
    return max(window.spec.trigger.interval or 0.0, rhythm(window, thresholds).batch)


def undisturbed(window: Window, batches: Sequence[Batch]) -> list[Batch]:
    """The batches during which no driver began or ended, and no service that the stream needs was unreachable."""
    spans = [(outage.since, outage.until) for service in Service for outage in outages(window, service)]
    for driver in window.drivers:
        spans.append((driver.launched_at, driver.launched_at))
        if driver.exit is not None:
            spans.append((driver.exit.ended_at, driver.exit.ended_at))
    begins = [begin for batch in batches for begin in (batch.planned_at, batch.progress and batch.progress.at) if begin]
    first = min(begins, default=0.0)
    spans = [(since, until) for since, until in spans if until > first]
    return [batch for batch in batches if not _contains(batch, spans)] if spans else list(batches)


def _contains(batch: Batch, spans: Sequence[tuple[float, float]]) -> bool:
    times = [at for at in (batch.planned_at, batch.committed_at) if at is not None]
    if batch.progress is not None:
        times += [batch.progress.at, batch.progress.at + batch.progress.duration_ms / 1000]
    if not times:
        return False
    begin, end = min(times), max(times)
    return any(since < end and until > begin for since, until in spans)


def standing(window: Window) -> float:
    """Seconds for which work has waited and nothing was committed, up to now; 0 if no work waits, or if unknown.

    Restarts after a failure do not reset it. Time before the last requested start does not count.
    """
    log = window.log
    if log is None or is_stopped(window):
        return 0.0
    waiting, begun = window.waiting, None
    if log.gap > 0:
        begun = log.planned_at
    elif waiting is not None and waiting.count:
        begun = max(waiting.since or 0.0, found_at(window))
    elif is_down(window) and window.drivers:
        end = window.drivers[-1].exit
        begun = end.ended_at if end is not None else window.drivers[-1].launched_at
    if begun is None:
        return 0.0
    since = max(begun, log.committed_at or 0.0, running_since(window))
    return max(0.0, window.now - since) if since else 0.0


def found_at(window: Window) -> float:
    """The first evaluation after one that found no input, Unix seconds: input cannot have waited longer, whatever its
    timestamps say."""
    before = window.previous.get(PROGRESS_STALLED)
    if before is None:
        return 0.0
    first_at = window.now if before.evidence.get("idle") else before.evidence.get("found_at", 0.0)
    return float(first_at)  # type: ignore[arg-type]


def stale(window: Window, thresholds: Thresholds) -> float:
    """Seconds for which the newest numbers are out of date: work has waited for more than a batch and two minutes."""
    waited = standing(window)
    return waited if waited > one_batch(window, thresholds) + FRESH else 0.0


def still_holds(window: Window, thresholds: Thresholds, verdict: Verdict) -> Verdict:
    """`verdict`, which is based on the newest batches; UNKNOWN instead of OK if these are out of date."""
    if verdict.status is not Status.OK or not (seconds := stale(window, thresholds)):
        return verdict
    reason = (
        f"work has waited for {format_duration(seconds)} and nothing was committed, so this is out of date: "
        f"{verdict.reason}"
    )
    return replace(verdict, status=Status.UNKNOWN, reason=reason, evidence={**verdict.evidence, "old_s": seconds})


def is_recent(window: Window, thresholds: Thresholds, at: float) -> bool:
    """Whether a report of the time `at` is at most a batch and two minutes old."""
    return window.now - at <= one_batch(window, thresholds) + FRESH
