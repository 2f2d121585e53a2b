"""Reads the data files of one output, each by itself: they may differ in their columns and types, and some may be
damaged. What cannot be read is reported with the rows of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import VerificationError
from streamwarden.sinks.output_types import arrow_type
from streamwarden.verification.column_types import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa


COMPRESSED: Final = (".gz", ".bz2", ".deflate")
"""What Spark adds to the name of a file of text that it compresses."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """What one data file holds: each column's types and values, and the number of rows."""

    types: Mapping[str, Sequence[ColumnType]]
    values: Mapping[str, Sequence[object]]
    count: int

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """The rows. A column that the file does not have is null in each."""
        nulls: list[object] = [None] * self.count
        return zip(*(self.values.get(name, nulls) for name in columns), strict=True)


@dataclass(frozen=True, slots=True)
class DataFormat:
    """A format of data files.

    Args:
        name: as Spark calls it.
        suffix: what the name of a data file ends with, before the suffix of its compression.
        read: reads an open file by its name. Raises ArrowException, OSError, ValueError or OverflowError if the file is
            damaged, or holds a value that Python has no type for, such as an instant of the year 10000.
    """

    name: str
    suffix: str
    read: Callable[[BinaryIO, str], DataFile]

    def names(self, path: str) -> bool:
        """Whether `path` is the name of such a file: `part-0.json`, `part-0.json.gz`."""
        return path.endswith(tuple(f".{self.suffix}{each}" for each in ("", *COMPRESSED)))


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


def read_files(root: Location, files: Sequence[str], data_format: DataFormat) -> ReadFiles:
    """Read every file. One that is named twice counts twice.

    Raises VerificationError if the storage does not answer for the folder `root` either.
    """
    import pyarrow as pa

    read: list[DataFile] = []
    unreadable: list[tuple[str, str]] = []
    for file in files:
        try:
            with root.fs.open(file) as opened:
                read.append(data_format.read(opened, file))
        except MemoryError:  # which says nothing of the file
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            _require_answer(root, error)
            unreadable.append((file, " ".join(str(error).split())))
    types: dict[str, list[ColumnType]] = {}
    for each in read:
        for name, kinds in each.types.items():
            known = types.setdefault(name, [])
            known += [kind for kind in kinds if kind not in known]
    columns = tuple(types)
    rows = [row for each in read for row in each.rows(columns)]
    return ReadFiles(columns=columns, types=types, rows=rows, unreadable=unreadable)


def of_table(table: pa.Table) -> DataFile:
    """A data file that knows its own types."""
    return DataFile(
        types={each.name: (arrow_type(each.type),) for each in table.schema},
        values={name: _plain(table.column(name)) for name in table.column_names},
        count=table.num_rows,
    )


def _read_parquet(opened: BinaryIO, _: str) -> DataFile:
    import pyarrow.parquet as pq

    return of_table(pq.ParquetFile(opened).read())


PARQUET: Final = DataFormat("parquet", "parquet", _read_parquet)


def _require_answer(root: Location, error: Exception) -> None:
    """A storage that is unavailable says nothing of the file."""
    try:
        root.stat()
    except OSError as unavailable:
        raise VerificationError(
            f"the output cannot be read: {error}",
            expected="a storage that answers",
            where=root.path,
            next_step="see that the storage is reachable and the credentials are right",
        ) from unavailable


def _plain(column: pa.ChunkedArray) -> list[object]:
    """Python values. Spark's timestamps (INT96, nanoseconds, no zone) are UTC instants in whole microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    values: list[object] = column.to_pylist()
    return values
