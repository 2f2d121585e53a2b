"""Crashes that a restart has cured: no incident is open, but the person on call may want to know. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.driver import DriverRecord, ExitRecord

RECENT: Final = 3600.0
"""Seconds for which a cured crash is still worth a message: an evaluation that did not run for an hour misses none."""


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


def cured_crashes(history: Sequence[DriverRecord], now: float) -> Iterator[CuredCrash]:
    """The crashes of one stream after which a query started within the last `RECENT` seconds, and did not crash too.
    `history`: the stream's drivers, oldest first."""
    for driver, following in _pairs(history):
        end, back = driver.exit, following.started_at
        if end is not None and end.is_failure and back is not None and now - back <= RECENT:
            yield CuredCrash(driver=driver, exit=end, restarted_at=back)


def _pairs(history: Sequence[DriverRecord]) -> Iterable[tuple[DriverRecord, DriverRecord]]:
    """Each driver with the first one after it that worked: those between them crashed before they did."""
    for index, driver in enumerate(history):
        following = next(filter(_worked, history[index + 1 :]), None)
        if following is not None:
            yield driver, following


def _worked(driver: DriverRecord) -> bool:
    """Its query started, and did not fail before its first commit."""
    end = driver.exit
    return driver.started_at is not None and not (end is not None and end.is_failure and end.committed is False)
