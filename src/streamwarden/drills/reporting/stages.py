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
        percent: of the longest stage before the stream had caught up; at least 1, so that a bar of it can be seen.
        cut: the stage is longer than that, and its bar is cut: to judge the output takes longer than everything that
            happened to the stream.
    """

    moment: Moment
    phase: Phase
    lasted: float | None
    percent: float
    cut: bool = False


def stages(moments: Sequence[Moment]) -> list[Stage]:
    """The stages between the moments that have a label; none for fewer than two."""
    labelled = [moment for moment in moments if moment.label]
    waits = [max(0.0, after.at - before.at) for before, after in pairwise(labelled)]
    if not waits:
        return []
    phases = [*accumulate(labelled, lambda phase, moment: moment.phase or phase, initial=Phase.UP)][1:]
    ended = Phase.ENDED
    longest = max((wait for wait, phase in zip(waits, phases, strict=False) if phase is not ended), default=0.0)
    return [
        _stage(moment, phase, wait, longest or max(waits) or 1.0)
        for moment, phase, wait in zip(labelled, phases, [*waits, None], strict=True)
    ]


def _stage(moment: Moment, phase: Phase, lasted: float | None, longest: float) -> Stage:
    percent = 100 * (lasted or 0.0) / longest
    return Stage(moment=moment, phase=phase, lasted=lasted, percent=min(100.0, max(1.0, percent)), cut=percent > 100.0)
