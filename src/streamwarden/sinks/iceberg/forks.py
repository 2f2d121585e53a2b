"""Makes the table of a fork: see `adapters.iceberg.clone`."""

from streamwarden.adapters.iceberg.clone import cloned
from streamwarden.adapters.iceberg.metadata import Snapshot, TableMetadata
from streamwarden.adapters.iceberg.table import HINT, METADATA, table_of
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError
from streamwarden.stream.spec import StreamSpec


def make_empty(origin: StreamSpec, forked: StreamSpec) -> None:
    """An empty table with the columns, the partitions and the properties of the origin's; if that is not there yet, the
    fork's driver makes one. Raises CheckpointError."""
    table = _table(origin)
    if table is not None:
        _write(forked, cloned(table, str(forked.sink.path), None))


def copy(origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None) -> int:
    """A table that begins with the origin's rows up to `rewind` batches before its newest; see `Sink.copy`. Raises
    CheckpointError."""
    query = read_query_id(checkpoint_of(origin)) or ""
    table = _table(origin)
    batches = {} if table is None else table.batches([query])
    newest = max(batches, default=None) if upto is None else upto
    snapshot = None if newest is None else batches.get(newest - rewind)
    if table is None or newest is None or snapshot is None:
        raise _no_batch(origin, table, query, batches, None if newest is None else newest - rewind)
    _write(forked, cloned(table, str(forked.sink.path), snapshot, [query], query_id))
    return newest


def _no_batch(
    origin: StreamSpec, table: TableMetadata | None, query: str, batches: dict[int, Snapshot], wanted: int | None
) -> CheckpointError:
    if table is None or wanted is None:
        observed = "the table has no snapshot of the stream's query" if table is not None else "there is no table yet"
    else:
        observed = f"no snapshot of batch {wanted} is kept: those of batches {min(batches)} to {max(batches)} are"
    return CheckpointError(
        observed,
        expected=f"a snapshot that the query {query or 'of the checkpoint'} made, not expired, to fork at",
        where=str(origin.sink.path),
        next_step="wait for the next batch, choose a batch whose snapshot is kept, or fork from the beginning "
        "(`rewind: all`)",
    )


def _table(spec: StreamSpec) -> TableMetadata | None:
    try:
        return table_of(spec)
    except OSError as error:
        raise CheckpointError(
            f"the metadata of the table cannot be read: {error}",
            expected="a table on a disk of this host, on s3a:// or on hdfs://",
            where=str(spec.sink.path),
            next_step="check that the storage is reachable and the credentials are correct",
        ) from error


def _write(forked: StreamSpec, document: bytes) -> None:
    """The metadata comes last: what a reader finds is a whole table."""
    metadata = open_path(str(forked.sink.path), forked.storage.connection) / METADATA
    try:
        (metadata / HINT).write(b"1")
        (metadata / "v1.metadata.json").write(document)
    except OSError as error:
        raise CheckpointError(
            f"the table of the fork cannot be written: {error}",
            expected="a folder that can be written",
            where=metadata.path,
            next_step="check the disk (df), or the storage and the connection to it",
        ) from error
