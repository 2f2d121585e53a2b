"""Observes drivers, and records the exit of each driver that has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters import processes
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import LogPosition, log_position
from streamwarden.errors import ProcessError, StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.failures.exits import ProcessExit, compose, failure
from streamwarden.lifecycle.failures.outage_causes import CONTAINER_LOST
from streamwarden.lifecycle.lease import Lease, Liveness
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.redaction import remember, secrets_of
from streamwarden.services.fleet.exits.backfill import fill_from_logs, load_spill
from streamwarden.services.fleet.exits.lease_grace import LeaseObserver
from streamwarden.services.fleet.exits.liveness import is_alive, process_alive
from streamwarden.services.fleet.exits.log_tail import last_text
from streamwarden.stream.spark import DeployMode
from streamwarden.waiting import wait_until

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


EXIT_WRITTEN_WITHIN: Final = 10.0
"""Seconds from a driver's end until its supervisor process must have written exit.json; usually 0.01 s."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a driver. `exit` is None while the driver is alive.

    `expired`: its process cannot be seen and its lease has expired. The driver counts as alive until it has not renewed
    the lease for `lease_grace.GRACE` seconds.
    """

    alive: bool
    exit: ExitRecord | None
    record: DriverRecord
    expired: bool = False


class ExitRecorder:
    """Observes drivers without Spark. Each exit is recorded once, however many processes observe the driver."""

    def __init__(self, store: Store, clock: Callable[[], float], alive: Liveness = processes.is_alive) -> None:
        self._store = store
        self._clock = clock
        self._alive = alive
        self._observer = LeaseObserver(alive, clock)

    def observe(self, driver_id: str) -> Observation:
        """Observe a driver without Spark. Records its exit, releases its lease and loads its spilled progress if dead.

        Raises:
            ProcessError: the store has no such driver.
            StoreError: the store is down.
        """
        record = self._store.drivers.get(driver_id)
        if record is None:
            raise ProcessError(
                f"there is no driver {driver_id}", expected="the id of a driver", next_step="see `streamwarden status`"
            )
        return self.observe_record(record)

    def observe_record(self, record: DriverRecord) -> Observation:
        """Observe the driver of a record that was read just now: of one that lives on this host it takes no query.

        Raises StoreError.
        """
        if record.exit is not None:
            return Observation(False, record.exit, record)
        alive = self.is_alive(record)
        if alive is not False:
            return Observation(True, None, record, expired=alive is None)
        return Observation(False, self.record_exit(record), self._store.drivers.get(record.driver_id) or record)

    def is_alive(self, record: DriverRecord) -> bool | None:
        """See `liveness.is_alive`; None: its lease has expired, and may still be renewed."""
        return is_alive(
            record, lease_on=self._store.leases.current, held=self.is_held, now=self._clock(), alive=self._alive
        )

    def is_held(self, lease: Lease | None) -> bool | None:
        """Whether `lease` excludes another writer; see `LeaseObserver.is_held`."""
        return self._observer.is_held(lease)

    def skew(self, lease: Lease) -> float | None:
        """The offset of the holder's clock from this one; see `LeaseObserver.skew`."""
        return self._observer.skew(lease)

    def record_exit(self, record: DriverRecord) -> ExitRecord:
        """Compose and record the exit of a dead driver, release its lease, load the data that the store lacks."""
        folder = Path(record.folder)
        remember(*secrets_of(files.read_spec(folder) or {}))  # the log may repeat one of them
        ended = self._process_exit(folder)
        queries = self._queries(record, folder)
        positions = self._positions(record, queries, folder)
        stop = files.read_stop(folder)
        exit_record = compose(
            files.read_outcome(folder) or self._lost_with_its_container(folder, ended),
            ended,
            now=self._clock(),
            stop=stop,
            log_tail=last_text(folder / files.LOG),
            cut_batch=_cut_batch(positions, queries, folder),
        )
        on_request = exit_record.kind is ExitKind.KILLED and stop is not None
        committed = _committed(positions, record.launched_at) if positions else self._reported(record, queries)
        exit_record = replace(exit_record, committed=committed, on_request=on_request)
        self._store.drivers.exited(record.driver_id, exit_record)
        self._load_progress(record, folder)
        lease = self._store.leases.current(record.checkpoint)
        if lease is not None and lease.holder == record.driver_id and lease.released_at is None:
            self._store.leases.release(lease, now=self._clock())
        if process_alive(folder, record.process, self._alive) is False:
            files.tidy(folder)
        else:  # its host is dead, or cut off: then it may need its temporary files until a newer driver has begun
            files.forget_secrets(folder)
        recorded = self._store.drivers.get(record.driver_id)
        return recorded.exit if recorded is not None and recorded.exit is not None else exit_record

    def _load_progress(self, record: DriverRecord, folder: Path) -> None:
        """Load data that the driver had not stored: events, spilled reports, batches of its last second."""
        query_id = record.query_id
        for event in files.read_events(folder):
            self._store.drivers.event(event)
            if event.kind == files.QUERY_STARTED and query_id is None:
                query_id = event.detail["query_id"]
                self._store.drivers.started(record.driver_id, query_id, event.detail["run_id"], event.at)
        queries = {query.query_id: query for query in self._queries(record, folder)}
        for query in queries.values():
            self._store.queries.started(query)
        load_spill(folder, lambda of: queries[of].identity if of in queries else record.stream, self._store)
        for query in queries.values():
            fill_from_logs(self._store, query.identity, query.query_id, query.checkpoint, _connection(folder))
        if query_id is not None and query_id not in queries:
            fill_from_logs(self._store, record.stream, query_id, record.checkpoint, _connection(folder))

    def _reported(self, record: DriverRecord, queries: Sequence[QueryRecord]) -> bool | None:
        """Whether a batch was reported since the driver was launched, where its checkpoint cannot be read: its spec,
        which names the connection, may be on another host. None: no report is known, and one may have been lost."""
        newest = self._store.batches.newest({record.stream, *(query.identity for query in queries)}).values()
        return True if any(batch.at >= record.launched_at for batch in newest) else None

    def _queries(self, record: DriverRecord, folder: Path) -> Sequence[QueryRecord]:
        """The queries that the driver ran; from the store if its folder is on another host."""
        queries = files.read_queries(folder)
        return queries or [
            query for query in self._store.queries.of(record.stream) if query.driver_id == record.driver_id
        ]

    def _process_exit(self, folder: Path) -> ProcessExit | None:
        """The supervisor's record. Waits while that process is alive, because an exit is recorded only once
        and a disk may stall."""
        supervisor = files.read_document(folder / files.SUPERVISOR)

        def is_final() -> bool:
            if files.read_document(folder / files.EXIT) is not None:
                return True
            return supervisor is None or not self._alive(ProcessIdentity(**supervisor))

        wait_until(is_final, within=EXIT_WRITTEN_WITHIN, every=0.02)
        document = files.read_document(folder / files.EXIT)
        return None if document is None else ProcessExit(**document)

    def _lost_with_its_container(self, folder: Path, ended: ProcessExit | None) -> ExitRecord | None:
        """The outcome of a driver in cluster mode that left none and whose end nobody saw; None: it is another case."""
        if ended is not None or _spec_value(folder, "spark", "deploy_mode") != DeployMode.CLUSTER:
            return None
        return failure(CONTAINER_LOST, "the driver ended without a word", at=self._clock(), cut_batch=None, built=True)

    def _positions(self, record: DriverRecord, queries: Sequence[QueryRecord], folder: Path) -> list[LogPosition]:
        """The position of each query in its checkpoint; empty if one of them cannot be read."""
        places = {query.checkpoint for query in queries} or {record.checkpoint}
        try:
            return [log_position(open_path(place, _connection(folder))) for place in places]
        except (StreamwardenError, OSError):
            return []


def _cut_batch(positions: Sequence[LogPosition], queries: Sequence[QueryRecord], folder: Path) -> bool | None:
    """Whether a planned batch has no commit. None if the checkpoint does not show it: in real-time mode both logs are
    written when a batch ends."""
    real_time = _spec_value(folder, "trigger", "real_time") is not None or any(
        query.trigger.real_time for query in queries
    )
    return None if real_time or not positions else any(position.gap > 0 for position in positions)


def _committed(positions: Sequence[LogPosition], launched_at: float) -> bool:
    """Whether the driver committed a batch of any query. It was the only writer since its launch, so every later commit
    is its own."""
    return any(position.committed_at is not None and position.committed_at >= launched_at for position in positions)


def _connection(folder: Path) -> str | None:
    """The connection to the object store that the driver's checkpoint is in."""
    name = _spec_value(folder, "storage", "connection")
    return str(name) if name else None


def _spec_value(folder: Path, section: str, key: str) -> object:
    """A value of the driver's spec; None if the spec does not set it."""
    return ((files.read_document(folder / files.SPEC) or {}).get(section) or {}).get(key)
