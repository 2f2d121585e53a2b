"""The stages of a drill: its course as bars, from one labelled moment to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from streamwarden.drills.reporting.timeline import Moment, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The time from one moment of a drill to the next.

    Args:
        phase: how the stream stands meanwhile.
        lasted: seconds; None: the moment is the last one.
        percent: of the longest stage; at least 1, so that a bar of it can be seen.
    """

    moment: Moment
    phase: Phase
    lasted: float | None
    percent: float


def stages(moments: Sequence[Moment]) -> list[Stage]:
    """The stages between the moments that have a label; none for fewer than two."""
    labelled = [moment for moment in moments if moment.label]
    waits = [max(0.0, after.at - before.at) for before, after in pairwise(labelled)]
    if not waits:
        return []
    phases = accumulate(labelled, lambda phase, moment: moment.phase or phase, initial=Phase.UP)
    next(phases)
    longest = max(waits) or 1.0
    return [
        Stage(moment=moment, phase=phase, lasted=wait, percent=max(1.0, 100 * (wait or 0.0) / longest))
        for moment, phase, wait in zip(labelled, phases, [*waits, None], strict=True)
    ]
