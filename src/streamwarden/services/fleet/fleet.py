"""The fleet: starts drivers, each under the lease of its checkpoint, finds them again, observes and stops them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Liveness
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import Desired, StopRequest
from streamwarden.services.fleet.cluster_submissions import ClusterSubmissions
from streamwarden.services.fleet.desired_state import set_desired
from streamwarden.services.fleet.driver_lookup import Announce, Finder
from streamwarden.services.fleet.exits.driver_ids import driver_folders, stream_of
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder, Observation
from streamwarden.services.fleet.launching.launch import SPAWN_TIMEOUT
from streamwarden.services.fleet.starting import Started, Starter
from streamwarden.services.fleet.stopping import Stopper
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


class Fleet:
    """All drivers of one data folder and one store.

    Args:
        store: where leases, drivers and stop requests are kept.
        data: absolute data folder; drivers live under `data/drivers/STREAM/DRIVER_ID`.
        alive: tells which processes live, and which cannot be seen from here.
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
        self._exits = ExitRecorder(store, clock, alive)
        finder = Finder(store, self._exits, clock)
        self._starter = Starter(store, self._data, finder, clock)
        self._cluster = ClusterSubmissions(store, self._data, finder, self._exits, clock)
        self._stopper = Stopper(store, self._exits, clock)

    def start(
        self,
        spec: StreamSpec,
        *,
        launched_by: str,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        announce: Announce = lambda text: None,
    ) -> Started:
        """Start a driver for `spec`, or find the living one. Of many that start at once exactly one launches.

        Args:
            launched_by: the person or program that asked, for people.
            command: a spark-submit argv without an application (Airflow's hook builds one); default: ours.
            env: more environment for the driver; it wins over this process's.
            announce: called with what this waits for, and with what is wrong with the clocks of two hosts.

        Raises:
            ConfigError: a driver in cluster mode, which only `submit` starts.
            LeaseHeld: another stream's driver writes to this checkpoint, or the driver of another launch did not
                appear in time.
            ProcessError: no Java, or the driver could not be launched.
            StoreError: the store is down: then nothing is started.
        """
        return self._starter.start(spec, launched_by=launched_by, command=command, env=env, announce=announce)

    def submit(
        self, spec: StreamSpec, *, launched_by: str, through: Callable[[Path], str], env: Mapping[str, str]
    ) -> tuple[DriverRecord, str]:
        """Start a driver in cluster mode through a program that submits and follows it; returns its application too.

        The driver binds the lease when the cluster has started it, which may take until `SUBMIT_TTL`; from then on it
        is observed by its lease, as every driver of another host. Its folder has to be on storage that it shares.

        Args:
            through: submits the application with the properties and the argument of this folder; returns its id.
            env: environment that the driver needs, beside where store, data and project are.

        Raises:
            LeaseHeld: a driver is alive, or is being launched; nothing was submitted.
            ConfigError: a secret would be visible to everybody; StoreError; whatever `through` raises.
        """
        return self._cluster.submit(spec, launched_by=launched_by, through=through, env=env)

    def conclude(self, driver_id: str, failure: str | None) -> ExitRecord | None:
        """Record the exit of a driver that its cluster says has ended, without waiting for its lease to expire.

        Args:
            failure: what the cluster says of it, None if it ended without an error; an outcome that the runner left
                wins.
        """
        return self._cluster.conclude(driver_id, failure)

    def observe(self, driver_id: str) -> Observation:
        """Observe a driver without Spark. Records its exit, releases its lease and loads its spilled progress if dead.

        Raises:
            ProcessError: the store has no such driver.
            StoreError: the store is down.
        """
        return self._exits.observe(driver_id)

    def observe_record(self, record: DriverRecord) -> Observation:
        """Observe the driver of a record that was read just now: of one that lives on this host it takes no query.

        Raises StoreError.
        """
        return self._exits.observe_record(record)

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

    def request_stop(
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
        return self._stopper.request(
            stream,
            requested_by=requested_by,
            reason=reason,
            restart=restart,
            batch_deadline=batch_deadline,
            term_deadline=term_deadline,
        )

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

    def kill(self, driver_id: str) -> bool:
        """SIGKILL to the driver's process group; False if there was no such process any more."""
        return self._stopper.kill(driver_id)

    def freeze(self, driver_id: str, *, supervised: bool = True) -> bool:
        """SIGSTOP to the driver's process group, for a drill; returns whether it stands still now.

        Args:
            supervised: its supervisor process goes on, and kills a driver that stands still for
                `restart.unresponsive_after`; False: it stands still too, as on a host that does.
        """
        return self._stopper.freeze(driver_id, supervised=supervised)

    def thaw(self, driver_id: str) -> bool:
        """SIGCONT to a driver that stands still, and to its supervisor process; False if the driver does not."""
        return self._stopper.thaw(driver_id)

    def is_running(self, driver_id: str) -> bool:
        """Whether the driver's process exists on this host, running or stopped, whatever the store says of it."""
        return any(processes.is_alive(each) for each in self._stopper.processes(driver_id)[:1])

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

    def set_running(self, stream: str, by: str, reason: str) -> None:
        """Record that the stream should run; supervisors act on it."""
        set_desired(self._store, stream, Desired.RUNNING, by=by, reason=reason, now=self._clock())
