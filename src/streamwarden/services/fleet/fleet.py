"""The fleet: starts drivers, each under the lease of its checkpoint, finds them again, observes and stops them."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters import processes
from streamwarden.errors import ConfigError, LeaseHeld, LeaseLost, ProcessError, StoreError, StreamwardenError
from streamwarden.health.stream_incidents import close_incident
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.lease import Lease, stream_resource, whereabouts
from streamwarden.lifecycle.stop import Desired, DesiredState, StopRequest
from streamwarden.services.fleet.exit_recorder import ExitRecorder, Observation, is_seen_dead
from streamwarden.services.fleet.launch import (
    SPAWN_TIMEOUT,
    driver_environment,
    remote_environment,
    spawn,
    write_folder,
)
from streamwarden.services.fleet.lease_grace import ahead, clocks_differ
from streamwarden.services.fleet.recorded_starts import keep_start
from streamwarden.stream import NAME_PATTERN, DeployMode, StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LEASE_TTL: Final = 30.0
"""Seconds a lease lasts without a renewal; it decides only where the holder's process cannot be seen."""

SUBMIT_TTL: Final = 600.0
"""Seconds that a cluster has to start a driver that was submitted to it; longer, and another one may be submitted, and
the late one finds its claim taken and ends."""

_ASK_AGAIN: Final = 0.5
"""Seconds between two looks at a lease that has lapsed."""

KEPT_FOLDERS: Final = 50
"""Folders of ended drivers that are kept for each stream; older ones are removed at the next start."""


@dataclass(frozen=True, slots=True)
class Started:
    """`reattached`: a living driver was found, and nothing was started."""

    record: DriverRecord
    reattached: bool


