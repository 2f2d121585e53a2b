"""The fleet: starts drivers, each under the lease of its checkpoint, finds them again, observes and stops them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Liveness
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import Desired, StopRequest
from streamwarden.services.fleet.cluster_submissions import ClusterSubmissions
from streamwarden.services.fleet.desired_state import set_desired
from streamwarden.services.fleet.driver_lookup import Finder
from streamwarden.services.fleet.exits.driver_ids import driver_folders, stream_of
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder, Observation
from streamwarden.services.fleet.launching.launch import SPAWN_TIMEOUT
from streamwarden.services.fleet.starting import Starter
from streamwarden.services.fleet.stopping import Stopper

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


class Fleet:
    """All drivers of one data folder and one store. Each attribute is the method of the same name of the part that
    does it: `Starter`, `ClusterSubmissions`, `ExitRecorder`, `Stopper`.

    Args:
        store: where leases, drivers and stop requests are kept.
        data: absolute data folder; drivers live under `data/drivers/STREAM/DRIVER_ID`.
        alive: returns whether a process lives; None if it cannot be seen.
    """

    def __init__(
        self,
        store: Store,
        data: Path,
        *,
        clock: Callable[[], float] = time.time,
        alive: Liveness = processes.is_alive,
    ) -> None:
        self._store = store
        self._data = Path(data)
        self._clock = clock
        exits = ExitRecorder(store, clock, alive)
        finder = Finder(store, exits, clock)
        cluster = ClusterSubmissions(store, self._data, finder, exits, clock)
        self._stopper = Stopper(store, exits, clock, alive)
        self.start = Starter(store, self._data, finder, clock).start
        self.submit, self.conclude = cluster.submit, cluster.conclude
        self.observe, self.observe_record = exits.observe, exits.observe_record
        self.request_stop, self.kill = self._stopper.request, self._stopper.kill
        self.freeze, self.thaw = self._stopper.freeze, self._stopper.thaw

    def wait(
        self,
        driver_id: str,
        *,
        timeout: float,
        until: Callable[[Observation], bool] = lambda seen: not seen.alive,
        poll: float = 0.25,
    ) -> Observation:
        """Observe until `until` holds (default: it ended). Raises ProcessError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            seen = self.observe(driver_id)
            if until(seen):
                return seen
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"driver {driver_id} did not get there within {timeout:.0f} s"
                    + (f"; it ended: {describe(seen.exit)}" if seen.exit else ""),
                    where=seen.record.folder,
                    next_step=f"read {self.log_path(driver_id)}",
                )
            time.sleep(poll)

    def log_path(self, driver_id: str) -> Path:
        """The driver's log. Raises ProcessError if the id is not a driver's."""
        record = self._store.drivers.get(driver_id)
        folder = Path(record.folder) if record else driver_folders(self._data, stream_of(driver_id)) / driver_id
        return folder / files.LOG

    def stop(
        self,
        stream: str,
        *,
        requested_by: str,
        reason: str,
        restart: bool = False,
        batch_deadline: float | None = None,
        term_deadline: float | None = None,
    ) -> Observation | None:
        """`request_stop`, then wait for the end. None: there was nothing to stop."""
        request = self.request_stop(
            stream,
            requested_by=requested_by,
            reason=reason,
            restart=restart,
            batch_deadline=batch_deadline,
            term_deadline=term_deadline,
        )
        return None if request is None else self.wait_for_stop(request)

    def wait_for_stop(self, request: StopRequest) -> Observation:
        """Wait for the end of the driver that `request` stops. Raises ProcessError if it outlives its last deadline."""
        return self.wait(request.driver_id, timeout=request.kill_deadline - self._clock() + SPAWN_TIMEOUT)

    def is_running(self, driver_id: str) -> bool:
        """Whether the driver's process exists on this host, running or stopped, regardless of the store."""
        return any(processes.is_alive(process) for process in self._stopper.processes(driver_id)[:1])

    @contextmanager
    def elsewhere(self, driver_id: str) -> Iterator[Fleet]:
        """The fleet as another host sees it, which cannot see the processes of this driver: only its lease shows
        whether it lives."""
        from streamwarden.adapters.store import Store

        hidden = self._stopper.processes(driver_id)

        def alive(process: ProcessIdentity) -> bool | None:
            return None if process in hidden else processes.is_alive(process)

        store = Store(self._store.url, alive=alive)
        try:
            yield Fleet(store, self._data, clock=self._clock, alive=alive)
        finally:
            store.close()

    def set_running(self, stream: str, by: str, reason: str, begin_anew: str | None = None) -> None:
        """Record that the stream should run; supervisors act on it. For `begin_anew` see `DesiredState`."""
        now = self._clock()
        set_desired(self._store, stream, Desired.RUNNING, by=by, reason=reason, now=now, begin_anew=begin_anew)
