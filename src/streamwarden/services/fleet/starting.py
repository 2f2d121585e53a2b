"""Starts a driver as a process of this host, or finds the living one."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamwarden.errors import ConfigError, LeaseHeld, LeaseLost, ProcessError, StoreError, StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, DriverRecord, ProcessIdentity
from streamwarden.lifecycle.driver_folder import read_process, tidy, write_lease
from streamwarden.lifecycle.events import REATTACHED
from streamwarden.lifecycle.groups.group import foreign_options
from streamwarden.lifecycle.lease import Lease
from streamwarden.lifecycle.supervision.standby import NOT_USED, PROMOTED
from streamwarden.services.fleet.claims import LEASE_TTL, START_TTL, abandon, claim
from streamwarden.services.fleet.departures import await_departures
from streamwarden.services.fleet.desired_state import resolve_incident
from streamwarden.services.fleet.driver_lookup import Announce, Finder
from streamwarden.services.fleet.exits.cleaning import clean
from streamwarden.services.fleet.exits.driver_ids import driver_folders
from streamwarden.services.fleet.hosts.fencing import fence_off
from streamwarden.services.fleet.hosts.placement import require_fit_host
from streamwarden.services.fleet.launch_check import require_fit, spend_permission
from streamwarden.services.fleet.launching.launch import driver_environment, spawn, write_folder
from streamwarden.services.fleet.recorded_starts import keep_start
from streamwarden.services.fleet.standbys.fit import fit
from streamwarden.services.fleet.standbys.pool import PoolStart, hand_over, has_living, take_from_pool
from streamwarden.services.fleet.standbys.pool_start import pool_document, pool_start
from streamwarden.services.fleet.standbys.waiting import Choice, give_back, promote, take, waiting
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_list

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True)
class Started:
    """`reattached`: a living driver was found, and nothing was started."""

    record: DriverRecord
    reattached: bool


class Starter:
    """Starts drivers of this host."""

    def __init__(self, store: Store, data: Path, finder: Finder, clock: Callable[[], float]) -> None:
        self._store = store
        self._data = data
        self._finder = finder
        self._clock = clock

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
            announce: called with the reason of a wait, and with a difference between the clocks of two hosts.

        Raises:
            ConfigError: a driver in cluster mode, which only `submit` starts.
            LeaseHeld: another stream's driver writes to this checkpoint, or the driver of another launch did not
                appear in time.
            HostUnfit: this host may not start the stream now, and another host may.
            ProcessError: no Java, or the driver could not be launched.
            LaunchRefused: a start would lose or double rows.
            StoreError: the store is down: then nothing is started.
        """
        self._check_clock(announce)
        living = self._finder.living(spec, announce)
        if living is not None:
            return self._reattach(living, launched_by)
        require_fit_host(self._store, spec, self._data)
        if spec.spark.deploy_mode is DeployMode.CLUSTER:
            raise ConfigError(
                "deploy mode cluster",
                expected="client: this command starts and follows drivers of this host",
                where=f"spark.deploy_mode of stream {spec.name}",
                next_step="start it from Airflow, whose Spark provider follows drivers in a cluster",
            )
        _require_own_options(spec, command)
        environment = driver_environment(spec, self._data, self._store.url, env, own_spark=command is None)
        pool = pool_start(spec, self._data, environment, command)
        standby = self._standby(spec, environment, command, pool)
        try:
            record, lease = self._claim(spec, launched_by, standby)
        except LeaseHeld:
            return self._reattach(self._finder.await_winner(spec), launched_by)
        return self._launch(spec, record, lease, command, environment, standby, pool)

    def _standby(
        self, spec: StreamSpec, environment: Mapping[str, str], command: Sequence[str] | None, pool: PoolStart | None
    ) -> Choice:
        """The process that waits for this launch, if one does: it is this launch's from now on. The stream's own
        standby is taken before one of the pool."""
        folders, now = driver_folders(self._data, spec.name), self._clock()
        own = take(folders, fit(spec, environment, command), now) if waiting(folders) else Choice()
        if own.folder is not None or pool is None:
            return own
        if pool.only_first and self._store.drivers.latest(spec.name) is not None:
            return own
        if pool.work is not None and has_living(folders):
            return dataclasses.replace(own, because="an earlier driver of the fork still lives")
        pooled = take_from_pool(self._data, pool, now)
        because = "; ".join(filter(None, [own.because, pooled.because]))
        return dataclasses.replace(pooled, because="" if pooled.folder is not None else because)

    def _claim(self, spec: StreamSpec, launched_by: str, standby: Choice) -> tuple[DriverRecord, Lease]:
        """The lease of the new driver; if there is none, a standby that was taken for it ends. Raises LeaseHeld,
        StoreError."""
        try:
            return claim(
                self._store,
                self._data,
                spec,
                launched_by=launched_by,
                ttl=LEASE_TTL,
                now=self._clock(),
                driver_id=None if standby.folder is None or standby.pooled else standby.folder.name,
            )
        except StreamwardenError:
            if standby.folder is not None:
                give_back(standby.folder)
            raise

    def _check_clock(self, announce: Announce) -> None:
        offset = self._store.leases.clock_offset()
        if offset:
            way = "behind" if offset > 0 else "ahead of"
            announce(
                f"this host's clock is {abs(offset):.0f} s {way} the store's, which decides when a lease expires: "
                "synchronize this host's clock by NTP"
            )

    def _launch(
        self,
        spec: StreamSpec,
        record: DriverRecord,
        lease: Lease,
        command: Sequence[str] | None,
        environment: Mapping[str, str],
        standby: Choice,
        pool: PoolStart | None,
    ) -> Started:
        folder = Path(record.folder)
        try:
            if standby.folder is None or standby.pooled:
                write_folder(spec, folder, self._data, environment, command=command)
            if (keeps := pool_document(spec, command)) is not None:
                files.write_document(folder / files.POOL, keeps)
            self._store.drivers.launched(record)
            await_departures(folder.parent)
            fence_off(self._store, spec, record, lease, at=self._clock())
            require_fit(self._store, spec, record.driver_id, environment, at=self._clock())
            keep_start(self._store, spec, record.driver_id, at=self._clock())
            process = self._begin(spec, folder, lease, command, environment, standby, pool)
        except (OSError, StreamwardenError) as error:
            abandon(self._store, record, lease, error, self._clock())
            give_back(standby.folder or folder)
            tidy(folder)
            if isinstance(error, StreamwardenError):
                raise
            raise _not_launched(error, folder) from error
        if process is not None:
            record = dataclasses.replace(record, process=process)
            with contextlib.suppress(StoreError, LeaseLost):  # the driver binds itself too, and obeys a loss
                self._store.leases.bind(lease, process, ttl=START_TTL, now=self._clock())
                self._store.drivers.bound(record.driver_id, process)
        clean(self._store, self._data, spec.name)
        resolve_incident(self._store, spec.name, self._clock())
        return Started(record, reattached=False)

    def _begin(
        self,
        spec: StreamSpec,
        folder: Path,
        lease: Lease,
        command: Sequence[str] | None,
        environment: Mapping[str, str],
        standby: Choice,
        pool: PoolStart | None,
    ) -> ProcessIdentity | None:
        """Wake the standby that becomes the driver, or start a process; returns the driver's JVM."""
        at = self._clock()
        if standby.folder is not None:
            detail = {"pool": standby.folder.name} if standby.pooled else {}
            self._store.drivers.event(DriverEvent(driver_id=folder.name, at=at, kind=PROMOTED, detail=detail))
            # Last: from here on it is a driver.
            if pool is not None and standby.pooled:
                hand_over(standby.folder, folder, lease, pool)
            else:
                promote(folder, lease)
            return read_process(folder)
        if standby.because:
            detail = {"because": standby.because}
            self._store.drivers.event(DriverEvent(driver_id=folder.name, at=at, kind=NOT_USED, detail=detail))
        write_lease(folder, lease)
        return spawn(spec, folder, self._data, command, environment)

    def _reattach(self, record: DriverRecord, by: str) -> Started:
        event = DriverEvent(driver_id=record.driver_id, at=self._clock(), kind=REATTACHED, detail={"by": by})
        self._store.drivers.event(event)
        spend_permission(self._store, record.stream)
        resolve_incident(self._store, record.stream, self._clock())
        return Started(record, reattached=True)


def _require_own_options(spec: StreamSpec, command: Sequence[str] | None) -> None:
    """Raise ConfigError for a stream of a group that is to be submitted with options: its JVM runs already."""
    foreign = [] if spec.group is None or command is None else foreign_options(command)
    if foreign:
        raise ConfigError(
            f"spark-submit is to get {format_list(foreign)}, and a driver of the group {spec.group} is not submitted",
            expected="no such parameter of the operator, and none in Airflow's connection",
            where=f"stream {spec.name}",
            next_step="say it in `spark` of the stream's file, or remove `group`",
        )


def _not_launched(error: OSError, folder: Path) -> ProcessError:
    return ProcessError(
        f"the driver could not be launched: {error}",
        where=str(folder),
        next_step="make room, or correct the permissions of the data folder",
    )
