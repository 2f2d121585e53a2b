"""Stops drivers at a batch boundary, and kills them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters import processes
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ProcessIdentity
from streamwarden.lifecycle.events import STOP_REQUESTED
from streamwarden.lifecycle.lease import Liveness
from streamwarden.lifecycle.supervision.stop import Desired, StopRequest
from streamwarden.services.fleet.applications import application_of
from streamwarden.services.fleet.desired_state import set_desired, silence_stream
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder
from streamwarden.services.fleet.standbys.pool import leave_pool
from streamwarden.services.fleet.standbys.waiting import dismiss_all
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StopPolicy
from streamwarden.waiting import wait_until

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_STOPS_WITHIN: Final = 2.0
"""Seconds within which SIGSTOP must have taken effect; a process that hangs in the kernel takes longer."""


_GONE_WITHIN: Final = 10.0
"""Seconds from SIGKILL until a process must be gone; more means that it hangs in the kernel."""


class Stopper:
    """Requests stops of drivers."""

    def __init__(self, store: Store, exits: ExitRecorder, clock: Callable[[], float], alive: Liveness) -> None:
        self._store = store
        self._exits = exits
        self._clock = clock
        self._alive = alive

    def request(
        self,
        stream: str,
        *,
        requested_by: str,
        reason: str,
        restart: bool = False,
        batch_deadline: float | None = None,
        term_deadline: float | None = None,
    ) -> StopRequest | None:
        """Ask the stream's driver to end at a batch boundary; None if none is alive. The desired state is recorded
        either way.

        Args:
            restart: the stream is to run again afterwards; otherwise its desired state is stopped from now on.
            batch_deadline: seconds from now until SIGTERM; default: the stream's own stop policy.
            term_deadline: seconds from then until SIGKILL.
        """
        now = self._clock()
        current = self._store.stops.desired(stream)
        if not restart or (current is not None and current.desired is Desired.STOPPED):
            desired = Desired.RUNNING if restart else Desired.STOPPED
            set_desired(self._store, stream, desired, by=requested_by, reason=reason, now=now)
        if not restart:
            silence_stream(self._store, stream, now, f"{requested_by} stopped the stream: {reason}")
        record = self._living(stream)
        if record is None:
            if not restart:
                self._end_standbys(stream)
            return None
        folder = Path(record.folder)
        policy = stop_policy(folder)
        term_at = now + (policy.batch_deadline if batch_deadline is None else batch_deadline)
        request = StopRequest(
            driver_id=record.driver_id,
            requested_by=requested_by,
            reason=reason,
            requested_at=now,
            batch_deadline=term_at,
            kill_deadline=term_at + (policy.term_deadline if term_deadline is None else term_deadline),
            restart=restart,
        )
        self._store.stops.request(request)
        detail = {"by": requested_by, "reason": reason, "restart": str(restart).lower()}
        self._store.drivers.event(DriverEvent(driver_id=record.driver_id, at=now, kind=STOP_REQUESTED, detail=detail))
        if folder.is_dir():  # the driver of this host: its supervisor process obeys the deadlines without the store
            files.write_stop(folder, request)
        return request

    def kill(self, driver_id: str) -> bool:
        """SIGKILL to the driver's process group; False if there was no such process any more.

        In cluster mode no supervisor process records the end, so it is recorded here once the driver is gone. The
        manager of the cluster kills a driver on another host.
        """
        record, process = self._store.drivers.get(driver_id), self._process(driver_id)
        if record is None or process is None:
            return False
        folder = Path(record.folder)
        in_cluster = _mode(folder) is DeployMode.CLUSTER
        if self._alive(process) is None:
            killed = in_cluster and _kill_in_cluster(folder)
        else:
            killed = processes.signal_group(process, signal.SIGKILL)
            if killed and in_cluster:
                processes.await_end(process, _GONE_WITHIN)
        if killed and in_cluster:
            _record_kill(folder, self._clock())
        return killed

    def freeze(self, driver_id: str, *, supervised: bool = True) -> bool:
        """SIGSTOP to the driver's process group, for a drill; returns whether it is paused now.

        Args:
            supervised: its supervisor process keeps running, and kills a driver that is paused for
                `restart.unresponsive_after`; False: it is paused too, as on a paused host.
        """
        process, supervisor = self._process(driver_id), self._supervisor(driver_id)
        if process is None or not processes.signal_group(process, signal.SIGSTOP):
            return False
        if not supervised and supervisor is not None:
            processes.signal_one(supervisor, signal.SIGSTOP)
        return wait_until(lambda: processes.is_stopped(process), within=_STOPS_WITHIN, every=0.001)

    def thaw(self, driver_id: str) -> bool:
        """SIGCONT to a paused driver, and to its supervisor process; False if it was not paused."""
        process, supervisor = self._process(driver_id), self._supervisor(driver_id)
        thawed = (
            process is not None and processes.is_stopped(process) and processes.signal_group(process, signal.SIGCONT)
        )
        # Later than the driver: it would see a paused driver.
        if supervisor is not None and processes.is_stopped(supervisor):
            processes.signal_one(supervisor, signal.SIGCONT)
        return thawed

    def processes(self, driver_id: str) -> tuple[ProcessIdentity, ...]:
        """The driver's JVM and its supervisor process, as far as they are known."""
        identities = (self._process(driver_id), self._supervisor(driver_id))
        return tuple(process for process in identities if process is not None)

    def _supervisor(self, driver_id: str) -> ProcessIdentity | None:
        record = self._store.drivers.get(driver_id)
        document = None if record is None else files.read_document(Path(record.folder) / files.SUPERVISOR)
        return None if document is None else ProcessIdentity(**document)

    def _process(self, driver_id: str) -> ProcessIdentity | None:
        record = self._store.drivers.get(driver_id)
        return None if record is None else record.process or files.read_process(Path(record.folder))

    def _end_standbys(self, stream: str) -> None:
        """End the standbys of a stream without a driver; a driver that is stopped ends its own."""
        record = self._store.drivers.latest(stream)
        if record is not None:
            drivers = Path(record.folder).parent
            dismiss_all(drivers)
            leave_pool(drivers.parent / files.POOLED, stream)

    def _living(self, stream: str) -> DriverRecord | None:
        record = self._store.drivers.latest(stream)
        if record is None or record.exit is not None or not self._exits.observe_record(record).alive:
            return None
        return record


def _mode(folder: Path) -> DeployMode:
    """Where the driver of the folder runs."""
    document = (files.read_document(folder / files.SPEC) or {}).get("spark") or {}
    return DeployMode(document.get("deploy_mode", DeployMode.CLIENT))


def _kill_in_cluster(folder: Path) -> bool:
    from streamwarden.config.stored_spec import (
        spec_from_dict,  # pydantic: a process that only observes does not import it
    )

    spec = spec_from_dict(files.read_document(folder / files.SPEC) or {})
    application = application_of(spec, folder.name, os.environ)
    return application is not None and application.kill()


def _record_kill(folder: Path, now: float) -> None:
    """Write what a supervisor process would have seen."""
    document = {"exit_code": None, "signal": int(signal.SIGKILL), "ended_at": now}
    files.write_document(folder / files.EXIT, document)


def stop_policy(folder: Path) -> StopPolicy:
    """The stop policy of the spec that the driver runs."""
    document = (files.read_document(folder / files.SPEC) or {}).get("stop") or {}
    return StopPolicy(**{name: float(seconds) for name, seconds in document.items()})
