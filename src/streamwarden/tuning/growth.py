"""Whether the state grows without end.

State that is new grows as well, until the first rows are old enough to be removed. Growth has no end if no row was
removed, the growth has not slowed down, and nothing will remove rows later: there is no watermark, or it has passed
every event time of the first batch of the history, and neither a TTL nor another bound is declared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.health.signals.forecast import seconds_until, theil_sen
from streamwarden.health.signals.growth import since_resets
from streamwarden.health.signals.series import state_bytes
from streamwarden.progress import Progress
from streamwarden.tuning.history import ENOUGH, History, state_rows

SLOWED: Final = 0.5
"""A second half that grows by less than this share of the first half's pace is about to end its growth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """State that grows.

    Args:
        rows: net new rows a second; bytes: the same in live bytes.
        removed: rows that were removed in the history; batches: how many those are; span: their seconds.
        endless: nothing bounds it. Otherwise the history is too short to tell.
        critical_in: seconds until `state_size.critical` at this pace; None: never.
    """

    rows: float
    bytes: float
    removed: int
    batches: int
    span: float
    endless: bool
    critical_in: float | None


def growth_of(history: History) -> Growth | None:
    """The growth of the state; None: it does not grow, it grows ever more slowly, or the history is too short."""
    reports_with_state = [report for report in history.reports() if report.operators]
    stretches = since_resets([(report.at, float(state_rows(report))) for report in reports_with_state])
    points = stretches[-1] if stretches else []
    reports = reports_with_state[len(reports_with_state) - len(points) :]
    trend = theil_sen(points)
    if trend is None or len(points) < ENOUGH or trend.low <= 0 or _slows_down(points):
        return None
    at = {report.batch_id: report.at for report in reports}
    size = theil_sen([(at[batch], float(value)) for batch, value in state_bytes(reports)])
    removed = sum(operator.rows_removed for report in reports[1:] for operator in report.operators)
    if removed > points[-1][1] - points[0][1]:
        return None  # rows come and go: the number of open keys swings
    limit = history.in_force("state_size")["critical"]
    return Growth(
        rows=trend.slope,
        bytes=max(0.0, size.slope) if size is not None else 0.0,
        removed=removed,
        batches=len(reports),
        span=trend.span,
        endless=not removed and not _bounded_later(history, reports),
        critical_in=None if size is None else seconds_until(limit, size.level, size.slope),
    )


def _slows_down(points: Sequence[tuple[float, float]]) -> bool:
    middle = len(points) // 2
    first, second = theil_sen(points[:middle]), theil_sen(points[middle:])
    return first is None or second is None or second.slope < SLOWED * first.slope


def _bounded_later(history: History, reports: Sequence[Progress]) -> bool:
    """Whether something may remove rows that the history is too short to show."""
    if history.spec.state.ttl is not None or history.spec.state.bounded_by:
        return True
    watermark, oldest = reports[-1].watermark, reports[0].event_time_max
    return watermark is not None and (oldest is None or watermark <= oldest)
