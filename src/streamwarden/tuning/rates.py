"""The duration of a batch by its rows: a robust line through (rows, seconds)."""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.health.signals.forecast import theil_sen
from streamwarden.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds: a batch of r rows takes `fixed` + r x `per_row`."""

    fixed: float
    per_row: float
    source: str

    def seconds(self, rows: float) -> float:
        return self.fixed + rows * self.per_row


def cost_of_batches(reports: Sequence[Progress]) -> Cost | None:
    """The line through the batches' rows and durations, both parts at least 0.

    Batches of one size do not separate the two parts: then all of a batch counts as its rows, which is the less
    hopeful of the two. None without a row.
    """
    points = sorted((float(report.rows), report.duration_ms / 1000) for report in reports if report.rows > 0)
    if not points:
        return None
    trend = theil_sen(points)
    middle = points[len(points) // 2]
    if trend is None or trend.slope <= 0 or points[-1][0] < 1.5 * points[0][0]:
        source = f"{len(points)} batches of about one size: all of their time is counted as their rows'"
        return Cost(fixed=0.0, per_row=middle[1] / middle[0], source=source)
    fixed = max(0.0, trend.level - trend.slope * trend.at)
    return Cost(fixed=fixed, per_row=trend.slope, source=f"line through rows and durations of {len(points)} batches")
