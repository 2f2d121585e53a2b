"""The data files of an Iceberg table in the order in which Iceberg's streaming source reads them (1.12.0).

A query begins with the oldest snapshot that is kept, or with the first one after a time, and goes from each snapshot to
the next one of the table's history. Of a snapshot it reads the data files that the snapshot added, in the order of its
manifests; an offset says how many of them were read. A compaction (`replace`) is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.access import data_files, static_table
from streamwarden.adapters.iceberg.metadata import Snapshot, TableMetadata
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.checkpoint.table_offsets import IcebergOffset
from streamwarden.errors import CheckpointError
from streamwarden.sources.tables.source import TableFile

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import StaticTable

APPEND: Final = "append"


@dataclass(frozen=True, kw_only=True)
class IcebergFiles:
    """The files of one table.

    Args:
        path: of its folder; connection: to the object store that it is in.
        known: its metadata.
        since: a new query begins with the first snapshot of this time or later, Unix milliseconds; None: with the
            oldest that is kept.
    """

    path: str
    connection: str | None
    known: TableMetadata
    since: int | None = None

    def history(self) -> list[Snapshot]:
        """The snapshots of the table that are kept, oldest first."""
        return list(self.known.history)[::-1]

    def beginning(self) -> IcebergOffset | None:
        """Where a new query begins; None: there is no such snapshot yet."""
        first = next((one for one in self.history() if self.since is None or one.at * 1000 >= self.since), None)
        return None if first is None else IcebergOffset(first.id, 0, every=False)

    def between(self, start: IcebergOffset, end: IcebergOffset | None) -> list[TableFile]:
        """The files from one position up to another; `end`: None: up to the newest snapshot.

        Raises CheckpointError if the table no longer has one of the snapshots, OSError.
        """
        files: list[TableFile] = []
        for snapshot in self._following(start, end):
            begins, ends = snapshot.id == start.snapshot, end is not None and snapshot.id == end.snapshot
            low = start.position if begins else 0
            high = end.position if ends and end is not None else None
            if snapshot.operation == APPEND and low != high:
                files += self.added_by(snapshot, every=begins and start.every)[low:high]
        return files

    def is_kept(self, offset: IcebergOffset) -> bool:
        """Whether the snapshot of an offset is in the table's history."""
        return any(snapshot.id == offset.snapshot for snapshot in self.known.history)

    def added_by(self, snapshot: Snapshot, *, every: bool = False) -> list[TableFile]:
        """The data files that a snapshot added; `every`: all that the table then had. Raises CheckpointError."""
        try:
            return [_file(data, snapshot) for data in data_files(self.static, snapshot.id, every=every)]
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"the manifests of snapshot {snapshot.id} cannot be read: {error}",
                expected="the manifests of each snapshot that is kept, and a storage that answers",
                where=self.path,
                next_step="check the storage; restore what is missing below metadata/",
            ) from error

    @cached_property
    def static(self) -> StaticTable:
        """The table as pyiceberg reads it."""
        return static_table(self.known, self.path, self.connection)

    def _following(self, start: IcebergOffset, end: IcebergOffset | None) -> Iterator[Snapshot]:
        history = self.history()
        places = {snapshot.id: place for place, snapshot in enumerate(history)}
        for offset in (start, *([] if end is None else [end])):
            if offset.snapshot not in places:
                raise _expired(self.path, offset)
        last = len(history) if end is None else places[end.snapshot] + 1
        yield from history[places[start.snapshot] : last]


def _file(data: DataFile, snapshot: Snapshot) -> TableFile:
    return TableFile(path=to_path(data.file_path), size=data.file_size_in_bytes, at=snapshot.at)


def _expired(path: str, offset: IcebergOffset) -> CheckpointError:
    return CheckpointError(
        f"the table no longer has snapshot {offset.snapshot}, at which a batch of the query ends",
        expected="each snapshot since the one that the query has read last, in the history of the table",
        where=path,
        next_step="keep snapshots longer (history.expire.max-snapshot-age-ms) than the stream may stand still",
    )


def files_of_batches(
    table: IcebergFiles, spans: Mapping[int, tuple[IcebergOffset | None, IcebergOffset | None]]
) -> dict[int, list[TableFile]]:
    """Batch -> the files between its two positions. Raises as `between` does."""
    first = table.beginning()
    files = {}
    for batch, (start, end) in spans.items():
        begins = start or first
        files[batch] = [] if end is None or begins is None else table.between(begins, end)
    return files
