"""Crashes that a restart has cured: no incident is open, but the person on call may want to know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord

RECENT: Final = 3600.0
"""Seconds for which a cured crash is still worth a message: an evaluation that did not run for an hour misses none."""

_CRASHES: Final = frozenset({ExitKind.FAILED, ExitKind.KILLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CuredCrash:
    """A driver that crashed, and the restart that cured it. Times are Unix seconds."""

    stream: str
    driver_id: str
    exit: ExitRecord
    restarted_at: float

    @property
    def seconds(self) -> float:
        """From the crash to the start of the next query."""
        return max(0.0, self.restarted_at - self.exit.ended_at)


def cured_crashes(history: Sequence[DriverRecord], now: float) -> Iterator[CuredCrash]:
    """The crashes of one stream whose next driver started its query within the last `RECENT` seconds.

    Args:
        history: the stream's drivers, oldest first.
    """
    for crashed, following in _pairs(history):
        end, back = crashed.exit, following.started_at
        if end is not None and end.kind in _CRASHES and back is not None and now - back <= RECENT:
            yield CuredCrash(stream=crashed.stream, driver_id=crashed.driver_id, exit=end, restarted_at=back)


def _pairs(history: Sequence[DriverRecord]) -> Iterable[tuple[DriverRecord, DriverRecord]]:
    """Each driver with the first one after it whose query started: those between them crashed before that."""
    for index, driver in enumerate(history):
        following = next((each for each in history[index + 1 :] if each.started_at is not None), None)
        if following is not None:
            yield driver, following
