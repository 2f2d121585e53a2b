"""The files of an Iceberg table and of its metadata, for the health monitor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.access import static_table
from streamwarden.adapters.iceberg.metadata import TableMetadata
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.errors import CheckpointError
from streamwarden.health.window import TableShape
from streamwarden.sinks.iceberg.spark_table import CATALOG
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import StaticTable

READ: Final = 1000
"""Manifests of which the data files are counted, the newest: each is a request."""


def shape_of(spec: StreamSpec) -> TableShape | None:
    """None if there is no table yet. Raises CheckpointError, MissingExtra, OSError."""
    known = table_of(spec)
    if known is None:
        return None
    try:
        path = str(spec.sink.path)
        return _shape(static_table(known, path, spec.storage.connection), known, path.rpartition("/")[2])
    except ValueError as error:
        raise CheckpointError(
            f"the manifests of the table cannot be read: {error}",
            expected="the metadata of an Iceberg table",
            where=known.file,
            next_step="roll the table back to a snapshot that has all of its files",
        ) from error


def _shape(table: StaticTable, known: TableMetadata, name: str) -> TableShape:
    current = table.current_snapshot()
    manifests = [] if current is None else current.manifests(table.io)
    newest = sorted(manifests, key=lambda manifest: manifest.sequence_number or 0, reverse=True)[:READ]
    procedure = f"CALL {CATALOG}.system.{{}}('{name}')"
    return TableShape.of(
        _files(table, known, newest),
        log=len(manifests),
        compact=procedure.format("rewrite_data_files"),
        summarise=procedure.format("rewrite_manifests"),
    )


def _files(table: StaticTable, known: TableMetadata, manifests: list[ManifestFile]) -> Iterator[tuple[int, float]]:
    """Size and time of each data file. One whose snapshot was expired is as old as the oldest snapshot that is kept."""
    from pyiceberg.manifest import DataFileContent

    oldest = min((snapshot.at for snapshot in known.snapshots.values()), default=0.0)
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content == DataFileContent.DATA:
                snapshot = known.snapshots.get(entry.snapshot_id or 0)
                yield entry.data_file.file_size_in_bytes, oldest if snapshot is None else snapshot.at
