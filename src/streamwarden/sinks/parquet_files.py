"""Reads parquet files of one output, each by itself: they may differ in their columns and types, and some may be
damaged. What cannot be read is reported beside the rows of the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import VerificationError
from streamwarden.sinks.output_types import arrow_type
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


def read_files(root: Location, files: Sequence[str]) -> ReadFiles:
    """Read every file. One that is named twice counts twice.

    Raises VerificationError if the storage does not answer for the folder `root` either.
    """
    import pyarrow as pa

    read: list[_File] = []
    unreadable: list[tuple[str, str]] = []
    for file in files:
        try:
            read.append(_read(Location(root.fs, file)))
        except MemoryError:  # which says nothing of the file
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            _require_answer(root, error)
            unreadable.append((file, " ".join(str(error).split())))
    types: dict[str, list[ColumnType]] = {}
    for each in read:
        for name, kind in each.types.items():
            kinds = types.setdefault(name, [])
            if kind not in kinds:
                kinds.append(kind)
    columns = tuple(types)
    rows = [row for each in read for row in each.rows(columns)]
    return ReadFiles(columns=columns, types=types, rows=rows, unreadable=unreadable)


@dataclass(frozen=True, slots=True)
class _File:
    types: Mapping[str, ColumnType]
    values: Mapping[str, list[object]]
    count: int

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
        nulls: list[object] = [None] * self.count
        return zip(*(self.values.get(name, nulls) for name in columns), strict=True)


def _read(file: Location) -> _File:
    """One file.

    Raises ArrowException, OSError, ValueError or OverflowError if it is damaged, or holds a value that Python has
    nothing for, such as an instant of the year 10000.
    """
    import pyarrow.parquet as pq

    with file.open() as opened:
        table = pq.ParquetFile(opened).read()
    return _File(
        types={each.name: arrow_type(each.type) for each in table.schema},
        values={name: _plain(table.column(name)) for name in table.column_names},
        count=table.num_rows,
    )


def _require_answer(root: Location, error: Exception) -> None:
    """A storage that is away says nothing of the file."""
    try:
        root.stat()
    except OSError as away:
        raise VerificationError(
            f"the output cannot be read: {error}",
            expected="a storage that answers",
            where=root.path,
            next_step="see that the storage is reachable and the credentials are right",
        ) from away


def _plain(column: pa.ChunkedArray) -> list[object]:
    """Python values. Spark's timestamps (INT96, nanoseconds, no zone) are UTC instants in whole microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    values: list[object] = column.to_pylist()
    return values
