"""The fleet: starts drivers, each under the lease of its checkpoint, finds them again, observes and stops them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters import keeper, processes
from streamwarden.adapters.backfill import fill_from_logs, load_spill
from streamwarden.adapters.files import open_path
from streamwarden.adapters.java import find_java
from streamwarden.checkpoint.logs import log_position
from streamwarden.errors import LeaseHeld, LeaseLost, ProcessError, StoreError, StreamwardenError
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.exits import ProcessExit, compose
from streamwarden.lifecycle.lease import Lease, is_held
from streamwarden.lifecycle.stop import Desired, DesiredState, StopRequest
from streamwarden.lifecycle.submission import driver_properties, properties_text, submit_command
from streamwarden.stream import NAME_PATTERN, StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LEASE_TTL: Final = 30.0
"""Seconds a lease lasts without a renewal; it decides only where the holder's process cannot be seen."""

SPAWN_TIMEOUT: Final = 20.0
"""Seconds within which a keeper has started its driver (it takes a tenth of one on an idle machine)."""

KEPT_FOLDERS: Final = 50
"""Folders of ended drivers that are kept for each stream; older ones are removed at the next start."""

_TAIL: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Started:
    """`reattached`: a living driver was found, and nothing was started."""

    record: DriverRecord
    reattached: bool


