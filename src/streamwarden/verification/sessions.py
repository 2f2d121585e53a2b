"""The rules of session windows with a watermark in append mode, as Spark defines them, implemented independently.

- A row starts as its own session, [at, at + gap). Sessions of one group that overlap or touch are one session.
- A row is late iff at + gap <= the watermark of the previous batch: its own session would be over, whichever session it
  could have joined.
- When a batch ends, each session whose end <= the batch's watermark is emitted and forgotten. A row that is not late
  and would have joined a forgotten session begins a new one.

All times are Unix milliseconds.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from streamwarden.verification.batches import InputBatch

__all__ = ["SessionOutcome", "SessionWindow", "sessions"]


class TimedRow(Protocol):
    """A row with its time and its group."""

    @property
    def at(self) -> int: ...

    @property
    def group(self) -> Hashable: ...


R = TypeVar("R", bound=TimedRow)


@dataclass(slots=True)
class SessionWindow(Generic[R]):
    """[start, end) of one group; `rows` in no order."""

    group: Hashable
    start: int
    end: int
    rows: list[R]


@dataclass(frozen=True, slots=True)
class SessionOutcome(Generic[R]):
    """The result for all rows.

    Args:
        emitted: (batch, session) in the order of the batches.
        open: sessions that the watermark has not passed.
        late: (batch, row) of the rows that came too late.
    """

    emitted: list[tuple[int, SessionWindow[R]]] = field(default_factory=list)
    open: list[SessionWindow[R]] = field(default_factory=list)
    late: list[tuple[int, R]] = field(default_factory=list)


def sessions(steps: Iterable[InputBatch[R]], gap: int) -> SessionOutcome[R]:
    """Every session of a bounded input, read in `steps`."""
    outcome: SessionOutcome[R] = SessionOutcome()
    living: dict[Hashable, list[SessionWindow[R]]] = {}
    for step in steps:
        for row in step.rows:
            if row.at + gap <= step.closed:
                outcome.late.append((step.batch, row))
            else:
                _join(living.setdefault(row.group, []), SessionWindow(row.group, row.at, row.at + gap, [row]))
        for group in list(living):
            outcome.emitted.extend((step.batch, session) for session in living[group] if session.end <= step.mark)
            living[group] = [session for session in living[group] if session.end > step.mark]
            if not living[group]:
                del living[group]
    outcome.open.extend(session for group in living.values() for session in group)
    return outcome


def _join(sessions: list[SessionWindow[R]], new: SessionWindow[R]) -> None:
    """Add a session to those of its group. It absorbs the sessions that it touches."""
    for session in [session for session in sessions if session.start <= new.end and new.start <= session.end]:
        new.start, new.end = min(new.start, session.start), max(new.end, session.end)
        new.rows += session.rows
        sessions.remove(session)
    sessions.append(new)
