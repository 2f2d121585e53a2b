"""Crashes that a restart has cured: no incident is open, but the person on call may want to know. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.events import crashed

RECENT: Final = 3600.0
"""Seconds for which a cured crash is still worth a message: an evaluation that did not run for an hour misses none."""

_CRASHES: Final = frozenset({ExitKind.FAILED, ExitKind.KILLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class CuredCrash:
    """A driver that crashed, and the restart that cured it. Times are Unix seconds."""

    driver: DriverRecord
    exit: ExitRecord
    restarted_at: float

    @property
    def seconds(self) -> float:
        """From the crash to the start of the next query."""
        return max(0.0, self.restarted_at - self.exit.ended_at)


def cured_crashes(
    history: Sequence[DriverRecord], events_of: Callable[[str], Iterable[DriverEvent]], now: float
) -> Iterator[CuredCrash]:
    """The crashes of one stream after which a query started within the last `RECENT` seconds.

    Args:
        history: the stream's drivers, oldest first.
        events_of: the events of a driver, by its id: a driver that was stopped by force did not crash.
    """
    for driver, following in _pairs(history):
        end, back = driver.exit, following.started_at
        if end is None or end.kind not in _CRASHES or back is None or now - back > RECENT:
            continue
        if crashed(driver, events_of(driver.driver_id)):
            yield CuredCrash(driver=driver, exit=end, restarted_at=back)


def _pairs(history: Sequence[DriverRecord]) -> Iterable[tuple[DriverRecord, DriverRecord]]:
    """Each driver with the first one after it whose query started: those between them crashed before that."""
    for index, driver in enumerate(history):
        following = next((each for each in history[index + 1 :] if each.started_at is not None), None)
        if following is not None:
            yield driver, following
