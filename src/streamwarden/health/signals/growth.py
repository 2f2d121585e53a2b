"""Whether a noisy series grows clearly: longer than noise, a plateau or a sawtooth can look like growth. Pure.

The newest quarter of an hour may grow while the day before was flat, and the growth of a week may be invisible in an
hour. So the series is judged over several spans, and growth has to be clear over one of them.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.health.signals.forecast import Trend, spread_evenly, theil_sen

SPANS: Final = (7 * 86400.0, 86400.0, 6 * 3600.0, 3600.0, 900.0)
"""Seconds back from the newest point over which growth is judged."""
POINTS: Final = 8
"""Fewer points than this give no reliable trend."""
CLEAR: Final = 4.0
"""Growth within a span is at least this many times the scatter around its trend. Of pure noise, about one series in
some thousands is."""
SLOWED: Final = 0.5
"""Growth that has slowed to less than this share of the whole span's has come to a plateau."""
RESET: Final = 0.5
"""Two values in a row below this share of the one before them are a reset."""
FALL: Final = 0.9
RISE: Final = 1.1
"""A rise by a tenth and a fall by a tenth are a tooth of a sawtooth."""
BEYOND: Final = 1.1
"""Growth is new if it exceeds the highest tooth by a tenth: an evaluation may miss a tooth's very tip."""


class Doubt(StrEnum):
    """Why growth is not clear."""

    MAY_SHRINK = "as far as its scatter tells, it may also shrink"
    SCATTER = "the values scatter more than they grow"
    NEWER_HALF = "the newer half differs: it grows less than half as fast as the whole"
    OLDER_HALF = "the older half did not grow"
    SAWTOOTH = "a sawtooth or a swing: it was as large before, and fell again"


Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Growth:
    """Clear growth. `trend`: over `span` seconds, or over their newest half if growth has slowed since."""

    trend: Trend
    span: float


def clear_growths(points: Points, *, least: float, ceiling: float, slope: float = 0.0) -> Iterator[Growth]:
    """The clear growth over each span, the longest span first.

    Args:
        points: (Unix time, value), oldest first.
        least: seconds of history that growth needs at least.
        ceiling: see `ceiling_of`.
        slope: units a second; a span that cannot have grown half as fast is not looked at, which saves time.
    """
    for stretch in _stretches(points, least):
        values = [value for _, value in stretch]
        if max(values) - min(values) < slope / 2 * (stretch[-1][0] - stretch[0][0]):
            continue
        trend = _clear(stretch, ceiling)
        if isinstance(trend, Trend):
            yield Growth(trend, stretch[-1][0] - stretch[0][0])


def doubt_of(points: Points, *, least: float, ceiling: float) -> Doubt | None:
    """Why the growth over the longest span is not clear; None if it is, or if there is too little history."""
    found = next((_clear(stretch, ceiling) for stretch in _stretches(points, least)), None)
    if not isinstance(found, Doubt):
        return None
    return Doubt.SAWTOOTH if points[-1][1] <= BEYOND * ceiling else found


def _stretches(points: Points, least: float) -> Iterator[Points]:
    """The points since the last reset over each span that has enough of them, the longest span first."""
    stretches = since_resets(points)
    newest = stretches[-1] if stretches else ()
    length = 0
    for span in SPANS:
        stretch = _last(newest, span)
        if len(stretch) < POINTS or stretch[-1][0] - stretch[0][0] < least or len(stretch) == length:
            continue
        length = len(stretch)
        yield stretch


def _last(points: Points, span: float) -> Points:
    """The points of the last `span` seconds, and the one before them."""
    since = points[-1][0] - span if points else 0.0
    return points[max(0, sum(at <= since for at, _ in points) - 1) :]


def ceiling_of(points: Points) -> float:
    """The highest value that the series rose to and then fell from; 0 if it never did.

    Below it, growth is a return to a size that the series had before: a tooth of a sawtooth, or a swing. The fall of
    something that did not rise before, as after a clean-up by hand, counts for nothing.
    """
    highest = 0.0
    low, high = (points[0][1], points[0][1]) if points else (0.0, 0.0)
    for (_, value), (_, following) in zip(points, [*points[1:], *points[-1:]], strict=True):
        if max(value, following) < FALL * high:
            if high > RISE * low:
                highest = max(highest, high)
            low = high = value
        elif value > high:
            high = value
        elif high <= RISE * low:
            low = min(low, value)
    return highest


def _clear(stretch: Points, ceiling: float) -> Trend | Doubt:
    """The trend of a stretch that rises clearly, and still does in its newer half; of that half if it rises less."""
    trend = _rising(stretch)
    if isinstance(trend, Doubt) or trend.points < POINTS:
        return trend if isinstance(trend, Doubt) else Doubt.SCATTER
    middle = (stretch[0][0] + stretch[-1][0]) / 2
    newer = _rising([point for point in stretch if point[0] >= middle])
    if isinstance(newer, Doubt) or newer.slope < SLOWED * trend.slope:
        return Doubt.NEWER_HALF
    older = theil_sen(spread_evenly([point for point in stretch if point[0] <= middle]))
    if older is not None and older.slope <= 0:
        return Doubt.OLDER_HALF
    slower = newer if newer.slope < trend.slope else trend
    return slower if slower.level > BEYOND * ceiling else Doubt.SAWTOOTH


def _rising(points: Points) -> Trend | Doubt:
    """The trend if all of its interval is above 0 and the rise is large compared with the scatter around it."""
    trend = theil_sen(spread_evenly(points))
    if trend is None or trend.low <= 0:
        return Doubt.MAY_SHRINK
    scatter = statistics.median(abs(value - trend.level - trend.slope * (at - trend.at)) for at, value in points)
    return trend if trend.slope * trend.span >= CLEAR * scatter / _MAD else Doubt.SCATTER


_MAD: Final = 0.6745
"""Median absolute deviation of a normal distribution with standard deviation 1."""


def since_resets(points: Points) -> list[Points]:
    """The stretches between resets, oldest first. Two values in a row below half of the one before them are a reset."""
    stretches: list[Points] = []
    begin = 0
    for index in range(1, len(points) - 1):
        limit = RESET * points[index - 1][1]
        if limit > 0 and points[index][1] < limit and points[index + 1][1] < limit:
            stretches.append(points[begin:index])
            begin = index
    return [*stretches, points[begin:]] if points else []
