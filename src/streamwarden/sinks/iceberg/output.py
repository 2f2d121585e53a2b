"""Reads a stream's output from its Iceberg table, by another reader than Spark: pyiceberg."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.iceberg.access import static_table
from streamwarden.adapters.iceberg.metadata import TableMetadata
from streamwarden.adapters.iceberg.table import table_of
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.drills.tables import ADDED_COLUMN
from streamwarden.errors import StreamwardenError, VerificationError
from streamwarden.sinks.output import Output, Part
from streamwarden.sinks.output_types import arrow_type
from streamwarden.stream.spec import OutputMode, StreamSpec

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, StaticTable

_SHOWN: Final = 5
"""Batches that a problem names."""


def read_table(spec: StreamSpec, *, committed: int | None, first: int) -> Output:
    """The rows of the table, each with the batch whose snapshot added its file.

    Args:
        committed: the query's newest committed batch: the table must have its snapshot.
        first: first batch that must have a snapshot.

    Raises VerificationError if there is no table, or it cannot be read.
    """
    where = str(spec.sink.path)
    try:
        known = table_of(spec)
    except (OSError, StreamwardenError) as error:
        raise _unread(where, str(error)) from error
    if known is None:
        raise VerificationError(
            "there is no table",
            expected="an Iceberg table of a Hadoop catalog: its metadata is in `metadata/vN.metadata.json`",
            where=where,
            next_step="let the stream commit a batch first",
        )
    query = read_query_id(checkpoint_of(spec)) or ""
    problems = contradictions(known, query, committed, first)
    if spec.sink.mode is OutputMode.APPEND and (twice := known.repeated([query])):
        problems = (*problems, f"the table has the rows of the batches {_named(twice)} more than once")
    return _output(spec, known, query, problems)


def _output(spec: StreamSpec, known: TableMetadata, query: str, problems: tuple[str, ...]) -> Output:
    where = str(spec.sink.path)
    try:
        table = static_table(known, where, spec.storage.connection)
        # A MERGE rewrites rows of other batches.
        batches = _batches_of_files(table, known, query) if spec.sink.mode is OutputMode.APPEND else None
        tasks = list(table.scan().plan_files())
        schema = table.schema().as_arrow()
        parts, unread = [], []
        for task in tasks:
            try:
                parts.append(_part(table, task, batches))
            except (OSError, ValueError) as error:
                unread.append(f"the data file {task.file.file_path} cannot be read, and its rows are lost: {error}")
    except (OSError, ValueError) as error:
        raise _unread(where, str(error)) from error
    return Output(
        columns=tuple(schema.names),
        parts=parts,
        files=len(tasks),
        problems=(*problems, *unread),
        types={field.name: (arrow_type(field.type),) for field in schema},
    ).without_nulls_of(ADDED_COLUMN)


def contradictions(table: TableMetadata, query: str, committed: int | None, first: int) -> tuple[str, ...]:
    """What the snapshots and the commits of the checkpoint say differently. Pure."""
    batches = table.batches([query])
    newest = max(batches, default=None)
    problems = []
    if newest is not None and (committed is None or newest > committed):
        problems.append(f"the table has batches up to {newest}, and the checkpoint has committed batch {committed}")
    if committed is not None and committed not in batches and table.is_whole:
        had = "no batch of this query" if newest is None else f"batches up to {newest}"
        problems.append(f"the table has {had}, and the checkpoint has committed batch {committed}")
    if committed is not None and table.is_whole:
        gaps = [batch for batch in range(first, committed) if batch not in batches]
        problems += [f"the table has no snapshot of the committed batches {_named(gaps)}"] if gaps else []
    return tuple(problems)


def _named(batches: Collection[int]) -> str:
    shown = ", ".join(map(str, list(batches)[:_SHOWN]))
    return shown if len(batches) <= _SHOWN else f"{shown} and {len(batches) - _SHOWN} more"


def _batches_of_files(table: StaticTable, known: TableMetadata, query: str) -> dict[str, int]:
    """Data file -> the batch of the query whose snapshot added it. A file of another writer, such as a compaction, has
    none."""
    batches = {snapshot.id: batch for batch, snapshot in known.batches([query]).items()}
    current = table.current_snapshot()
    manifests = [] if current is None else current.manifests(table.io)
    return {
        entry.data_file.file_path: batches[entry.snapshot_id]
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.snapshot_id in batches
    }


def _part(table: StaticTable, task: FileScanTask, batches: Mapping[str, int] | None) -> Part:
    """The rows of one data file, without those that a delete file takes away, in the columns of today.

    Args:
        batches: data file -> its batch; None: the rows of a file are of several batches.
    """
    import pyarrow as pa
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
    file = task.file.file_path
    numbers = None if batches is None else pa.repeat(pa.scalar(batches.get(file), pa.int64()), rows.num_rows)
    return Part(table=rows, count=rows.num_rows, file=to_path(file), batches=numbers)


def _unread(where: str, said: str) -> VerificationError:
    return VerificationError(
        f"the table cannot be read: {said}",
        expected="a table whose metadata and data files are all there",
        where=where,
        next_step="check that the storage is reachable; if a file is lost, roll the table back to a snapshot that has "
        "all of its files",
    )
