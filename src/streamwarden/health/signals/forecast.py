"""Robust trend of a noisy series: Theil-Sen's slope with a distribution-free interval. Pure, standard library only."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST: Final = 16
"""Points that enter the regression: all pairs are compared, so a longer series is thinned to medians of buckets."""
Z_95: Final = 1.959964
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Trend:
    """A line through a series: value(t) = level + slope x (t - at).

    Args:
        slope: median of all pairs' slopes, units a second; low and high: its 95 % interval (Sen, 1968).
        level: value of the line at `at`, the newest point's time.
        points: how many entered, after thinning; span: seconds between first and last.
    """

    slope: float
    low: float
    high: float
    level: float
    at: float
    points: int
    span: float


def theil_sen(series: Sequence[tuple[float, float]]) -> Trend | None:
    """The trend of (Unix time, value) pairs, oldest first; None for fewer than three points or one instant.

    The interval is distribution-free but takes the points as independent; a slowly swinging series is less certain
    than it says. Up to 29 % of the points may be arbitrary before the slope breaks.
    """
    points = thin(series)
    count = len(points)
    if count < 3 or points[-1][0] <= points[0][0]:
        return None
    slopes = sorted(
        (value - earlier) / (at - before)
        for index, (at, value) in enumerate(points)
        for before, earlier in points[:index]
        if at > before
    )
    slope = statistics.median(slopes)
    spread = Z_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = slopes[max(0, math.floor((len(slopes) - spread) / 2))]
    high = slopes[min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))]
    end = points[-1][0]
    level = statistics.median(value + slope * (end - at) for at, value in points)
    return Trend(slope, low, high, level, end, count, end - points[0][0])


def thin(series: Sequence[tuple[float, float]], most: int = MOST) -> list[tuple[float, float]]:
    """At most `most` points: medians (of time and of value) of buckets of equal duration; a short series stays."""
    return list(series) if len(series) <= most else spread_evenly(series, most)


def spread_evenly(series: Sequence[tuple[float, float]], most: int = MOST) -> list[tuple[float, float]]:
    """Medians of buckets of equal duration, so that a dense part of the series counts no more than a sparse one."""
    if not series:
        return []
    start, end = series[0][0], series[-1][0]
    if end <= start:
        return [series[-1]]
    buckets: list[list[tuple[float, float]]] = [[] for _ in range(most)]
    for point in series:
        buckets[min(most - 1, int((point[0] - start) / (end - start) * most))].append(point)
    return [
        (_middle([at for at, _ in bucket]), _middle([value for _, value in bucket])) for bucket in buckets if bucket
    ]


def _middle(values: list[float]) -> float:
    """The upper median: one of the values, and several times faster than `statistics.median`."""
    values.sort()
    return values[len(values) // 2]


def seconds_until(limit: float, level: float, slope: float) -> float | None:
    """Time in which a line at `level` with `slope` (units a second) reaches `limit`; 0 if it has, None if never."""
    if level >= limit:
        return 0.0
    return (limit - level) / slope if slope > 0 else None
