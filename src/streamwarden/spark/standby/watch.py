"""Keeps a standby beside a driver: has one prepared, replaces one that no longer fits, reports which one there is."""

import time
from collections.abc import Callable
from pathlib import Path

from streamwarden.adapters import processes
from streamwarden.health.signals.series import STANDBY_BYTES
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.supervision.standby import STANDBY, StandbyState, is_kept, standby_event
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, changed, dismiss, dismiss_all, waiting
from streamwarden.spark.driver.store_link import StoreLink
from streamwarden.spark.standby.keeper import Asked, Keeper, is_silent
from streamwarden.stream.spec import StreamSpec


class StandbyWatch(Keeper):
    """Keeps the standby of a stream."""

    KEPT = "standby"
    WANTED = files.WANTED
    SERIES = STANDBY_BYTES

    def __init__(self, spec: StreamSpec, folder: Path, link: StoreLink, *, ending: Callable[[], bool]) -> None:
        super().__init__(spec, folder, link, ending=ending)
        self._reported: StandbyState | None = None

    def keeps(self) -> bool:
        return is_kept(self._spec)

    def give_up(self) -> None:
        dismiss_all(self._folder.parent, self._folder.name)

    def look(self) -> None:
        if not self._is_settled():
            return
        standby = next(iter(waiting(self._folder.parent, self._folder.name)), None)
        if standby is None:
            self._ask()
        elif changed(standby.record.watched) or is_silent(standby, time.time()):
            dismiss(standby.folder)
        else:
            self._asked = Asked()
            process = standby.process
            self._measure(lambda at: processes.resident_bytes(process))
        self._report(standby)

    def _report(self, standby: WaitingStandby | None) -> None:
        """Record a change of the standby's state with this driver."""
        state, at = None, time.time()
        if standby is not None:
            pid, ready = standby.process.pid, standby.is_ready(at)
            state = StandbyState(driver_id=standby.folder.name, ready=ready, pid=pid, since=0.0)
        if state != self._reported:
            self._reported = state
            self._link.event(STANDBY, **standby_event(self._folder.name, state, at).detail)
