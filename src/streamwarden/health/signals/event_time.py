"""Leaps of event time: single events that moved the watermark ahead of the clock, or by hours at once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Final

from streamwarden.health.check_relations import WATERMARK_AHEAD
from streamwarden.health.signals.hysteresis import RECENT
from streamwarden.health.signals.series import reports
from streamwarden.health.window import Window
from streamwarden.progress import Progress
from streamwarden.units import HOUR

HOURS: Final = 3.0 * HOUR
"""Seconds that the watermark must gain on the clock in one batch to have jumped."""

UNUSUAL: Final = 10.0
"""How many times more than in any batch before it: a replay of old input gains hours in every batch."""


@dataclass(frozen=True, slots=True)
class Leap:
    """A watermark that one batch moved too far. Times are Unix seconds. It is the evidence of `watermark_ahead`, which
    remembers it: the batch leaves the window.

    Args:
        batch: the batch that read the event; None if it was read before the window began.
        event_at: the newest event time of that batch; None if no report has it.
        before_at: the watermark in force in that batch, None if there was none; after_at: in the next one.
    """

    query_id: str
    batch: int | None
    event_at: float | None
    before_at: float | None
    after_at: float

    def evidence(self) -> dict[str, object]:
        return asdict(self)


def ahead_since(window: Window, allowed: float) -> Leap | None:
    """What moved the watermark more than `allowed` seconds ahead of the clock; None if it is not.

    The last verdict remembers it, as long as the watermark has not gone back behind the clock.
    """
    marked = _marked(window)
    if not marked or not _is_ahead(marked[-1], window.now, allowed):
        return None
    behind = [at for at, mark in enumerate(marked[:-1]) if not _is_ahead(mark, mark.at, allowed)]
    first = behind[-1] + 1 if behind else 0
    remembered = _remembered(window, marked[-1].query_id)
    if first == 0 and remembered is not None:
        return remembered
    before = marked[first - 1] if first else _before_all(window, marked[0])
    return _leap(before, marked[first])


def jump(window: Window) -> Leap | None:
    """The jump at which the watermark still stands, if rows have been dropped as late since then; None without one."""
    marked = _marked(window)
    gains = [_gain(one, other) for one, other in pairwise(marked)]
    standing = [at for at, gain in enumerate(gains) if marked[at + 1].watermark == marked[-1].watermark and gain > 0]
    if not standing or standing[0] < RECENT:
        return None
    at = standing[0]
    unusual = gains[at] > max(HOURS, UNUSUAL * max(gains[:at]))
    dropped = sum(operator.rows_dropped_by_watermark for report in marked[at + 1 :] for operator in report.operators)
    return _leap(marked[at], marked[at + 1]) if unusual and dropped else None


def _marked(window: Window) -> Sequence[Progress]:
    """The reports with a watermark, oldest first."""
    return [report for report in reports(window, len(window.batches)) if report.watermark is not None]


def _is_ahead(report: Progress, at: float, allowed: float) -> bool:
    return (report.watermark or 0.0) - at > allowed


def _gain(one: Progress, other: Progress) -> float:
    """Seconds by which the watermark came forward more than the clock."""
    return (other.watermark or 0.0) - (one.watermark or 0.0) - max(0.0, other.at - one.at)


def _before_all(window: Window, first: Progress) -> Progress | None:
    """The report right before the first one with a watermark: of the batch that read the query's first events."""
    earlier = [report for report in reports(window, len(window.batches)) if report.batch_id < first.batch_id]
    return earlier[-1] if earlier else None


def _leap(before: Progress | None, after: Progress) -> Leap:
    return Leap(
        query_id=after.query_id,
        batch=None if before is None else after.batch_id - 1,
        event_at=None if before is None else before.event_time_max,
        before_at=None if before is None else before.watermark,
        after_at=after.watermark or 0.0,
    )


def _remembered(window: Window, query_id: str) -> Leap | None:
    verdict = window.previous.get(WATERMARK_AHEAD)
    if verdict is None or verdict.evidence.get("query_id") != query_id:
        return None
    try:
        return Leap(**{field.name: verdict.evidence[field.name] for field in fields(Leap)})  # type: ignore[arg-type]
    except KeyError:  # written by another version
        return None
