"""The reading speed of an audit, so that it finishes before Spark purges the batches it reads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.units import Seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """Pace of an audit while Spark purges batches.

    Args:
        margin: how many of the oldest batches are left out, because Spark purges them while the audit reads.
        share: the part of the time in which the reading runs.
    """

    margin: int
    share: float


def pace(spare: int, period: Seconds, reading: Seconds, share: float) -> Pace:
    """The pace at which the reading ends before Spark purges its batches: at the `share` that was asked for if the
    spare batches last so long, otherwise at a larger one.

    Args:
        spare: kept batches that the audit may leave out; period: from one batch to the next.
        reading: its duration without pauses.
    """
    slack = spare * period
    if reading <= slack * share:
        return Pace(math.ceil(reading / share / period), share)
    return Pace(spare, reading / slack if reading < slack else 1.0)


def pace_of(times: Sequence[float], last: int | None, reading: Seconds, share: float) -> Pace:
    """The pace for a checkpoint with batches that were committed at `times`, of which the last `last` are audited."""
    kept = len(times)
    if kept < 2 or times[0] == times[-1]:
        return Pace(0, 1.0)
    spare = max((kept - 1) // 2, kept - 1 - (last or kept))
    return pace(spare, (times[-1] - times[0]) / (kept - 1), reading, share)
