"""Reads a stream's output from its Delta table with delta-rs, and compares the table's batches with the checkpoint.

delta-rs says which data files belong to the table. Each is then read by itself, so that one that is gone, or damaged,
is a deviation whose rows are named, and not the end of the verification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamwarden.adapters.delta.log import batches_of_files, own_batches, path_of
from streamwarden.adapters.delta.table import newest_batch, opened
from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_file
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.drills.tables import ADDED_COLUMN
from streamwarden.errors import CheckpointError, VerificationError
from streamwarden.sinks.files.data import PARQUET, ReadFiles, read_files
from streamwarden.sinks.output import Manifest, Output, Part
from streamwarden.sinks.output_types import arrow_type
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.column_types import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def read_table(spec: StreamSpec, *, committed: int | None, first: int = 0) -> Output:
    """The rows of the stream's table, whoever wrote them.

    Args:
        committed: the query's newest committed batch: the table must have it, and every one that its log still has.
        first: first batch that the fork or the stream wrote itself.

    Raises VerificationError if the table is not there, cannot be read, or needs a reader that this one is not.
    """
    path, connection = str(spec.sink.path), spec.storage.connection
    try:
        table = opened(path, connection)
        query_id = read_query_id(checkpoint_of(spec)) or ""
        root = open_path(path, connection)
        own = own_batches(root, query_id)
    except (CheckpointError, OSError) as error:
        raise _unread(path, getattr(error, "observed", str(error))) from error
    if table is None:
        raise VerificationError(
            "there is no output",
            expected="a Delta table",
            where=path,
            next_step="let the stream commit a batch first",
        )
    _require_readable(table, path)
    newest = newest_batch(table, query_id)
    gaps = tuple(missing(own, committed, first))
    files = partitions_of(table, path)
    data = _with_partitions(read_files(root, list(files), PARQUET), files)
    batches = batches_of_files(root, query_id) if spec.sink.mode is OutputMode.APPEND else {}
    gone = [file for file, _ in data.unreadable if not is_file(Location(root.fs, file))]
    return Output(
        columns=tuple(field.name for field in table.schema().fields),
        parts=[_of_batch(part, batches.get(str(part.file))) for part in data.parts],
        types=data.types,
        manifest=Manifest(newest=newest, files=tuple(files), gaps=gaps, missing=tuple(gone)),
        files=len(files),
        problems=(
            *_contradiction(newest, committed, path),
            *(f"the table's log has no commit of the committed batch {batch}" for batch in gaps),
            *(_not_read(file, reason, gone) for file, reason in data.unreadable),
        ),
        notes={"table_version": table.version()},
    ).without_nulls_of(ADDED_COLUMN)


def missing(own: Mapping[int, object], committed: int | None, first: int) -> Iterator[int]:
    """The committed batches from `first` on without a commit, among those after the oldest that the log still has."""
    oldest = max(first, min(own, default=first))
    return (batch for batch in range(oldest, -1 if committed is None else committed + 1) if batch not in own)


def _contradiction(newest: int | None, committed: int | None, path: str) -> Iterator[str]:
    if committed is not None and (newest is None or newest < committed):
        says = "has no batch of this query" if newest is None else f"has batches up to {newest}"
        yield f"the log of {path} {says}, and the checkpoint has committed batch {committed}"


def partitions_of(table: DeltaTable, path: str) -> dict[str, pa.StructScalar | None]:
    """Data file of the table -> the values of its partition columns, which the file itself does not have."""
    import pyarrow as pa

    listed = pa.table(table.get_add_actions(flatten=False))
    names = [path_of(str(name), path) for name in listed["path"].to_pylist()]
    if "partition" not in listed.column_names:
        return dict.fromkeys(names)
    return dict(zip(names, listed["partition"], strict=True))


def _with_partitions(read: ReadFiles, files: Mapping[str, Any]) -> ReadFiles:
    types: dict[str, Sequence[ColumnType]] = dict(read.types)
    parts = []
    for part in read.parts:
        values = files[str(part.file)]
        for field in values.type if values is not None else ():
            types[field.name] = (arrow_type(field.type),)
            part = _with_column(part, field, values[field.name])
        parts.append(part)
    return replace(read, parts=parts, types=types)


def _with_column(part: Part, field: pa.Field, value: pa.Scalar) -> Part:
    import pyarrow as pa

    return replace(part, table=part.table.append_column(field.name, pa.repeat(value, part.count)))


def _of_batch(part: Part, batch: int | None) -> Part:
    """The rows of a file with the batch that wrote them. A MERGE and a compaction rewrite rows of other batches."""
    import pyarrow as pa

    return part if batch is None else replace(part, batches=pa.repeat(pa.scalar(batch, pa.int64()), part.count))


def _require_readable(table: DeltaTable, path: str) -> None:
    """Raises VerificationError for rows that a data file does not show as they are."""
    configuration = table.metadata().configuration
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _unread(path, "its columns have other names in its files (delta.columnMapping.mode)")
    if table.deletion_vectors().read_all().num_rows:
        raise _unread(path, "it has deletion vectors: rows that are in its files and do not count")


def _not_read(file: str, reason: str, gone: Sequence[str]) -> str:
    what = "is not there" if file in gone else f"cannot be read: {reason}"
    return f"the data file {file_name(file)} of the table {what}, and its rows are lost"


def _unread(path: str, observed: str) -> VerificationError:
    return VerificationError(
        f"the table cannot be verified: {observed}",
        expected="a Delta table whose files hold its rows, and a storage that answers",
        where=path,
        next_step="check the storage; rewrite the table (`REORG TABLE delta.`PATH` APPLY (PURGE)`) if it has deletion "
        "vectors; or verify this stream by hand",
    )
