"""Arrow columns from Python values and back, without a change of any value.

A sink of text has no types: one column may hold values of several, and a JSON object has the keys that it has. Arrow
has a type for a column of plain values of one kind. Any other column is boxed: each value is stored as bytes.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_BOXED: Final = {b"streamwarden": b"boxed"}


def table_of(columns: Mapping[str, Sequence[object]]) -> pa.Table:
    """The columns as a table from which `values_of` reads the same values again."""
    import pyarrow as pa

    made = {name: _column(values) for name, values in columns.items()}
    schema = pa.schema(
        pa.field(name, array.type, metadata=_BOXED if boxed else None) for name, (array, boxed) in made.items()
    )
    return pa.table([array for array, _ in made.values()], schema=schema)


def values_of(table: pa.Table, name: str) -> list[object]:
    """The Python values of a column."""
    values: list[object] = table.column(name).to_pylist()
    if not is_boxed(table.schema.field(name)):
        return values
    # This process made the bytes.
    return [None if value is None else pickle.loads(value) for value in values]  # type: ignore[arg-type]  # noqa: S301


def is_boxed(field: pa.Field) -> bool:
    """Whether the column's values are stored as bytes, because Arrow has no type that keeps them."""
    return bool(field.metadata) and _BOXED.items() <= field.metadata.items()


def _column(values: Sequence[object]) -> tuple[pa.Array, bool]:
    """The array, and whether its values are boxed."""
    import pyarrow as pa

    kinds = set(map(type, values)) - {type(None)}
    try:
        if not kinds:
            return pa.nulls(len(values)), False
        if kinds == {datetime}:
            zones = {value.tzinfo is not None for value in values if isinstance(value, datetime)}
            if len(zones) == 1:
                return pa.array(values, pa.timestamp("us", tz="UTC" if zones.pop() else None)), False
        elif kinds == {Decimal}:
            return pa.array(values), False
        elif len(kinds) == 1 and (plain := _PLAIN.get(kinds.pop())):
            return pa.array(values, pa.type_for_alias(plain)), False
    except (pa.ArrowException, OverflowError, ValueError):  # beyond 64 bits, a Decimal without an end, half a character
        pass
    return pa.array([None if value is None else pickle.dumps(value) for value in values], pa.binary()), True


_PLAIN: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    bytes: "binary",
    date: "date32",
}
