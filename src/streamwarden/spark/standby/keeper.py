"""What keeping a standby of one's own and keeping a pool of them have in common: a thread beside a driver that looks
at them, asks for what is missing, and gives them up when nothing is to restart this driver.

The supervisor process prepares them, with its own environment: the one of this process holds what spark-submit added.
"""

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.standby import ANSWERED_WITHIN
from streamwarden.services.fleet.standbys.waiting import WaitingStandby
from streamwarden.spark.driver.control import Ending
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.log import say
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

LOOK_EVERY: Final[Seconds] = 2.0
MEASURE_EVERY: Final[Seconds] = 10.0

FIRST_BATCH_WITHIN: Final[Seconds] = 30.0
"""Seconds after its query's start in which a driver has its first batch; a stream that waits for input has none, and
gets its standby then. Before that, a standby would only slow the start."""

PREPARED_WITHIN: Final[Seconds] = 60.0
"""Seconds until a standby that was asked for must be there, doubled with each that did not come."""

LONGEST_PAUSE: Final[Seconds] = 900.0


@dataclass(frozen=True, slots=True)
class Asked:
    """When a standby was asked for last (monotonic seconds), and how often in a row none came. Pure."""

    at: float = 0.0
    times: int = 0

    def may_ask(self, now: float) -> bool:
        return self.times == 0 or now - self.at > min(PREPARED_WITHIN * 2 ** (self.times - 1), LONGEST_PAUSE)


class Keeper(ABC):
    """Runs on a separate thread; does nothing for a driver that keeps none.

    Args:
        ending: whether the driver is being stopped.
    """

    KEPT: ClassVar[str]
    """What it keeps, for the log."""

    WANTED: ClassVar[str]
    """The file of the driver's folder that asks the supervisor process to prepare one."""

    SERIES: ClassVar[str]
    """The measurement of their memory."""

    def __init__(self, spec: StreamSpec, folder: Path, link: StoreLink, *, ending: Callable[[], bool]) -> None:
        self._spec = spec
        self._folder = folder
        self._link = link
        self._ending = ending
        self._closed = threading.Event()
        self._began = time.monotonic()
        self._committed = False
        self._asked = Asked()
        self._measure_at = 0.0

    @abstractmethod
    def keeps(self) -> bool:
        """Whether this driver keeps any."""

    @abstractmethod
    def look(self) -> None:
        """Look once, and act on what there is."""

    @abstractmethod
    def give_up(self) -> None:
        """Nothing is to restart this driver. Raises OSError."""

    def start(self) -> None:
        if self.keeps():
            threading.Thread(target=self._run, name=f"streamwarden {self.KEPT}", daemon=True).start()

    def committed(self) -> None:
        """A batch was committed."""
        self._committed = True

    def close(self, outcome: ExitRecord, ending: Ending | None) -> None:
        """End the thread; if nothing is to restart this driver, give up what was kept. Never raises."""
        self._closed.set()
        if self.keeps() and not restarts(outcome, ending):
            with contextlib.suppress(OSError):
                self.give_up()

    def turn(self) -> None:
        """`look`, unless the driver is being stopped."""
        if not self._ending():
            self.look()

    def _run(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            try:
                self.turn()
            except Exception as error:  # a defect must not end the thread
                say(f"{self.KEPT}: {type(error).__name__}: {error}")

    def _is_settled(self) -> bool:
        return self._committed or (
            self._link.started is not None and time.monotonic() - self._began > FIRST_BATCH_WITHIN
        )

    def _ask(self) -> None:
        now = time.monotonic()
        if self._asked.may_ask(now):
            (self._folder / self.WANTED).touch()
            self._asked = Asked(now, self._asked.times + 1)

    def _measure(self, used: Callable[[float], float | None]) -> None:
        """Measure their memory now and then. `used`: bytes at a time (Unix seconds), None if they cannot be seen."""
        if time.monotonic() < self._measure_at:
            return
        self._measure_at, at = time.monotonic() + MEASURE_EVERY, time.time()
        value, stream = used(at), self._spec.name
        if value is not None:
            self._link.measure(
                [Measurement(stream=stream, name=self.SERIES, at=at, value=value, unit="bytes", source="driver")]
            )


def restarts(outcome: ExitRecord, ending: Ending | None) -> bool:
    """Whether a supervisor may start a new driver after this end, so that the standby has to stay. Pure."""
    if outcome.kind is ExitKind.STOPPED:
        request = None if ending is None else ending.request
        return request is not None and request.restart
    return outcome.kind in (ExitKind.FAILED, ExitKind.KILLED) and outcome.curable


def is_silent(standby: WaitingStandby, now: float) -> bool:
    """Whether the standby's JVM has answered before, and no longer does."""
    return standby.answered_at is not None and now - standby.answered_at > ANSWERED_WITHIN
