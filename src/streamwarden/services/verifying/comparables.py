"""Brings two sides of a comparison into columns of the same Arrow types, in which equal values are equal.

Values are equal as Python's are: `5` equals `5.0`, an instant is the same in any zone, NaN equals NaN and null equals
null. If all parts of both sides hold a column in one kind of type, the column stays as it is, in its widest type. If
the kinds differ, or the values are nested, each value is written as a text that is the same for equal values. That
takes about a hundred times as long, so it is done a piece at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from streamwarden.sinks.columns import is_boxed, values_of
from streamwarden.sinks.output import Output, Part
from streamwarden.verification.tolerance import number

if TYPE_CHECKING:
    import pyarrow as pa

ROW: Final = "row"
"""The column with a row's number in its output."""

_PIECE: Final = 100_000
"""Values that are Python objects at a time."""

_DIGITS: Final = 38
"""Digits of the widest decimal that is compared as one."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparables:
    """Two outputs as tables with the same columns and types: `c0`, `c1`, … for the names, and `row`.

    Args:
        columns: name -> its column.
        numbers: name -> a column with the same values as numbers, null for what is not a number; of the names that were
            asked for.
        whole_numbers: names of the columns that hold nothing but whole numbers.
    """

    expected: pa.Table = field(repr=False)
    actual: pa.Table = field(repr=False)
    columns: Mapping[str, str]
    numbers: Mapping[str, str]
    whole_numbers: Collection[str]


def comparables(
    expected: Output, actual: Output, names: Sequence[str], *, as_numbers: Collection[str] = ()
) -> Comparables:
    """The columns `names` of both outputs. One that an output does not have is null in each of its rows.

    Args:
        as_numbers: names of which the values are needed as numbers too.
    """
    import numpy as np
    import pyarrow as pa

    sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    whole_numbers = set()
    columns = {name: f"c{at}" for at, name in enumerate(names)}
    numbers = {name: f"n{columns[name]}" for name in names if name in as_numbers}
    for name, column in columns.items():
        fields = [part.table.schema.field(name) for part in (*expected.parts, *actual.parts) if _has(part, name)]
        if {_kind(arrow_field) for arrow_field in fields} == {"integer"}:
            whole_numbers.add(name)
        form = _form(fields)
        for output, made in zip((expected, actual), sides, strict=True):
            made[column] = _chunked(form.type, (value for part in output.parts for value in _pieces(part, name, form)))
            if name in numbers:
                as_number = _Form(pa.float64(), form.to_numbers, whole=False)
                made[numbers[name]] = _chunked(
                    pa.float64(), (value for part in output.parts for value in _pieces(part, name, as_number))
                )
    wanted, came = (
        pa.table({**made, ROW: pa.array(np.arange(output.count))})
        for output, made in zip((expected, actual), sides, strict=True)
    )
    return Comparables(wanted, came, columns, numbers, whole_numbers)


def _no_numbers(table: Any, name: str) -> Any:
    import pyarrow as pa

    return pa.nulls(table.num_rows, pa.float64())


@dataclass(frozen=True, slots=True)
class _Form:
    """A column's comparison.

    Args:
        type: the Arrow type of compared values.
        convert: a column of a table -> the values to compare.
        whole: whether a column is converted at once; otherwise piece by piece, because Python objects are made.
        to_numbers: a column of a table -> its values as numbers.
    """

    type: Any
    convert: Callable[[Any, str], Any]
    whole: bool = True
    to_numbers: Callable[[Any, str], Any] = _no_numbers


def _has(part: Part, name: str) -> bool:
    return name in part.table.column_names


def _pieces(part: Part, name: str, form: _Form) -> Iterator[Any]:
    import pyarrow as pa

    if not _has(part, name) or pa.types.is_null(part.table.schema.field(name).type):
        yield pa.nulls(part.count, form.type)
    elif form.whole:
        yield form.convert(part.table, name)
    else:
        for begin in range(0, part.count, _PIECE):
            yield form.convert(part.table.slice(begin, _PIECE), name)


def _chunked(kind: Any, pieces: Iterator[Any]) -> Any:
    import pyarrow as pa

    chunks: list[Any] = []
    for piece in pieces:
        chunks += piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece]
    return pa.chunked_array(chunks, kind)


def _form(fields: Sequence[Any]) -> _Form:
    """The form of the column with these fields, one for each part that has it."""
    import pyarrow as pa

    kinds = {_kind(arrow_field) for arrow_field in fields} - {"null"}
    types = [arrow_field.type for arrow_field in fields if not pa.types.is_null(arrow_field.type)]
    match kinds.pop() if len(kinds) == 1 else len(kinds):
        case 0:
            return _Form(pa.int64(), _cast(pa.int64()))
        case "integer":
            return _Form(pa.int64(), _cast(pa.int64()), to_numbers=_cast(pa.float64()))
        case "float":
            return _Form(pa.float64(), _same_floats, to_numbers=_cast(pa.float64()))
        case "decimal" if (widest := _widest(types)) is not None:
            return _Form(widest, _cast(widest), to_numbers=_parsed)
        case "timestamp" if len({arrow_type.tz is None for arrow_type in types}) == 1:
            return _Form(pa.int64(), _microseconds)  # with a zone and without one, two are never equal
        case "date":
            return _Form(pa.int32(), _cast(pa.int32()))
        case "boolean" | "text" | "large text" | "bytes":
            return _Form(types[0], _cast(types[0]))
    return _Form(pa.string(), _texts, whole=False, to_numbers=_parsed)


def _kind(arrow_field: Any) -> str:
    import pyarrow as pa

    if is_boxed(arrow_field):
        return "boxed"
    return next((name for name, is_of in _KINDS.items() if getattr(pa.types, is_of)(arrow_field.type)), "other")


_KINDS: Final = {
    "null": "is_null",
    "integer": "is_signed_integer",
    "float": "is_floating",
    "decimal": "is_decimal",
    "boolean": "is_boolean",
    "date": "is_date32",
    "timestamp": "is_timestamp",
    "text": "is_string",
    "large text": "is_large_string",
    "bytes": "is_binary",
}
"""The kinds that can be compared as they are, and pyarrow's names of the questions whether a type is one."""


