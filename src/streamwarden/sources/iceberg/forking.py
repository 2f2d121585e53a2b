"""The table that a fork reads: metadata of its own that names the snapshots and data files of its origin's as of now.

Nothing is copied. Snapshots keep their ids, which the offsets of the checkpoint name. The table never grows: a fork
reads what was there when it was made.
"""

from streamwarden.adapters.iceberg.clone import cloned
from streamwarden.adapters.iceberg.metadata import TableMetadata
from streamwarden.adapters.iceberg.table import HINT, METADATA
from streamwarden.adapters.storage.files import open_path
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import OBJECT_STORE


def clone_table(table: TableMetadata, path: str, target: str) -> None:
    """Make the table of a fork of the one at `path` in the folder `target`. Raises CheckpointError, OSError."""
    if OBJECT_STORE.match(path):
        raise CheckpointError(
            "the stream reads a table in an object store, which a fork on this host does not reach",
            expected="a table on a disk of this host",
            where=path,
            next_step="drill a stream that reads a copy of the table on a disk",
        )
    metadata = open_path(target) / METADATA
    newest = None if table.current is None else table.snapshots[table.current]
    (metadata / HINT).write(b"1")
    (metadata / "v1.metadata.json").write(cloned(table, target, newest))
