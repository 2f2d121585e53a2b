"""Reads the data files of one output, each by itself: they may differ in their columns and types, and some may be
damaged. Unreadable files are reported with the rows of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.errors import VerificationError
from streamwarden.sinks.columns import table_of
from streamwarden.sinks.output import Part
from streamwarden.sinks.output_types import arrow_type
from streamwarden.verification.comparing.column_types import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa


COMPRESSED: Final = (".gz", ".bz2", ".deflate")
"""Suffixes that Spark adds to the name of a compressed text file."""


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """The content of one data file: each column's types, the columns, and the number of rows."""

    types: Mapping[str, Sequence[ColumnType]]
    table: pa.Table
    count: int


def of_values(
    types: Mapping[str, Sequence[ColumnType]], values: Mapping[str, Sequence[object]], count: int
) -> DataFile:
    """A data file of text, of which each value was parsed."""
    return DataFile(types, table_of(values), count)


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
        return path.endswith(tuple(f".{self.suffix}{compression}" for compression in ("", *COMPRESSED)))


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
    parts: Sequence[Part] = field(repr=False)
    unreadable: Sequence[tuple[str, str]] = ()


def read_files(root: Location, files: Sequence[str], data_format: DataFormat) -> ReadFiles:
    """Read every file; a file listed twice is read twice.

    Raises VerificationError if the storage does not answer for the folder `root` either.
    """
    import pyarrow as pa

    parts: list[Part] = []
    types: dict[str, list[ColumnType]] = {}
    unreadable: list[tuple[str, str]] = []
    for file in files:
        try:
            with root.fs.open(file) as opened:
                content = data_format.read(opened, file)
        except MemoryError:  # which says nothing of the file
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            _require_answer(root, error)
            unreadable.append((file, " ".join(str(error).split())))
            continue
        parts.append(Part(table=content.table, count=content.count, file=file))
        for name, kinds in content.types.items():
            column_types = types.setdefault(name, [])
            column_types += [kind for kind in kinds if kind not in column_types]
    return ReadFiles(columns=tuple(types), types=types, parts=parts, unreadable=unreadable)


def of_table(table: pa.Table) -> DataFile:
    """A data file that knows its own types.

    Raises ArrowInvalid for a text that is not UTF-8, ValueError or OverflowError for an instant or a day outside the
    years 1 to 9999.
    """
    import pyarrow as pa

    types = {arrow_field.name: (arrow_type(arrow_field.type),) for arrow_field in table.schema}
    # Made without the fields' own metadata: a file must not be able to declare a column as boxed.
    plain = pa.table([_plain(column) for column in table.columns], names=table.column_names)
    plain.validate(full=True)
    return DataFile(types=types, table=plain, count=table.num_rows)


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
            next_step="check that the storage is reachable and the credentials are correct",
        ) from unavailable


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Instants in whole microseconds: Spark's timestamps (INT96, nanoseconds, no zone) are UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz="UTC"))
    # Reading a value as Python's fails for one that Python has no type for.
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        pc.min_max(column).as_py()
    elif pa.types.is_nested(column.type):
        for chunk in column.chunks:
            chunk.to_pylist()
    return column
