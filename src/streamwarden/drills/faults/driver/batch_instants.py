"""When in a batch a kill without a named moment strikes. Pure.

A share from 0 to 1 stands for an instant of a batch: each phase has the same part of the shares, and within a phase the
instants are spread evenly over its usual length, by the stream's own batches. So a phase of milliseconds is hit as
often as one of seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.drills.records.phases import PHASES, BatchCourse, BatchPhase, usual_length

_LATEST: Final = 0.6
"""The last part that is aimed at of the usual time before the sink's write, and between it and the commit. These phases
are short: a signal that comes later mostly comes in the next one."""

_CLOSER: Final = 0.5
"""The part of the distance from the phase's begin that is left after each miss."""

_MISSES: Final = 2
"""Misses after which the phase before is aimed at: this one may be shorter than it takes to notice it."""


def phase_of(share: float) -> tuple[BatchPhase, float]:
    """The phase that a share stands for, and how far into it."""
    place = share * len(PHASES)
    number = min(int(place), len(PHASES) - 1)
    return PHASES[number], place - number


@dataclass(slots=True)
class Aim:
    """Aims at one instant of a batch, in one batch after the other, until one is hit.

    Args:
        share: of the instant.
        before: the newest committed batches, given the batch that runs.
    """

    share: float
    before: Callable[[int], Sequence[BatchCourse]]
    _batch: int | None = None
    _shown: bool = False
    _usual: float = 0.0
    _usual_of_phase: float = 0.0
    _over: bool = False
    _misses: int = -1

    def due_at(self, batch: int, course: BatchCourse) -> float | None:
        """When to strike the running batch, in Unix seconds; None: its phase has not begun, or was over when the batch
        was seen for the first time, or no batch shows yet how long a phase lasts.

        A batch that ends before it was struck is a miss: the next one is struck closer to the begin of the phase.
        """
        if batch != self._batch:
            self._turn_to(batch, course)
        if self._over or course.planned_at is None:
            return None
        closer = _CLOSER**self._misses
        if not (course.shown or self._shown):
            return course.planned_at + self.share * self._usual * closer
        phase, share = phase_of(self._share_now)
        begin, latest = course.begins(phase), 1.0 if phase is BatchPhase.WRITING else _LATEST
        return None if begin is None else begin + share * latest * self._usual_of_phase * closer

    def _turn_to(self, batch: int, course: BatchCourse) -> None:
        """Aim at this batch. What the batches before it show is worked out once: it is asked for every few
        milliseconds."""
        seen, untried = self.before(batch), self._batch is None
        cold = untried and not any(one.warm for one in seen)
        self._batch, self._over = batch, cold or course.is_beyond(self.phase)
        self._misses += not self._over
        self._shown = any(one.shown for one in seen)
        self._usual, self._usual_of_phase = usual_length(seen) or 0.0, usual_length(seen, self.phase) or 0.0

    @property
    def phase(self) -> BatchPhase:
        """The phase that is aimed at now."""
        return phase_of(self._share_now)[0]

    @property
    def _share_now(self) -> float:
        return max(self.share - max(self._misses, 0) // _MISSES / len(PHASES), 0.0)