class Fleet:
    """All drivers of one data folder and one store.

    Args:
        store: where leases, drivers and stop requests are kept.
        data: absolute data folder; drivers live under `data/drivers/STREAM/DRIVER_ID`.
    """

    def __init__(self, store: Store, data: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._data = Path(data)
        self._clock = clock
        self._exits = ExitRecorder(store, clock)

    # Starting

    def start(
        self,
        spec: StreamSpec,
        *,
        launched_by: str,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        announce: Callable[[str], None] = lambda text: None,
    ) -> Started:
        """Start a driver for `spec`, or find the living one. Of many that start at once exactly one launches.

        Args:
            launched_by: who or what asked, for people.
            command: a spark-submit argv without an application (Airflow's hook builds one); default: ours.
            env: more environment for the driver; it wins over this process's.
            announce: called with what this waits for, and with what is wrong with the clocks of two hosts.

        Raises:
            ConfigError: a driver in cluster mode, which only `submit` starts.
            LeaseHeld: another stream's driver writes to this checkpoint, or a launch of this one never showed up.
            ProcessError: no Java, or the driver could not be launched.
            StoreError: the store is down: then nothing is started.
        """
        offset = self._store.leases.clock_offset()
        if offset:
            way = "behind" if offset > 0 else "ahead of"
            announce(
                f"this host's clock is {abs(offset):.0f} s {way} the store's: leases go by the store's; set it by NTP"
            )
        found = self._living(spec, announce)
        if found is not None:
            return self._reattached(found, launched_by)
        if spec.spark.deploy_mode is DeployMode.CLUSTER:
            raise ConfigError(
                "deploy mode cluster",
                expected="client: this command looks after drivers of this host",
                where=f"spark.deploy_mode of stream {spec.name}",
                next_step="start it from Airflow, whose Spark provider follows drivers in a cluster",
            )
        environment = driver_environment(spec, self._data, self._store.url, env, own_spark=command is None)
        try:
            record, lease = self._claim(spec, launched_by, LEASE_TTL)
        except LeaseHeld:
            return self._reattached(self._await_winner(spec), launched_by)
        folder = Path(record.folder)
        try:
            write_folder(spec, folder, self._data, lease, environment)
            self._store.drivers.launched(record)
            keep_start(self._store, spec, record.driver_id, at=self._clock())
            process = spawn(spec, folder, self._data, command, environment)
        except (OSError, StreamwardenError) as error:
            self._abandon(record, lease, error)
            if isinstance(error, StreamwardenError):
                raise
            raise _not_launched(error, folder) from error
        if process is not None:
            record = dataclasses.replace(record, process=process)
            with contextlib.suppress(StoreError, LeaseLost):  # the driver binds itself too, and obeys a loss
                self._store.leases.bind(lease, process, ttl=LEASE_TTL, now=self._clock())
                self._store.drivers.bound(record.driver_id, process)
        self._prune(spec.name)
        self._close_incident(spec.name)
        return Started(record, reattached=False)

    def submit(
        self, spec: StreamSpec, *, launched_by: str, through: Callable[[Path], str], env: Mapping[str, str]
    ) -> tuple[DriverRecord, str]:
        """Start a driver in cluster mode, by way of somebody who submits it and follows it there; also its application.

        It binds the lease when the cluster has let it start, which may take until `SUBMIT_TTL`; from then on it is
        observed by its lease, as every driver of another host. Its folder has to be on storage that it shares.

        Args:
            through: submits the application with the properties and the argument of this folder; returns its id.
            env: environment that the driver needs, beside where store, data and project are.

        Raises:
            LeaseHeld: a driver lives, or is being launched; nothing was submitted.
            ConfigError: a secret would be told to everybody; StoreError; whatever `through` raises.
        """
        if self._living(spec) is not None:
            raise LeaseHeld(f"a driver of {spec.name} lives", where=spec.checkpoint, next_step="follow that one")
        environment = driver_environment(spec, self._data, self._store.url, env, own_spark=False)
        more = remote_environment(spec, self._data, self._store.url, env)
        record, lease = self._claim(spec, launched_by, SUBMIT_TTL)
        folder = Path(record.folder)
        try:
            write_folder(spec, folder, self._data, lease, environment, more)
            self._store.drivers.launched(record)
            keep_start(self._store, spec, record.driver_id, at=self._clock())
            application = through(folder)
        except Exception as error:  # whatever the submitter raises: no driver, so no claim
            self._abandon(record, lease, error)
            raise
        detail = {"application": application, "by": launched_by}
        self._store.drivers.event(
            DriverEvent(driver_id=record.driver_id, at=self._clock(), kind="submitted", detail=detail)
        )
        self._prune(spec.name)
        return record, application

    def conclude(self, driver_id: str, failure: str | None) -> ExitRecord | None:
        """Record the exit of a driver that its cluster says has ended, without waiting for its lease to lapse.

        Args:
            failure: what the cluster says of it, None if it ended well; the runner's own word wins, if it left one.
        """
        record = self._store.drivers.get(driver_id)
        if record is None or record.exit is not None:
            return record.exit if record is not None else None
        folder = Path(record.folder)
        if folder.is_dir():
            if files.read_outcome(folder) is None:
                files.write_outcome(folder, _of_application(failure, self._clock(), files.read_stop(folder)))
            # No keeper wrote it; with it the folder is an ended driver's, to be removed some day.
            document = {"exit_code": None, "signal": None, "ended_at": self._clock()}
            files.write_document(folder / files.EXIT, document)
        return self._exits.record_exit(record)

    def _claim(self, spec: StreamSpec, launched_by: str, ttl: float) -> tuple[DriverRecord, Lease]:
        """A new driver's lease and record. Raises LeaseHeld."""
        driver_id = new_driver_id(spec.name, self._clock())
        lease = self._store.leases.acquire(
            *spec.checkpoints, stream=spec.name, holder=driver_id, ttl=ttl, now=self._clock()
        )
        record = DriverRecord(
            driver_id=driver_id,
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=lease.token,
            folder=str(self._data / "drivers" / spec.name / driver_id),
            launched_by=launched_by,
            launched_at=self._clock(),
        )
        return record, lease

    def _living(self, spec: StreamSpec, announce: Callable[[str], None] = lambda text: None) -> DriverRecord | None:
        """The driver that runs this stream or holds its checkpoint; records the end of one that does not live any more.

        Takes `lapses.GRACE` where the lease has lapsed of a driver that cannot be seen.
        """
        for resource in _resources(spec):
            lease, held = self._judged(resource, announce)
            if lease is not None and lease.process is not None:  # without one a launch is under way: acquire() decides
                if held:
                    return self._record_of(lease, spec)
                with contextlib.suppress(ProcessError):
                    self.observe(lease.holder)
        latest = self._store.drivers.latest(spec.name)
        if latest is not None and latest.exit is None:
            self.observe(latest.driver_id)
        return None

    def _judged(self, resource: str, announce: Callable[[str], None]) -> tuple[Lease | None, bool]:
        """The newest lease on `resource` and whether it is held, once that is known; says what it waits for."""
        waited = False
        while True:
            lease = self._store.leases.current(resource)
            held = self._exits.is_held(lease)
            if held is not None:
                break
            if lease is not None and not waited:
                announce(_doubt(lease, self._clock()))
            waited = True
            time.sleep(_ASK_AGAIN)
        skew = self._exits.skew(lease) if lease is not None and held else None
        if lease is not None and skew is not None:
            announce(f"driver {lease.holder} lives; {clocks_differ(lease, skew)}")
        return lease, held

    def _record_of(self, lease: Lease, spec: StreamSpec) -> DriverRecord | None:
        """The driver of a lease on this stream. Raises LeaseHeld if `spec` is not what that driver runs."""
        if lease.stream != spec.name:
            raise LeaseHeld(
                f"the checkpoint is held by driver {lease.holder} of the stream {lease.stream}",
                expected="one stream for each checkpoint",
                where=spec.checkpoint,
                next_step=f"give {spec.name} another checkpoint",
            )
        if spec.checkpoint not in lease.checkpoints:
            raise LeaseHeld(
                f"driver {lease.holder} runs this stream {whereabouts(lease)}",
                expected=f"the checkpoint {spec.checkpoint}, as it is declared here: a stream has exactly one driver",
                where=f"stream {spec.name}",
                next_step="if the two declarations should be one, let every host share the data folder; if the "
                f"checkpoint was changed, run `streamwarden restart {spec.name}`",
            )
        return self._store.drivers.get(lease.holder)

    def _first_lease(self, spec: StreamSpec) -> Lease | None:
        """The lease that keeps a driver of `spec` from being launched."""
        found = [self._store.leases.current(resource) for resource in _resources(spec)]
        return next((lease for lease in found if lease is not None and lease.released_at is None), found[0])

    def _await_winner(self, spec: StreamSpec) -> DriverRecord:
        """The driver of the launcher that was faster. Raises LeaseHeld if it does not show up in time."""
        deadline = time.monotonic() + SPAWN_TIMEOUT
        while True:
            lease = self._first_lease(spec)
            record = self._record_of(lease, spec) if lease is not None else None
            if record is not None and lease is not None and (lease.process is not None or record.exit is not None):
                return record
            if time.monotonic() > deadline:
                if record is not None:
                    return record
                holder = lease.holder if lease else "nobody"
                raise LeaseHeld(
                    f"the checkpoint is claimed by {holder}, whose driver does not show up",
                    where=spec.checkpoint,
                    next_step=f"start again in {LEASE_TTL:.0f} s: the claim lapses by itself",
                )
            time.sleep(0.1)

    def _reattached(self, record: DriverRecord, by: str) -> Started:
        event = DriverEvent(driver_id=record.driver_id, at=self._clock(), kind="reattached", detail={"by": by})
        self._store.drivers.event(event)
        self._close_incident(record.stream)
        return Started(record, reattached=True)

    def _close_incident(self, stream: str, reason: str = "a driver runs again") -> None:
        """The stream is no longer down against anybody's will: a driver runs, or none is wanted. It may fail: whoever
        follows the driver does the same, and a stop that is asked for again."""
        with contextlib.suppress(StoreError):
            close_incident(self._store.incidents, stream, self._clock(), reason)

    def _abandon(self, record: DriverRecord, lease: Lease, error: Exception) -> None:
        """A launch that failed leaves neither a lease nor a driver without an end."""
        ended = ExitRecord(
            kind=ExitKind.FAILED,
            ended_at=self._clock(),
            error_class=type(error).__name__,
            message=str(error),
            next_step=getattr(error, "next_step", ""),
        )
        with contextlib.suppress(StoreError):
            self._store.leases.release(lease, now=self._clock())
        with contextlib.suppress(StoreError):
            self._store.drivers.launched(record)
            self._store.drivers.exited(record.driver_id, ended)

    def _prune(self, stream: str) -> None:
        """Remove old folders, and the temporary files of drivers whose keeper was killed before it could."""
        root = self._data / "drivers" / stream
        folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.name, reverse=True)
        for index, folder in enumerate(folders[1:]):
            if not is_seen_dead(folder):
                continue
            target = folder if index >= KEPT_FOLDERS else folder / files.TEMPORARY
            shutil.rmtree(target, ignore_errors=True)

    # Observing

    def observe(self, driver_id: str) -> Observation:
        """Look at a driver without Spark. Records its exit, releases its lease and loads its spilled progress if dead.

        Raises:
            ProcessError: nobody knows this driver.
            StoreError: the store is down.
        """
        return self._exits.observe(driver_id)

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
                    + (f"; it ended: {seen.exit.message}" if seen.exit else ""),
                    where=seen.record.folder,
                    next_step=f"read {self.log_path(driver_id)}",
                )
            time.sleep(poll)

    def log_path(self, driver_id: str) -> Path:
        """The driver's log. Raises ProcessError if the id is none."""
        record = self._store.drivers.get(driver_id)
        if record is not None:
            return Path(record.folder) / files.LOG
        stream = stream_of(driver_id)
        return self._data / "drivers" / stream / driver_id / files.LOG

    # Stopping

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
        """Ask the stream's driver to end at a batch boundary; None if none lives. The wish itself is kept either way.

        Args:
            restart: the stream is to run again afterwards; otherwise it is wanted stopped from now on.
            batch_deadline: seconds from now until SIGTERM; default: the stream's own stop policy.
            term_deadline: seconds from then until SIGKILL.
        """
        now = self._clock()
        wish = Desired.RUNNING if restart else Desired.STOPPED
        current = self._store.stops.desired(stream)
        if not restart or (current is not None and current.desired is Desired.STOPPED):
            self._set_desired(stream, wish, requested_by, reason)
        record = self._store.drivers.latest(stream)
        if record is None or record.exit is not None or not self.observe(record.driver_id).alive:
            if not restart:
                self._close_incident(stream, f"{requested_by} wants it stopped: {reason}")
            return None
        folder = Path(record.folder)
        policy = self._stop_policy(folder)
        first = now + (policy[0] if batch_deadline is None else batch_deadline)
        request = StopRequest(
            driver_id=record.driver_id,
            requested_by=requested_by,
            reason=reason,
            requested_at=now,
            batch_deadline=first,
            kill_deadline=first + (policy[1] if term_deadline is None else term_deadline),
            restart=restart,
        )
        self._store.stops.request(request)
        event = DriverEvent(
            driver_id=record.driver_id,
            at=now,
            kind="stop_requested",
            detail={"by": requested_by, "reason": reason, "restart": str(restart).lower()},
        )
        self._store.drivers.event(event)
        if folder.is_dir():  # this host runs the driver: its keeper needs the deadlines even if the store is gone
            files.write_stop(folder, request)
        return request

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
        if request is None:
            return None
        return self.wait(request.driver_id, timeout=request.kill_deadline - self._clock() + SPAWN_TIMEOUT)

    def kill(self, driver_id: str) -> bool:
        """SIGKILL to the driver's process group; False if there was no such process any more."""
        record = self._store.drivers.get(driver_id)
        process = None if record is None else record.process or files.read_process(Path(record.folder))
        return process is not None and processes.signal_group(process, signal.SIGKILL)

    def set_running(self, stream: str, by: str, reason: str) -> None:
        """Record that people want this stream to run; supervisors act on it."""
        self._set_desired(stream, Desired.RUNNING, by, reason)

    def _set_desired(self, stream: str, desired: Desired, by: str, reason: str) -> None:
        self._store.stops.set_desired(
            DesiredState(stream=stream, desired=desired, changed_by=by, reason=reason, changed_at=self._clock())
        )

    def _stop_policy(self, folder: Path) -> tuple[float, float]:
        document = (files.read_document(folder / files.SPEC) or {}).get("stop") or {}
        return float(document.get("batch_deadline", 120.0)), float(document.get("term_deadline", 30.0))


