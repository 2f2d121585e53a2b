"""Reads a fork's checkpoint for a drill: positions, times, batches, uploaded snapshots.

Times are those of the files. An object store may report them in whole seconds, and by its own clock.
"""

from collections.abc import Sequence
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.batch_progress import BatchTraces, read_traces
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import (
    LogPosition,
    committed_times,
    log_position,
    offsets,
    planned_times,
    unreadable,
    written_at,
)
from streamwarden.checkpoint.formats.state import SSTS, StateFile, StateStore, state_stores
from streamwarden.drills.records.types import BatchFact, ForkView, PlanTimes
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.location import same_place
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.progress import Progress
from streamwarden.services.forks.scripts import fork_queries, unplanned
from streamwarden.sources.base import Source

_MOST: Final = 10_000
"""Batches of one fork that are read back from the store."""


class ForkCheckpoint:
    """Implements `drills.ports.CheckpointReader`. Never writes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def position(self, fork: ForkView) -> LogPosition:
        return log_position(_checkpoint(fork))

    def commit_time(self, fork: ForkView, batch: int) -> float | None:
        return _written_at(fork, COMMITS, batch)

    def plan_times(self, fork: ForkView, batch: int) -> PlanTimes | None:
        """The time in `offsets/batch`, and the one of that file."""
        storage = _written_at(fork, OFFSETS, batch)
        try:
            driver = offsets(_checkpoint(fork), batch).timestamp_ms / 1000
        except CheckpointError:
            return None
        return None if storage is None else PlanTimes(driver=driver, storage=storage)

    def is_planned(self, fork: ForkView, batch: int) -> bool:
        """Whether `offsets/batch` is there; Spark publishes it whole, by a rename."""
        return _written_at(fork, OFFSETS, batch) is not None

    def is_committed(self, fork: ForkView, batch: int) -> bool:
        return _written_at(fork, COMMITS, batch) is not None

    def unplanned(self, fork: ForkView) -> int:
        """Input files that the logs of the fork's sources do not have; records that its newest offsets do not reach."""
        if fork.spec.fork is not None:
            return sum(unplanned(query, fork.spec.storage.connection) for query in fork_queries(fork.spec)[:1])
        source = fork.spec.source
        assert isinstance(source, Source)  # no other source can be forked
        return source.unplanned(fork.spec)

    def traces(self, fork: ForkView, batch: int) -> BatchTraces:
        sink = fork.spec.sink
        output = open_path(str(sink.path), fork.spec.storage.connection) if sink.MANIFEST else None
        return read_traces(_checkpoint(fork), output, batch)

    def batches(self, fork: ForkView) -> Sequence[BatchFact]:
        """Every batch that the fork itself logged, with Spark's numbers if its progress report survived."""
        checkpoint = _checkpoint(fork)
        planned, committed = planned_times(checkpoint), committed_times(checkpoint)
        query = log_position(checkpoint).query_id  # a fork that was remediated had another one before
        reports = {
            batch.batch_id: batch.progress
            for batch in self._store.batches.window(self._name(fork), _MOST)
            if batch.progress is not None and batch.progress.query_id == query
        }
        first = 0 if fork.batch is None else fork.batch + 1
        return tuple(
            _fact(batch, planned.get(batch), committed.get(batch), reports.get(batch))
            for batch in sorted(planned.keys() | committed.keys())
            if batch >= first
        )

    def _name(self, fork: ForkView) -> str:
        """The name under which the store keeps the batches of `_checkpoint`."""
        queries = self._store.queries.of(fork.stream) if fork.spec.fork is not None else ()
        first = _place(fork)
        return next((query.identity for query in queries if same_place(query.checkpoint, first)), fork.stream)

    def snapshot(self, fork: ForkView) -> SnapshotFacts:
        """The newest uploaded snapshot of each partition; the oldest of these bounds what a restart replays."""
        backend = fork.spec.state.backend
        stores = state_stores(_checkpoint(fork))
        newest = [_newest_snapshot(store) for store in stores]
        snapshots = [file for file in newest if file is not None]
        complete = bool(snapshots) and len(snapshots) == len(newest)
        return SnapshotFacts(
            backend=backend,
            version=min(file.version for file in snapshots) if complete else None,
            size=sum(file.size for file in snapshots) + sum(_table_bytes(store) for store in stores),
        )


def _checkpoint(fork: ForkView) -> Location:
    return open_path(_place(fork), fork.spec.storage.connection)


def _place(fork: ForkView) -> str:
    """The checkpoint whose batches time the fault and the recovery: of a script, that of its first query with an
    output. No batch has the name of a query, so that the root is an empty checkpoint until one has started."""
    return next((query.checkpoint for query in fork_queries(fork.spec)), fork.checkpoint)


def _written_at(fork: ForkView, log: str, batch: int) -> float | None:
    checkpoint = _checkpoint(fork)
    try:
        return written_at(checkpoint, log, batch)
    except OSError as error:
        raise unreadable(checkpoint, error) from error


def _newest_snapshot(store: StateStore) -> StateFile | None:
    return max((file for file in store.files if file.kind.is_snapshot), key=lambda file: file.version, default=None)


def _table_bytes(store: StateStore) -> int:
    """Bytes of all SSTs of a RocksDB store. Its snapshots share them: the newest one has at most these."""
    return sum(size for name, size in store.other.items() if name.startswith(SSTS))


def _fact(batch: int, planned: float | None, committed: float | None, report: Progress | None) -> BatchFact:
    return BatchFact(
        batch_id=batch,
        planned_at=planned,
        committed_at=committed,
        rows=report.rows if report is not None else None,
        rows_changed=report.rows_changed if report is not None else None,
    )
