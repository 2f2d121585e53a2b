"""Keeps a standby beside a driver: has one prepared, replaces one that no longer fits, and reports which one there is.

The supervisor process starts it, with its own environment: the one of this process holds what spark-submit added.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters import processes
from streamwarden.health.signals.series import STANDBY_BYTES
from streamwarden.health.window import Measurement
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.standby import ANSWERED_WITHIN, STANDBY, StandbyState, is_kept, standby_event
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, changed, dismiss, dismiss_all, waiting
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


class StandbyWatch:
    """Runs on a separate thread; does nothing for a stream without a standby.

    Args:
        ending: whether the driver is being stopped.
    """

    def __init__(self, spec: StreamSpec, folder: Path, link: StoreLink, *, ending: Callable[[], bool]) -> None:
        self._spec = spec
        self._folder = folder
        self._link = link
        self._ending = ending
        self._closed = threading.Event()
        self._began = time.monotonic()
        self._committed = False
        self._asked = Asked()
        self._reported: StandbyState | None = None
        self._measure_at = 0.0

    def start(self) -> None:
        if is_kept(self._spec):
            threading.Thread(target=self._run, name="streamwarden standby", daemon=True).start()

    def committed(self) -> None:
        """A batch was committed."""
        self._committed = True

    def close(self, outcome: ExitRecord, ending: Ending | None) -> None:
        """End the watch, and the standby if nothing is to restart this driver. Never raises."""
        self._closed.set()
        if is_kept(self._spec) and not restarts(outcome, ending):
            with contextlib.suppress(OSError):
                dismiss_all(self._folder.parent, self._folder.name)

    def _run(self) -> None:
        while not self._closed.wait(LOOK_EVERY):
            try:
                self.turn()
            except Exception as error:  # a defect must not end the watch
                say(f"standby: {type(error).__name__}: {error}")

    def turn(self) -> None:
        """Look at the standby once, and act on what there is."""
        if self._ending() or not self._is_settled():
            return
        standby = next(iter(waiting(self._folder.parent, self._folder.name)), None)
        if standby is None:
            self._ask()
        elif changed(standby.record.watched) or is_silent(standby, time.time()):
            dismiss(standby.folder)
        else:
            self._asked = Asked()
            self._measure(standby)
        self._report(standby)

    def _is_settled(self) -> bool:
        return self._committed or (
            self._link.started is not None and time.monotonic() - self._began > FIRST_BATCH_WITHIN
        )

    def _ask(self) -> None:
        now = time.monotonic()
        if self._asked.may_ask(now):
            (self._folder / files.WANTED).touch()
            self._asked = Asked(now, self._asked.times + 1)

    def _measure(self, standby: WaitingStandby) -> None:
        if time.monotonic() < self._measure_at:
            return
        self._measure_at = time.monotonic() + MEASURE_EVERY
        used, at = processes.resident_bytes(standby.process), time.time()
        if used is not None:
            stream, value = self._spec.name, float(used)
            self._link.measure(
                [Measurement(stream=stream, name=STANDBY_BYTES, at=at, value=value, unit="bytes", source="driver")]
            )

    def _report(self, standby: WaitingStandby | None) -> None:
        """Record a change of the standby's state with this driver."""
        state, at = None, time.time()
        if standby is not None:
            pid, ready = standby.process.pid, standby.is_ready(at)
            state = StandbyState(driver_id=standby.folder.name, ready=ready, pid=pid, since=0.0)
        if state != self._reported:
            self._reported = state
            self._link.event(STANDBY, **standby_event(self._folder.name, state, at).detail)


def restarts(outcome: ExitRecord, ending: Ending | None) -> bool:
    """Whether a supervisor may start a new driver after this end, so that the standby has to stay. Pure."""
    if outcome.kind is ExitKind.STOPPED:
        request = None if ending is None else ending.request
        return request is not None and request.restart
    return outcome.kind in (ExitKind.FAILED, ExitKind.KILLED) and outcome.curable


def is_silent(standby: WaitingStandby, now: float) -> bool:
    """Whether the standby's JVM has answered before, and no longer does."""
    return standby.answered_at is not None and now - standby.answered_at > ANSWERED_WITHIN
