"""The rows of data files of a Delta table, as delta-rs and pyarrow read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamwarden.sources.delta.files import DeltaFiles
from streamwarden.sources.tables.rows import rows_of_file
from streamwarden.sources.tables.source import TableFile, gone

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def rows_of(table: DeltaFiles, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    """The rows of each file in the columns of the table as it is now. Raises VerificationError, OSError."""
    import pyarrow as pa

    if not files:
        return
    now = table.as_of()
    try:
        require_plain(now)
    except ValueError as error:
        raise gone(table.root.path, error) from error
    schema = pa.schema(now.schema().to_arrow())
    for file in files:
        yield rows_of_file(table.root, file, schema)


def spark_schema(table: DeltaTable) -> Mapping[str, Any]:
    """The table's columns as Spark writes a StructType, which Delta's log has them in. Raises ValueError for a table
    whose files alone do not show its rows."""
    require_plain(table)
    schema: Mapping[str, Any] = json.loads(table.schema().to_json())
    return schema


def require_plain(table: DeltaTable) -> None:
    """Raises ValueError for rows that a data file does not show as they are."""
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise ValueError("the columns of the table have other names in its files (delta.columnMapping.mode)")
    if table.deletion_vectors().read_all().num_rows:
        raise ValueError("the table has deletion vectors: rows that are in its files and do not count")
