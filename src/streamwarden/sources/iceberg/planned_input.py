"""What Spark would find out one by one is said before the query starts: a table whose snapshots were expired below the
stream's offset, so that the query does not find where to go on.

The driver looks, in an environment without pyiceberg: it reads the newest metadata file of the table alone.
"""

from __future__ import annotations

import contextlib

from streamwarden.adapters.iceberg.table import table_in
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.table_offsets import IcebergOffset, iceberg_offset, table_offsets
from streamwarden.errors import CheckpointError, TableInputGone
from streamwarden.lifecycle.failures.causes import TABLE_INPUT_GONE
from streamwarden.stream.spec import StreamSpec


def require_planned_input(path: str, spec: StreamSpec) -> None:
    """Raises TableInputGone if the snapshot is gone at which the newest committed batch ends."""
    with contextlib.suppress(CheckpointError, OSError):  # Spark meets it, and its reader reports it
        begins, table = _committed(spec), table_in(path, spec.storage.connection)
        if begins is None or table is None:
            return
        if begins.snapshot not in {snapshot.id for snapshot in table.history}:
            raise TableInputGone(
                f"the table {path} no longer has snapshot {begins.snapshot}, from which the stream goes on",
                expected="the snapshots of a table until every stream that reads it has read them",
                where=f"stream {spec.name}",
                next_step=TABLE_INPUT_GONE.next_step,
            )


def _committed(spec: StreamSpec) -> IcebergOffset | None:
    """Where the newest committed batch ends."""
    checkpoint = checkpoint_of(spec)
    batch = log_position(checkpoint).committed
    return None if batch is None else table_offsets(checkpoint, iceberg_offset).get(batch)
