"""Reads parquet files of one output, each by itself: they may differ in their columns and types, and some may be
damaged. What cannot be read is reported beside the rows of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamwarden.adapters.output_types import arrow_type
from streamwarden.checkpoint.filesystem import FileSystem
from streamwarden.errors import VerificationError
from streamwarden.verification.column_types import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFiles:
    """The rows of the files that could be read.

    Args:
        columns: of all files, in the order in which they come. A file without one of them has null there.
        types: column -> each type that it has in some file.
        unreadable: (file, what its reader says) of the others.
    """

    columns: tuple[str, ...]
    types: Mapping[str, Sequence[ColumnType]]
    rows: Sequence[tuple[object, ...]] = field(repr=False)
    unreadable: Sequence[tuple[str, str]] = ()


def read_files(fs: FileSystem, root: str, files: Sequence[str]) -> ReadFiles:
    """Read every file. One that is named twice counts twice.

    Raises VerificationError if the storage does not answer for the folder `root` either.
    """
    import pyarrow as pa

    tables: list[pa.Table] = []
    unreadable: list[tuple[str, str]] = []
    for file in files:
        try:
            tables.append(_table(fs, file))
        except (pa.ArrowException, OSError) as error:  # pyarrow calls a damaged page either
            _require_answer(fs, root, error)
            unreadable.append((file, " ".join(str(error).split())))
    types: dict[str, list[ColumnType]] = {}
    for table in tables:
        for each in table.schema:
            kinds, kind = types.setdefault(each.name, []), arrow_type(each.type)
            if kind not in kinds:
                kinds.append(kind)
    columns = tuple(types)
    rows = [row for table in tables for row in _rows(table, columns)]
    return ReadFiles(columns=columns, types=types, rows=rows, unreadable=unreadable)


def _table(fs: FileSystem, file: str) -> pa.Table:
    import pyarrow.parquet as pq

    with fs.open(file) as opened:
        return pq.ParquetFile(opened).read()


def _require_answer(fs: FileSystem, root: str, error: Exception) -> None:
    """A storage that is away says nothing of the file."""
    try:
        fs.stat(root)
    except OSError as away:
        raise VerificationError(
            f"the output cannot be read: {error}",
            expected="a storage that answers",
            where=root,
            next_step="see that the storage is reachable and the credentials are right",
        ) from away


def _rows(table: pa.Table, columns: Sequence[str]) -> list[tuple[object, ...]]:
    nulls: list[object] = [None] * table.num_rows
    values = [_plain(table.column(name)) if name in table.column_names else nulls for name in columns]
    return list(zip(*values, strict=True))


def _plain(column: pa.ChunkedArray) -> list[object]:
    """Python values. Spark's timestamps (INT96, nanoseconds, no zone) are UTC instants in whole microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    values: list[object] = column.to_pylist()
    return values
