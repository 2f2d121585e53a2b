"""The rows of one data file of a table, in the columns of the table as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamwarden.checkpoint.filesystem import Location

if TYPE_CHECKING:
    import pyarrow as pa

    from streamwarden.sources.tables.source import TableFile


def rows_of_file(root: Location, file: TableFile, schema: pa.Schema) -> pa.Table:
    """Of a parquet file on the storage of `root`. Raises OSError, pyarrow's ValueError if it is not one."""
    import pyarrow as pa
    from pyarrow import parquet

    with Location(root.fs, file.path).open() as content:
        found = parquet.read_table(content)
    return pa.Table.from_arrays([_column(found, field, file.partition) for field in schema], schema=schema)


def _column(found: pa.Table, field: pa.Field, partition: Mapping[str, str | None]) -> pa.Array | pa.ChunkedArray:
    """A column of the table; one that is younger than the file has no value there."""
    import pyarrow as pa

    if field.name in partition:
        return pa.repeat(pa.scalar(partition[field.name], pa.string()), found.num_rows).cast(field.type)
    if field.name not in found.column_names:
        return pa.nulls(found.num_rows, field.type)
    column = found[field.name]
    return column if column.type == field.type else column.cast(field.type)
