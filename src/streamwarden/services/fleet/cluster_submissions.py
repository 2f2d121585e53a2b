"""Drivers in cluster mode: another program submits them and follows them, the fleet claims and records them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.clusters import MANAGERS
from streamwarden.errors import LeaseHeld
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.failures.exits import failure
from streamwarden.lifecycle.failures.outage_causes import CONTAINER_LOST
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.services.fleet.claims import abandon, claim
from streamwarden.services.fleet.driver_lookup import Finder
from streamwarden.services.fleet.exits.cleaning import clean
from streamwarden.services.fleet.exits.exit_recorder import ExitRecorder
from streamwarden.services.fleet.hosts.fencing import fence_off
from streamwarden.services.fleet.launch_check import require_fit
from streamwarden.services.fleet.launching.launch import driver_environment, remote_environment, write_folder
from streamwarden.services.fleet.recorded_starts import keep_start
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

SUBMIT_TTL: Final = 600.0
"""Seconds that a cluster has to start a driver that was submitted to it. After that another driver may be submitted;
the late one finds that its claim was taken, and ends."""


_LOGS: Final = ", ".join(f"`{known.in_cluster.log}`" for known in MANAGERS if known.in_cluster is not None)


class ClusterSubmissions:
    """Claims and records the drivers of a cluster."""

    def __init__(
        self, store: Store, data: Path, finder: Finder, exits: ExitRecorder, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._data = data
        self._finder = finder
        self._exits = exits
        self._clock = clock

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
            ConfigError: a secret would be visible to everybody; StoreError; the errors of `through`.
        """
        if self._finder.living(spec) is not None:
            raise LeaseHeld(
                f"a driver of {spec.name} is alive", where=spec.checkpoint, next_step="follow that driver instead"
            )
        environment = driver_environment(spec, self._data, self._store.url, env, own_spark=False)
        more = remote_environment(spec, self._data, self._store.url, env)
        record, lease = claim(self._store, self._data, spec, launched_by=launched_by, ttl=SUBMIT_TTL, now=self._clock())
        folder = Path(record.folder)
        try:
            write_folder(spec, folder, self._data, environment, more)
            files.write_lease(folder, lease)
            self._store.drivers.launched(record)
            fence_off(self._store, spec, record, lease, at=self._clock())
            require_fit(self._store, spec, record.driver_id, environment, at=self._clock())
            keep_start(self._store, spec, record.driver_id, at=self._clock())
            application = through(folder)
        except Exception as error:  # any error of the submitter: no driver, so no claim
            abandon(self._store, record, lease, error, self._clock())
            files.tidy(folder)
            raise
        detail = {"application": application, "by": launched_by}
        self._store.drivers.event(
            DriverEvent(driver_id=record.driver_id, at=self._clock(), kind="submitted", detail=detail)
        )
        clean(self._store, self._data, spec.name)
        return record, application

    def conclude(self, driver_id: str, said: str | None) -> ExitRecord | None:
        """Record the exit of a driver that its cluster says has ended, without waiting for its lease to expire.

        Args:
            said: what the cluster says of it, None if it ended without an error; an outcome that the runner left
                wins.
        """
        record = self._store.drivers.get(driver_id)
        if record is None or record.exit is not None:
            return record.exit if record is not None else None
        folder = Path(record.folder)
        if folder.is_dir() and not (folder / files.EXIT).exists():  # a drill that killed it has written that
            if files.read_outcome(folder) is None:
                ran, stop = record.process is not None, files.read_stop(folder)
                files.write_outcome(folder, _of_application(said, self._clock(), stop, ran=ran))
            # There was no supervisor process to write it; with it the folder counts as that of an ended driver.
            document = {"exit_code": None, "signal": None, "ended_at": self._clock()}
            files.write_document(folder / files.EXIT, document)
        return self._exits.record_exit(record)


def _of_application(said: str | None, now: float, stop: StopRequest | None, *, ran: bool) -> ExitRecord:
    """The exit of a driver in cluster mode whose runner left no outcome. Pure.

    Args:
        said: what the cluster says of its failure; None: it ended without one.
        ran: the driver had begun.
    """
    if said is None:
        kind = ExitKind.COMPLETED if stop is None else ExitKind.STOPPED
        return ExitRecord(kind=kind, ended_at=now, message="its application ended without an error")
    if ran:
        return failure(CONTAINER_LOST, said, at=now, cut_batch=None, built=True)
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=now,
        error_class="ApplicationFailed",
        message=said,
        next_step=f"read the application's own log: {_LOGS}",
    )