def _widest(types: Sequence[Any]) -> Any | None:
    """A decimal type for all parts; None if they have too many digits."""
    import pyarrow as pa

    scale = max(decimal.scale for decimal in types)
    digits = scale + max(decimal.precision - decimal.scale for decimal in types)
    return None if scale < 0 or digits > _DIGITS else pa.decimal128(digits, scale)


def _microseconds(table: Any, name: str) -> Any:
    import pyarrow as pa

    column = table.column(name)
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def _cast(kind: Any) -> Callable[[Any, str], Any]:
    def convert(table: Any, name: str) -> Any:
        column = table.column(name)
        return column if column.type == kind else column.cast(kind, safe=str(kind) != "double")

    return convert


def _same_floats(table: Any, name: str) -> Any:
    """Map both zeros to 0.0, and all NaNs to one: only bits differ."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.add(table.column(name).cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(column), math.nan, column)


def _parsed(table: Any, name: str) -> Any:
    import pyarrow as pa

    return pa.array([number(value) for value in values_of(table, name)], pa.float64())


def _texts(table: Any, name: str) -> Any:
    import pyarrow as pa

    values = values_of(table, name)
    return pa.array([None if value is None else canonical(value) for value in values], pa.string())


def canonical(value: object) -> str:
    """A text that equal values have in common, and no others."""
    if value is None:
        return "null"
    if isinstance(value, (int, float, Decimal)):  # also a bool, which Python takes for 0 or 1
        return _number_text(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bytes):
        return f"b{value.hex()}"
    if isinstance(value, datetime):
        return f"c{value.isoformat()}" if value.tzinfo is None else f"t{value.astimezone(UTC).isoformat()}"
    if isinstance(value, date):
        return f"d{value.isoformat()}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(canonical, value))})"
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{canonical(name)}:{canonical(item)}" for name, item in value.items())) + "}"
    return f"o{type(value).__qualname__}{value!r}"


_EXACT: Final = Context(prec=10_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _number_text(value: float | Decimal) -> str:
    exact = Decimal(value)  # without rounding
    if exact.is_nan():
        return "NaN"
    return "0" if exact == 0 else str(exact.normalize(_EXACT))