@dataclass(frozen=True, slots=True)
class Observation:
    """A driver seen now. `exit` is None while it lives."""

    alive: bool
    exit: ExitRecord | None
    record: DriverRecord


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

    # Starting

    def start(
        self,
        spec: StreamSpec,
        *,
        launched_by: str,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Started:
        """Start a driver for `spec`, or find the living one. Of many that start at once exactly one launches.

        Args:
            launched_by: who or what asked, for people.
            command: a spark-submit argv without an application (Airflow's hook builds one); default: ours.
            env: more environment for the driver; it wins over this process's.

        Raises:
            LeaseHeld: another stream's driver writes to this checkpoint, or a launch of this one never showed up.
            ProcessError: no Java, or the driver could not be launched.
            StoreError: the store is down: then nothing is started.
        """
        found = self._living(spec)
        if found is not None:
            return self._reattached(found, launched_by)
        environment = self._environment(spec, env, own_spark=command is None)
        driver_id = new_driver_id(spec.name, self._clock())
        try:
            lease = self._store.leases.acquire(
                spec.checkpoint, stream=spec.name, holder=driver_id, ttl=LEASE_TTL, now=self._clock()
            )
        except LeaseHeld:
            return self._reattached(self._await_winner(spec), launched_by)
        folder = self._data / "drivers" / spec.name / driver_id
        record = DriverRecord(
            driver_id=driver_id,
            stream=spec.name,
            checkpoint=spec.checkpoint,
            token=lease.token,
            folder=str(folder),
            launched_by=launched_by,
            launched_at=self._clock(),
        )
        try:
            self._prepare(spec, folder, lease)
            self._store.drivers.launched(record)
            process = self._spawn(spec, folder, command, environment)
        except (OSError, StreamwardenError) as error:
            self._abandon(record, lease, error)
            if isinstance(error, StreamwardenError):
                raise
            raise ProcessError(
                f"the driver could not be launched: {error}",
                where=str(folder),
                next_step="make room, or correct the permissions of the data folder",
            ) from error
        if process is not None:
            record = dataclasses.replace(record, process=process)
            with contextlib.suppress(StoreError, LeaseLost):  # the driver binds itself too, and obeys a loss
                self._store.leases.bind(lease, process, ttl=LEASE_TTL, now=self._clock())
                self._store.drivers.bound(driver_id, process)
        self._prune(spec.name)
        return Started(record, reattached=False)

    def _living(self, spec: StreamSpec) -> DriverRecord | None:
        """The driver that holds this checkpoint now; records the end of one that does not live any more."""
        lease = self._store.leases.current(spec.checkpoint)
        if lease is not None and lease.process is not None:  # without one a launch is under way: acquire() decides
            if is_held(lease, now=self._clock(), alive=processes.is_alive):
                return self._record_of(lease, spec)
            with contextlib.suppress(ProcessError):
                self.observe(lease.holder)
        latest = self._store.drivers.latest(spec.name)
        if latest is not None and latest.exit is None:
            self.observe(latest.driver_id)
        return None

    def _record_of(self, lease: Lease, spec: StreamSpec) -> DriverRecord | None:
        if lease.stream != spec.name:
            raise LeaseHeld(
                f"the checkpoint is held by driver {lease.holder} of the stream {lease.stream}",
                expected="one stream for each checkpoint",
                where=spec.checkpoint,
                next_step=f"give {spec.name} a checkpoint of its own",
            )
        return self._store.drivers.get(lease.holder)

    def _await_winner(self, spec: StreamSpec) -> DriverRecord:
        """The driver of the launcher that was faster. Raises LeaseHeld if it does not show up in time."""
        deadline = time.monotonic() + SPAWN_TIMEOUT
        while True:
            lease = self._store.leases.current(spec.checkpoint)
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
        return Started(record, reattached=True)

    def _prepare(self, spec: StreamSpec, folder: Path, lease: Lease) -> None:
        from streamwarden.adapters.config import spec_to_dict  # pydantic: who only observes does not pay for it

        (folder / files.TEMPORARY).mkdir(parents=True, mode=0o700)
        folder.chmod(0o700)
        files.write_document(folder / files.SPEC, spec_to_dict(spec))
        files.write_lease(folder, lease)
        conf = driver_properties(spec, folder, python=sys.executable)
        conf.setdefault("spark.sql.warehouse.dir", str(self._data / "warehouse"))
        files.write_text(folder / files.PROPERTIES, properties_text(conf))

    def _environment(self, spec: StreamSpec, env: Mapping[str, str] | None, *, own_spark: bool) -> dict[str, str]:
        merged = {**os.environ, **(env or {})}
        merged["JAVA_HOME"] = str(find_java(merged))
        merged["STREAMWARDEN_STORE_URL"] = self._store.url
        merged["STREAMWARDEN_DATA"] = str(self._data)
        if spec.project:
            merged["STREAMWARDEN_PROJECT"] = spec.project
        merged["PYSPARK_PYTHON"] = merged["PYSPARK_DRIVER_PYTHON"] = sys.executable
        merged["PYTHONUNBUFFERED"] = "1"
        # Spark's launcher is a JVM of its own that lives a second: let it compile cheaply.
        merged.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        if own_spark:
            merged["SPARK_HOME"] = str(spark_home())
        return merged

    def _spawn(
        self, spec: StreamSpec, folder: Path, command: Sequence[str] | None, environment: Mapping[str, str]
    ) -> ProcessIdentity | None:
        """Start the keeper and wait until it has started the driver. None: it did, and the driver ended at once."""
        argv = submit_command(
            spec,
            folder,
            runner=Path(__file__).parent.parent / "spark" / "runner.py",
            spark_submit=str(spark_home() / "bin" / "spark-submit"),
            prefix=command,
        )
        work = spec.project if spec.project and Path(spec.project).is_dir() else str(self._data)
        launch = subprocess.Popen(
            [sys.executable, "-m", keeper.__name__, str(folder), "--", *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
            cwd=work,
            env=dict(environment),
        )
        launch.wait(timeout=SPAWN_TIMEOUT)  # the keeper detaches itself at once
        deadline = time.monotonic() + SPAWN_TIMEOUT
        while time.monotonic() < deadline:
            process = files.read_process(folder)
            if process is not None:
                return process
            if (folder / files.EXIT).exists():
                return None
            time.sleep(0.02)
        raise ProcessError(
            "the keeper did not start the driver",
            expected=f"{files.PROCESS} within {SPAWN_TIMEOUT:.0f} s",
            where=str(folder),
            next_step=f"read {files.LOG} there, then start the stream again",
        )

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
            process = files.read_process(folder)
            ended = (folder / files.EXIT).exists() or (process is not None and processes.is_alive(process) is False)
            if not ended:
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
        record = self._store.drivers.get(driver_id)
        if record is None:
            raise ProcessError(
                f"no driver {driver_id}", expected="the id of a driver", next_step="see `streamwarden status`"
            )
        if record.exit is not None:
            return Observation(False, record.exit, record)
        folder = Path(record.folder)
        process = record.process or files.read_process(folder)
        if self._is_alive(record, process):
            return Observation(True, None, record)
        return Observation(False, self._record_exit(record, folder), self._store.drivers.get(driver_id) or record)

    def _is_alive(self, record: DriverRecord, process: ProcessIdentity | None) -> bool:
        folder = Path(record.folder)
        if process is None:
            if (folder / files.EXIT).exists():
                return False
            lease = self._store.leases.current(record.checkpoint)
            return lease is not None and lease.holder == record.driver_id and self._clock() < lease.expires_at
        alive = processes.is_alive(process)
        if alive is None:
            lease = self._store.leases.current(record.checkpoint)
            return (
                lease is not None
                and lease.holder == record.driver_id
                and lease.released_at is None
                and self._clock() < lease.expires_at
            )
        return alive

    def _record_exit(self, record: DriverRecord, folder: Path) -> ExitRecord:
        ended = self._process_exit(folder)
        found = compose(
            files.read_outcome(folder),
            ended,
            now=self._clock(),
            stop=files.read_stop(folder),
            log_tail=tail(folder / files.LOG),
            cut_batch=self._cut_batch(record),
        )
        self._store.drivers.exited(record.driver_id, found)
        self._load_progress(record, folder)
        lease = self._store.leases.current(record.checkpoint)
        if lease is not None and lease.holder == record.driver_id and lease.released_at is None:
            self._store.leases.release(lease, now=self._clock())
        if folder.is_dir():
            shutil.rmtree(folder / files.TEMPORARY, ignore_errors=True)
        recorded = self._store.drivers.get(record.driver_id)
        return recorded.exit if recorded is not None and recorded.exit is not None else found

    def _load_progress(self, record: DriverRecord, folder: Path) -> None:
        """What the driver could not tell the store any more: events, spilled reports, batches of its last second."""
        query_id = record.query_id
        for event in files.read_events(folder):
            self._store.drivers.event(event)
            if event.kind == files.QUERY_STARTED and query_id is None:
                query_id = event.detail["query_id"]
                self._store.drivers.started(record.driver_id, query_id, event.detail["run_id"], event.at)
        load_spill(folder, record.stream, self._store)
        if query_id is not None:
            fill_from_logs(self._store, record.stream, query_id, record.checkpoint)

    def _process_exit(self, folder: Path) -> ProcessExit | None:
        """What the keeper wrote; it gets a moment to write it, if it lives."""
        deadline = time.monotonic() + 1.0
        guard = files.read_document(folder / keeper.KEEPER)
        while True:
            document = files.read_document(folder / files.EXIT)
            if document is not None:
                return ProcessExit(**document)
            if guard is None or not processes.is_alive(ProcessIdentity(**guard)) or time.monotonic() > deadline:
                return None
            time.sleep(0.02)

    def _cut_batch(self, record: DriverRecord) -> bool | None:
        """Whether a planned batch has no commit now; None if the checkpoint cannot be read."""
        try:
            return log_position(*open_path(record.checkpoint)).gap > 0
        except (StreamwardenError, OSError):
            return None

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

    def set_stopped(self, stream: str, by: str, reason: str) -> None:
        """Record that people want this stream not to run, without asking a living driver to end."""
        self._set_desired(stream, Desired.STOPPED, by, reason)

    def _set_desired(self, stream: str, desired: Desired, by: str, reason: str) -> None:
        self._store.stops.set_desired(
            DesiredState(stream=stream, desired=desired, changed_by=by, reason=reason, changed_at=self._clock())
        )

    def _stop_policy(self, folder: Path) -> tuple[float, float]:
        document = (files.read_document(folder / files.SPEC) or {}).get("stop") or {}
        return float(document.get("batch_deadline", 120.0)), float(document.get("term_deadline", 30.0))


def new_driver_id(stream: str, now: float) -> str:
    """`flight_departures-20260102T030405-9f86d081`: sorts by time, unique, safe in a path."""
    return f"{stream}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}-{secrets.token_hex(4)}"


def stream_of(driver_id: str) -> str:
    """The stream in a driver id. Raises ProcessError for anything that is no driver id (it may come from a URL)."""
    stream = driver_id.rsplit("-", 2)[0]
    if not NAME_PATTERN.fullmatch(stream) or "/" in driver_id or ".." in driver_id:
        raise ProcessError(f"{driver_id!r} is no driver id", expected="STREAM-TIME-HEX", next_step="correct the id")
    return stream


def spark_home() -> Path:
    """The Spark that was installed with this package, whatever SPARK_HOME says. Raises ProcessError if it is gone."""
    from importlib.util import find_spec

    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ProcessError(
            "PySpark is not installed",
            expected="pyspark in this environment",
            where=sys.prefix,
            next_step="run: make setup",
        )
    return Path(found.origin).parent


def tail(path: Path, size: int = _TAIL) -> str:
    """The last `size` bytes of a text file; empty if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
