"""The types of a sink's columns in Spark's words: of parquet files, of JSON values, of a PostgreSQL table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from streamwarden.verification.comparing.column_types import (
    ANYTHING,
    DECIMAL,
    EACH,
    FRACTIONS,
    INTEGERS,
    ColumnType,
    scalar,
)

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(kind: pa.DataType) -> ColumnType:
    """The type of a parquet column as pyarrow reads it."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        # Spark's instants are INT96 (nanoseconds without a zone) or microseconds in UTC.
        return scalar("timestamp_ntz" if kind.tz is None and kind.unit != "ns" else "timestamp")
    if pa.types.is_decimal(kind):
        return scalar(f"decimal({kind.precision},{kind.scale})")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = arrow_type(kind.value_type)
        return ColumnType(f"array<{element.shown}>", frozenset({"array"}), ((EACH, element),))
    if pa.types.is_map(kind):
        value = arrow_type(kind.item_type)
        shown = f"map<{arrow_type(kind.key_type).shown},{value.shown}>"
        return ColumnType(shown, frozenset({"map"}), ((EACH, value),))
    if pa.types.is_struct(kind):
        parts = tuple((field.name, arrow_type(field.type)) for field in kind)
        shown = ",".join(f"{name}:{part.shown}" for name, part in parts)
        return ColumnType(f"struct<{shown}>", frozenset({"struct"}), parts)
    if pa.types.is_null(kind):
        return ANYTHING
    return scalar(_OF_ARROW.get(str(kind), str(kind)))


_OF_ARROW: Final[Mapping[str, str]] = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "large_string": "string",
    "large_binary": "binary",
}

_JSON_SCALARS: Final[Mapping[type, ColumnType]] = {
    bool: scalar("a JSON boolean", "boolean"),
    int: scalar("a JSON number without a fraction", *INTEGERS, DECIMAL),
    Decimal: scalar("a JSON number with a fraction", *FRACTIONS, DECIMAL),
    float: scalar(
        "a JSON number without an end", *FRACTIONS
    ),  # NaN and the infinities, which strict JSON does not have
    str: scalar("a JSON text", "string", "timestamp", "timestamp_ntz", "date", "binary", *FRACTIONS),  # NaN is a text
}


def json_types(value: object) -> Iterator[ColumnType]:
    """The types that a value of a JSON object shows for its column; none if it is null.

    A value with parts of different types gives several descriptions, each of a part of it.

    Args:
        value: as `json.loads` has it, with fractions as Decimal.
    """
    if isinstance(value, list):
        yield _JSON_ARRAY
        for kind in {kind for item in value for kind in json_types(item)}:
            yield ColumnType(f"a JSON array of {kind.shown}", _JSON_ARRAY.possible, ((EACH, kind),))
    elif isinstance(value, dict):
        yield _JSON_OBJECT
        for name, item in value.items():
            for kind in json_types(item):
                yield ColumnType(f"a JSON object with {name}: {kind.shown}", _JSON_OBJECT.possible, ((name, kind),))
    elif value is not None:
        yield _JSON_SCALARS[type(value)]


_JSON_ARRAY: Final = scalar("a JSON array", "array")
_JSON_OBJECT: Final = scalar("a JSON object", "struct", "map")


def postgresql_type(written: str) -> ColumnType:
    """A type of PostgreSQL (in the spelling of psycopg's `type_display`), as the table sink takes rows into it."""
    if written.endswith("[]"):
        element = postgresql_type(written.removesuffix("[]"))
        return ColumnType(written, frozenset({"array"}), ((EACH, element),))
    name = re.sub(r"\([^()]*\)", "", written).strip()
    possible = _OF_POSTGRESQL.get(name)
    return ColumnType(written, None) if possible is None else scalar(written, *possible)


_OF_POSTGRESQL: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("boolean",),
    "int2": ("tinyint", "smallint"),
    "int4": ("tinyint", "smallint", "int"),
    "int8": ("tinyint", "smallint", "int", "bigint"),
    "float4": ("float",),
    "float8": ("float", "double"),
    "numeric": (DECIMAL,),
    "text": ("string",),
    "varchar": ("string",),
    "bpchar": ("string",),
    "bytea": ("binary",),
    "date": ("date",),
    "timestamptz": ("timestamp",),
    "timestamp": ("timestamp_ntz",),
    "jsonb": ("array", "map", "struct"),
    "json": ("array", "map", "struct"),
}
"""PostgreSQL's type -> the types of Spark whose values the sink writes into such a column."""
