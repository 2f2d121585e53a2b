"""The rows of data files of an Iceberg table, and its columns as Spark knows them.

Iceberg finds a column in a data file by the id of its field, and other readers by its name. So a table whose columns
were renamed is refused where other readers read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.sources.iceberg.files import IcebergFiles
from streamwarden.sources.tables.rows import rows_of_file
from streamwarden.sources.tables.source import TableFile, gone
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import StaticTable
    from pyiceberg.types import IcebergType

_NAMES: Final = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "string": "string",
    "binary": "binary",
}
"""Iceberg's name of a type -> Spark's, in the JSON of a schema."""


def rows_of(table: IcebergFiles, spec: StreamSpec, files: Sequence[TableFile]) -> Iterator[pa.Table]:
    """The rows of each file in the columns of the table as it is now. Raises VerificationError, OSError."""
    try:
        require_plain(table.static)
    except ValueError as error:
        raise gone(table.path, error) from error
    schema, root = table.static.schema().as_arrow(), open_path(table.path, spec.storage.connection)
    yield from (rows_of_file(root, file, schema) for file in files)


def require_plain(table: StaticTable) -> None:
    """Raises ValueError for a table whose files do not show its rows by the names of its columns."""
    names: dict[int, str] = {}
    for schema in table.metadata.schemas:
        for column in schema.fields:
            if names.setdefault(column.field_id, column.name) != column.name:
                raise ValueError(f"a column of the table was renamed: {names[column.field_id]} and {column.name}")
    form = table.properties.get("write.format.default", "parquet")
    if form != "parquet":
        raise ValueError(f"the data files of the table are of the format {form}, not parquet")


def spark_schema(table: StaticTable) -> Mapping[str, Any]:
    """The columns of the table as Spark writes a StructType. Raises ValueError."""
    require_plain(table)
    fields = [
        {"name": column.name, "type": _type(column.field_type), "nullable": True, "metadata": {}}
        for column in table.schema().fields
    ]
    return {"type": "struct", "fields": fields}


def _type(kind: IcebergType) -> object:
    from pyiceberg.types import DecimalType, ListType, MapType, StructType

    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, ListType):
        return {"type": "array", "elementType": _type(kind.element_type), "containsNull": True}
    if isinstance(kind, MapType):
        key, value = _type(kind.key_type), _type(kind.value_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if isinstance(kind, StructType):
        fields = [
            {"name": field.name, "type": _type(field.field_type), "nullable": True, "metadata": {}}
            for field in kind.fields
        ]
        return {"type": "struct", "fields": fields}
    if str(kind) not in _NAMES:
        raise ValueError(f"the table has a column of the type {kind}, which the audit does not know")
    return _NAMES[str(kind)]
