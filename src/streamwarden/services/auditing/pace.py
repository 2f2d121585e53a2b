"""How fast an audit has to read a checkpoint of which Spark purges the oldest batches meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamwarden.units import Seconds

__all__ = ["Pace", "pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How an audit reads what Spark purges meanwhile.

    Args:
        margin: how many of the oldest batches are left out, because Spark purges them while the audit reads.
        share: the part of the time in which the reading runs.
    """

    margin: int
    share: float


def pace(spare: int, period: Seconds, reading: Seconds, share: float) -> Pace:
    """The pace at which the reading ends before Spark purges what it reads: at the `share` that was asked for if the
    spare batches last so long, otherwise at a larger one.

    Args:
        spare: kept batches that the audit may leave out; period: from one batch to the next.
        reading: what the reading needs without pauses.
    """
    slack = spare * period
    if reading <= slack * share:
        return Pace(math.ceil(reading / share / period), share)
    return Pace(spare, reading / slack if reading < slack else 1.0)
