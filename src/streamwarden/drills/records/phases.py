"""The phases of a batch between its plan and its commit, and where in them a strike fell. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

from streamwarden.units import Seconds, format_duration


class BatchPhase(StrEnum):
    """The part of a batch that a strike hit, in the order in which they follow."""

    BEFORE = "before the sink wrote"
    WRITING = "while the sink wrote"
    WRITTEN = "after the sink had written"  # and before the commit


PHASES: Final = tuple(BatchPhase)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCourse:
    """When a batch came to each of its phases, in Unix seconds. None: it had not come so far.

    Args:
        shown: what the sink does can be seen: a function of foreachBatch gets the rows, or the sink has a manifest.
        function: a function got the rows of this batch; then it writes while the function runs.
        wrote: something of the batch has been written where the sink writes.
        warm: the driver that planned it also committed it, and had committed another one before. The first batch of a
            driver takes several times as long.
    """

    planned_at: float | None
    writing_at: float | None = None
    written_at: float | None = None
    committed_at: float | None = None
    shown: bool = False
    function: bool = False
    wrote: bool = False
    warm: bool = True

    @property
    def phase(self) -> BatchPhase | None:
        """The phase in which the batch stands; None: it is not running, or nothing shows it."""
        if self.planned_at is None or self.committed_at is not None or not self.shown:
            return None
        if self.written_at is not None:
            return BatchPhase.WRITTEN
        return BatchPhase.BEFORE if self.writing_at is None else BatchPhase.WRITING

    def is_beyond(self, phase: BatchPhase) -> bool:
        """Whether a later phase has begun."""
        return self.phase is not None and PHASES.index(self.phase) > PHASES.index(phase)

    def begins(self, phase: BatchPhase) -> float | None:
        """When the phase began."""
        return self._edges[PHASES.index(phase)]

    def lasts(self, phase: BatchPhase) -> Seconds | None:
        """How long the phase took; None: it is not over, or was not seen."""
        number = PHASES.index(phase)
        begin, end = self._edges[number : number + 2]
        return None if begin is None or end is None else max(end - begin, 0.0)

    @property
    def _edges(self) -> tuple[float | None, ...]:
        """When each phase began, and when the last one ended."""
        return self.planned_at, self.writing_at, self.written_at, self.committed_at

    @property
    def seconds(self) -> Seconds | None:
        """From the plan to the commit."""
        if self.planned_at is None or self.committed_at is None:
            return None
        return max(self.committed_at - self.planned_at, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StruckBatch:
    """Where in a batch a strike fell.

    Args:
        into: seconds since its plan; usual: seconds from plan to commit of the batches before; None: there were none.
        phase: None: nothing shows what the sink does.
        wrote: something of the batch had been written where the sink writes.
    """

    batch: int
    into: Seconds
    usual: Seconds | None = None
    phase: BatchPhase | None = None
    wrote: bool = False

    @property
    def words(self) -> str:
        """`1.4 s into a batch of 2.0 s, while the sink wrote`; `233 ms into a batch (usually 156 ms)`."""
        usual = "" if self.usual is None else f" of {format_duration(self.usual)}"
        if self.usual is not None and self.usual < self.into:  # this one took longer than those before
            usual = f" (usually {format_duration(self.usual)})"
        phase = "" if self.phase is None else f", {self.phase}"
        return f"{format_duration(self.into)} into a batch{usual}{phase}"


def usual_length(courses: Iterable[BatchCourse], phase: BatchPhase | None = None) -> Seconds | None:
    """The median length of a phase, or of whole batches; None: no batch shows it. Batches that were not warm count only
    if there are no others."""
    known = [
        (course.warm, length)
        for course in courses
        if (length := course.seconds if phase is None else course.lasts(phase)) is not None
    ]
    warm = [length for is_warm, length in known if is_warm]
    return median(warm or [length for _, length in known]) if known else None
