"""When in a batch a kill without a named moment strikes. Pure.

A share from 0 to 1 stands for an instant of a batch: each phase has the same part of the shares, and within a phase the
instants are spread evenly over its usual length, by the stream's own batches. So a phase of milliseconds is hit as
often as one of seconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.drills.records.phases import BatchCourse, BatchPhase, usual_length

_LATEST: Final = 0.6
"""The last part that is aimed at of the usual time before the sink's write, and between it and the commit. These phases
are short: a signal that comes later mostly comes in the next one."""

_CLOSER: Final = 0.5
"""The part of the distance from the phase's begin that is left after each miss."""

_MISSES: Final = 2
"""Misses after which the phase before is aimed at: this one may be shorter than it takes to notice it."""


def phase_of(share: float) -> tuple[BatchPhase, float]:
    """The phase that a share stands for, and how far into it."""
    place = share * len(BatchPhase)
    number = min(int(place), len(BatchPhase) - 1)
    return list(BatchPhase)[number], place - number


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
    _seen: Sequence[BatchCourse] = ()
    _over: bool = False
    _misses: int = -1

    def due_at(self, batch: int, course: BatchCourse) -> float | None:
        """When to strike the running batch, in Unix seconds; None: its phase has not begun, or was over when the batch
        was seen for the first time, or no batch shows yet how long a phase lasts.

        A batch that ends before it was struck is a miss: the next one is struck closer to the begin of the phase.
        """
        if batch != self._batch:
            untried = self._batch is None
            self._batch, self._seen = batch, self.before(batch)
            cold = untried and not any(seen.warm for seen in self._seen)
            self._over = cold or course.is_beyond(self.phase)
            self._misses += not self._over
        if self._over or course.planned_at is None:
            return None
        closer = _CLOSER**self._misses
        if not any(seen.shown for seen in (course, *self._seen)):
            return course.planned_at + self.share * (usual_length(self._seen) or 0.0) * closer
        begin, usual = course.begins(self.phase), usual_length(self._seen, self.phase) or 0.0
        latest = 1.0 if self.phase is BatchPhase.WRITING else _LATEST
        return None if begin is None else begin + self._share_of_phase * latest * usual * closer

    @property
    def phase(self) -> BatchPhase:
        """The phase that is aimed at now."""
        return phase_of(self._share_now)[0]

    @property
    def _share_of_phase(self) -> float:
        return phase_of(self._share_now)[1]

    @property
    def _share_now(self) -> float:
        return max(self.share - max(self._misses, 0) // _MISSES / len(BatchPhase), 0.0)
