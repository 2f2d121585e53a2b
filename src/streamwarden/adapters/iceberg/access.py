"""How pyiceberg reaches a table and its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamwarden.adapters.iceberg.metadata import TableMetadata
from streamwarden.adapters.storage.object_stores import access
from streamwarden.stream.spec import OBJECT_STORE

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import StaticTable


def static_table(known: TableMetadata, path: str, connection: str | None) -> StaticTable:
    """The table at `path` as pyiceberg reads it. Raises ConfigError."""
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(known.file, properties=_properties(path, connection))


def data_files(table: StaticTable, snapshot: int, *, every: bool = False) -> Iterator[DataFile]:
    """The data files that a snapshot added, in the order of its manifests; `every`: all that the table then had. Empty
    if the snapshot is not kept. Raises OSError, ValueError."""
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    kept = table.snapshot_by_id(snapshot)
    for manifest in () if kept is None else kept.manifests(table.io):
        if manifest.content != ManifestContent.DATA or not (every or manifest.added_snapshot_id == snapshot):
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if every or (entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot):
                yield entry.data_file


def _properties(path: str, connection: str | None) -> dict[str, str]:
    """What pyiceberg needs for a table in an object store; nothing for one on this host. Raises ConfigError."""
    if not OBJECT_STORE.match(path):
        return {}
    found = access(connection)
    named = {
        "s3.endpoint": found.endpoint,
        "s3.access-key-id": found.key,
        "s3.secret-access-key": found.secret,
        "s3.session-token": found.token,
        "s3.region": found.region,
        "s3.force-virtual-addressing": None if found.path_style else "true",
    }
    return {name: value for name, value in named.items() if value is not None}
