"""What a drill reads from its fork's checkpoint (a local folder): positions, times, batches, uploaded snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.config import spec_from_dict
from streamwarden.adapters.files import LocalFiles
from streamwarden.adapters.outputs import local_path
from streamwarden.adapters.verification import input_files
from streamwarden.checkpoint.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.logs import LogPosition, committed_times, log_position, planned_times
from streamwarden.checkpoint.sources import source_entries
from streamwarden.checkpoint.state import SSTS, StateFile, StateStore, state_stores
from streamwarden.drills.ports import BatchFact, ForkView
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.stream import SourceKind

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.progress import Progress

_MOST: Final = 10_000
"""Batches of one fork that are read back from the store."""


class ForkCheckpoint:
    """Implements `drills.ports.CheckpointFacts`. Never writes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._files = LocalFiles()

    def position(self, fork: ForkView) -> LogPosition:
        """Where the fork stands now."""
        return log_position(self._files, fork.checkpoint)

    def commit_time(self, fork: ForkView, batch: int) -> float | None:
        """When `commits/batch` was written, Unix seconds."""
        try:
            return (Path(fork.checkpoint) / COMMITS / str(batch)).stat().st_mtime
        except FileNotFoundError:
            return None

    def is_planned(self, fork: ForkView, batch: int) -> bool:
        """Whether `offsets/batch` is there; Spark publishes it whole, by a rename."""
        return (Path(fork.checkpoint) / OFFSETS / str(batch)).is_file()

    def is_committed(self, fork: ForkView, batch: int) -> bool:
        """Whether `commits/batch` is there."""
        return (Path(fork.checkpoint) / COMMITS / str(batch)).is_file()

    def unplanned(self, fork: ForkView) -> int:
        """Input files that the logs of the fork's sources do not have; records that its newest offsets do not reach."""
        spec = spec_from_dict(dict(fork.spec))
        if spec.source.kind is SourceKind.KAFKA:
            from streamwarden.adapters.topic_lag import topic_input

            return topic_input(spec, fork.checkpoint).unseen
        folders = spec.source.folders
        planned = {
            local_path(file.path).name
            for source in range(len(folders))
            for files in source_entries(self._files, fork.checkpoint, source).values()
            for file in files
        }
        inputs = [path for folder in folders for path in input_files(Path(folder))]
        return sum(path.name not in planned for path in inputs)  # names are distinct: a fork needs that

    def batches(self, fork: ForkView) -> Sequence[BatchFact]:
        """Every batch of the fork's own that is in its logs, with Spark's numbers where a report survived."""
        planned = planned_times(self._files, fork.checkpoint)
        committed = committed_times(self._files, fork.checkpoint)
        query = log_position(self._files, fork.checkpoint).query_id  # a fork that began anew had another one before
        reports = {
            batch.batch_id: batch.progress
            for batch in self._store.batches.window(fork.stream, _MOST)
            if batch.progress is not None and batch.progress.query_id == query
        }
        first = 0 if fork.batch is None else fork.batch + 1
        return tuple(
            _fact(batch, planned.get(batch), committed.get(batch), reports.get(batch))
            for batch in sorted(planned.keys() | committed.keys())
            if batch >= first
        )

    def snapshot(self, fork: ForkView) -> SnapshotFacts:
        """The newest uploaded snapshot of each partition; the oldest of these bounds what a restart replays."""
        backend = spec_from_dict(dict(fork.spec)).state.backend
        stores = state_stores(self._files, fork.checkpoint)
        newest = [_newest_snapshot(store) for store in stores]
        known = [file for file in newest if file is not None]
        complete = bool(known) and len(known) == len(newest)
        return SnapshotFacts(
            backend=backend,
            version=min(file.version for file in known) if complete else None,
            size=sum(file.size for file in known) + sum(_table_bytes(store) for store in stores),
        )


def _newest_snapshot(store: StateStore) -> StateFile | None:
    return max((file for file in store.files if file.kind.is_snapshot), key=lambda file: file.version, default=None)


def _table_bytes(store: StateStore) -> int:
    """All SSTs of a RocksDB store. Its snapshots share them, so this is at least what the newest one names."""
    return sum(size for name, size in store.other.items() if name.startswith(SSTS))


def _fact(batch: int, planned: float | None, committed: float | None, report: Progress | None) -> BatchFact:
    changed = None
    if report is not None:
        changed = sum(operator.rows_updated + operator.rows_removed for operator in report.operators)
    return BatchFact(
        batch_id=batch,
        planned_at=planned,
        committed_at=committed,
        rows=report.rows if report is not None else None,
        rows_changed=changed,
    )
