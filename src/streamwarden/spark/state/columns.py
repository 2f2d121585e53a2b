"""Columns of state as text, and the size of what they hold."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as t

_WIDTH: Final[dict[type[t.DataType], int]] = {
    t.NullType: 0,
    t.BooleanType: 1,
    t.ByteType: 1,
    t.ShortType: 2,
    t.IntegerType: 4,
    t.FloatType: 4,
    t.DateType: 4,
    t.LongType: 8,
    t.DoubleType: 8,
    t.TimestampType: 8,
    t.TimestampNTZType: 8,
}
"""Bytes of a value of each type whose values all have the same size."""

Leaf = tuple[str, Column, t.DataType]


def unambiguous(kind: t.DataType) -> t.DataType:
    """The type with a number behind each name that a struct has a second time: two counts of an aggregation are both
    `count`, and Spark finds neither by its name. A cast from the one to the other goes by position."""
    match kind:
        case t.StructType():
            used: set[str] = set()
            fields = []
            for field in kind.fields:
                names = (field.name, *(f"{field.name}_{number}" for number in range(2, len(kind.fields) + 1)))
                name = next(name for name in names if name.lower() not in used)
                used.add(name.lower())
                fields.append(t.StructField(name, unambiguous(field.dataType), field.nullable))
            return t.StructType(fields)
        case t.ArrayType():
            return t.ArrayType(unambiguous(kind.elementType), kind.containsNull)
        case t.MapType():
            return t.MapType(unambiguous(kind.keyType), unambiguous(kind.valueType), kind.valueContainsNull)
    return kind


def leaves(column: Column, kind: t.StructType, prefix: str = "") -> list[Leaf]:
    """The fields of a struct that are no structs themselves, as `window.start`."""
    found: list[Leaf] = []
    for field in kind.fields:
        inner, name = column.getField(field.name), f"{prefix}{field.name}"
        if isinstance(field.dataType, t.StructType):
            found += leaves(inner, field.dataType, f"{name}.")
        else:
            found.append((name, inner, field.dataType))
    return found


def as_text(column: Column, kind: t.DataType) -> Column:
    """A value as a person names it: bytes in hexadecimal, what has parts as JSON."""
    if isinstance(kind, t.StructType | t.ArrayType | t.MapType | t.VariantType):
        return as_json(column)
    return f.hex(column) if isinstance(kind, t.BinaryType) else column.cast("string")


def as_json(column: Column) -> Column:
    """A value with parts as JSON, with the fields that are null."""
    return f.to_json(column, {"ignoreNullFields": "false"})


def size(column: Column, kind: t.DataType) -> Column | None:
    """Bytes of the content of a value, without what Spark's encoding adds; None: the type has no known size."""
    match kind:
        case t.StringType() | t.BinaryType():
            return f.coalesce(f.octet_length(column), f.lit(0)).cast("long")
        case t.DecimalType():
            return f.lit(8 if kind.precision <= 18 else 16).cast("long")
        case t.StructType():
            return _sum([size(column.getField(field.name), field.dataType) for field in kind.fields])
        case t.ArrayType():
            return _elements(column, kind.elementType)
        case t.MapType():
            pairs = [
                _elements(f.map_keys(column), kind.keyType),
                _elements(f.map_values(column), kind.valueType),
            ]
            return _sum(pairs)
    width = _WIDTH.get(type(kind))
    return None if width is None else f.lit(width).cast("long")


def varies(kind: t.DataType) -> bool:
    """Whether two values of this type may have different sizes."""
    if isinstance(kind, t.StructType):
        return any(varies(field.dataType) for field in kind.fields)
    return isinstance(kind, t.StringType | t.BinaryType | t.ArrayType | t.MapType)


def _elements(column: Column, kind: t.DataType) -> Column | None:
    def added(total: Column, element: Column) -> Column:
        own = size(element, kind)
        return total if own is None else total + own

    if size(f.lit(None), kind) is None:
        return None
    return f.coalesce(f.aggregate(column, f.lit(0).cast("long"), added), f.lit(0).cast("long"))


def _sum(sizes: Sequence[Column | None]) -> Column | None:
    known = [one for one in sizes if one is not None]
    if len(known) < len(sizes):
        return None
    return reduce(lambda one, other: one + other, known, f.lit(0).cast("long"))