def _resources(spec: StreamSpec) -> tuple[str, ...]:
    """What the driver of `spec` claims at its launch: the stream by its name, and its checkpoints. Pure."""
    return stream_resource(spec.name), *spec.checkpoints


def _doubt(lease: Lease, now: float) -> str:
    """Why it takes a moment to know whether the holder of `lease` lives, for people. Pure."""
    late, early = now - lease.expires_at, ahead(lease, now)
    when = f"was renewed {early:.0f} s in the future" if early else f"expired {late:.0f} s ago"
    return f"the lease of driver {lease.holder} {whereabouts(lease)} {when}: waiting to see whether it is renewed"


def _not_launched(error: OSError | StreamwardenError, folder: Path) -> ProcessError:
    return ProcessError(
        f"the driver could not be launched: {error}",
        where=str(folder),
        next_step="make room, or correct the permissions of the data folder",
    )


def _of_application(failure: str | None, now: float, stop: StopRequest | None) -> ExitRecord:
    """The exit of a driver in cluster mode that left no word of its own. Pure."""
    if failure is None:
        kind = ExitKind.COMPLETED if stop is None else ExitKind.STOPPED
        return ExitRecord(kind=kind, ended_at=now, message="its application ended well")
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=now,
        error_class="ApplicationFailed",
        message=failure,
        next_step="read the application's own log: `yarn logs -applicationId …`, `kubectl logs …`",
    )


def new_driver_id(stream: str, now: float) -> str:
    """`flight_departures-20260102T030405-9f86d081`: sorts by time, unique, safe in a path."""
    return f"{stream}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


def stream_of(driver_id: str) -> str:
    """The stream in a driver id. Raises ProcessError for anything that is no driver id (it may come from a URL)."""
    stream = driver_id.rsplit("-", 2)[0]
    if not NAME_PATTERN.fullmatch(stream) or "/" in driver_id or ".." in driver_id:
        raise ProcessError(f"{driver_id!r} is no driver id", expected="STREAM-TIME-HEX", next_step="correct the id")
    return stream
