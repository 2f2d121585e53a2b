"""How a driver ended: whether it lives at all, and what is written down and loaded once it does not."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters import keeper, processes
from streamwarden.adapters.backfill import fill_from_logs, load_spill
from streamwarden.adapters.files import open_path
from streamwarden.adapters.lapses import Lapses
from streamwarden.checkpoint.logs import LogPosition, log_position
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle import folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.exits import ProcessExit, compose
from streamwarden.lifecycle.lease import Lease

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


KEEPER_WRITES_WITHIN: Final = 10.0
"""Seconds from a driver's end until its keeper must have written how it ended; a hundredth of one as a rule."""


class ExitRecorder:
    """Looks at drivers without Spark; what it records is recorded once, whoever looks."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lapses = Lapses(processes.is_alive, clock)

    def is_alive(self, record: DriverRecord) -> bool | None:
        """By its process on this host, by its lease on another; None: the lease has lapsed, and may be renewed yet."""
        folder = Path(record.folder)
        process = record.process or files.read_process(folder)
        if process is None and (folder / files.EXIT).exists():
            return False
        seen = processes.is_alive(process) if process is not None else None
        if seen is not None:
            return seen
        lease = self._store.leases.current(record.checkpoint)
        if lease is None or lease.holder != record.driver_id:
            return False
        if lease.process is None:  # a launch that is under way, or failed: then its launcher says so
            return self._clock() < lease.expires_at
        return self.is_held(lease)

    def is_held(self, lease: Lease | None) -> bool | None:
        """Whether `lease` excludes another writer; see `Lapses.is_held`."""
        return self._lapses.is_held(lease)

    def skew(self, lease: Lease) -> float | None:
        """By how much the holder's clock differs from this one's; see `Lapses.skew`."""
        return self._lapses.skew(lease)

    def record_exit(self, record: DriverRecord) -> ExitRecord:
        """Compose and record the exit of a dead driver, release its lease, load what it could not tell the store."""
        folder = Path(record.folder)
        ended = self._process_exit(folder)
        position = self._position(record, folder)
        found = compose(
            files.read_outcome(folder),
            ended,
            now=self._clock(),
            stop=files.read_stop(folder),
            log_tail=files.tail(folder / files.LOG),
            cut_batch=_cut_batch(position, folder),
        )
        found = replace(found, committed=_committed(position, record.launched_at))
        self._store.drivers.exited(record.driver_id, found)
        self._load_progress(record, folder)
        lease = self._store.leases.current(record.checkpoint)
        if lease is not None and lease.holder == record.driver_id and lease.released_at is None:
            self._store.leases.release(lease, now=self._clock())
        if is_seen_dead(folder, record.process):
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
            fill_from_logs(self._store, record.stream, query_id, record.checkpoint, _connection(folder))

    def _process_exit(self, folder: Path) -> ProcessExit | None:
        """What the keeper wrote; it is waited for while it lives: a record is made once, and a disk may stall."""
        deadline = time.monotonic() + KEEPER_WRITES_WITHIN
        guard = files.read_document(folder / keeper.KEEPER)
        while True:
            document = files.read_document(folder / files.EXIT)
            if document is not None:
                return ProcessExit(**document)
            if guard is None or not processes.is_alive(ProcessIdentity(**guard)) or time.monotonic() > deadline:
                return None
            time.sleep(0.02)

    def _position(self, record: DriverRecord, folder: Path) -> LogPosition | None:
        """Where the query stands in its checkpoint; None if that cannot be read."""
        try:
            return log_position(*open_path(record.checkpoint, _connection(folder)))
        except (StreamwardenError, OSError):
            return None


def _cut_batch(position: LogPosition | None, folder: Path) -> bool | None:
    """Whether a planned batch has no commit now; None if the checkpoint cannot tell: in real-time mode both logs are
    written when a batch ends."""
    if position is None or _said(folder, "trigger", "real_time") is not None:
        return None
    return position.gap > 0


def _committed(position: LogPosition | None, launched_at: float) -> bool | None:
    """Whether the driver committed a batch; None if that is not known. From its launch on it was the only writer, so
    every later commit is its own."""
    if position is None:
        return None
    return position.committed_at is not None and position.committed_at >= launched_at


def is_seen_dead(folder: Path, process: ProcessIdentity | None = None) -> bool:
    """Whether the end of the folder's driver was seen: then nobody uses its temporary files any more."""
    known = process or files.read_process(folder)
    return (folder / files.EXIT).exists() or (known is not None and processes.is_alive(known) is False)


def _connection(folder: Path) -> str | None:
    """The connection to the object store that the driver's checkpoint is in."""
    name = _said(folder, "storage", "connection")
    return str(name) if name else None


def _said(folder: Path, section: str, key: str) -> object:
    """What the driver's spec says; None: nothing."""
    return ((files.read_document(folder / files.SPEC) or {}).get(section) or {}).get(key)
