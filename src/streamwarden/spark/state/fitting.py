"""Fits a value that a person gives to the schema of a state. Pure.

A value is written as `state show` writes it: JSON, with moments and days as ISO 8601, bytes as base64. Every field has
to be there, and nothing is converted that would lose something.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, NoReturn

from pyspark.sql import types as t

from streamwarden.errors import ConfigError

_BITS: Final[Mapping[type[t.DataType], int]] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
_NO_NUMBERS: Final = ("NaN", "Infinity", "-Infinity")
"""Texts by which Spark writes what JSON has no number for."""
_DIGITS: Final = 38
"""Of a decimal, at most."""
_LARGEST_FLOAT: Final = (2 - 2**-23) * 2.0**127


def fitted(given: Sequence[str], kind: t.StructType) -> t.Row:
    """The row that `--value` gives: one JSON object, or FIELD=VALUE for each field; the value alone if there is one.

    Raises ConfigError, which names the field.
    """
    if len(given) == 1 and given[0].lstrip().startswith("{"):
        return _struct(_parsed(given[0]), kind, "")
    return _struct(_named(given, kind), kind, "")


def _parsed(text: str) -> Any:
    try:
        return _json(text)
    except ValueError as error:
        _refuse("", f"{text!r} is no JSON: {error}", "an object with every field of the value")


def _named(given: Sequence[str], kind: t.StructType) -> dict[str, Any]:
    """The fields of FIELD=VALUE. A text that is no JSON is a string, and what a string field gets always is one."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name in kind.names):
            if len(kind) != 1:
                _refuse("", f"{text!r} names no field of the value", f"FIELD=VALUE for each of {', '.join(kind.names)}")
            name, value = kind.names[0], text
        if name in found:
            _refuse(name, "it is given twice", "one value")
        found[name] = _of_text(value, kind[name].dataType)
    return found


def _of_text(text: str, kind: t.DataType) -> Any:
    if text == "null":
        return None
    if isinstance(kind, t.StringType):
        return text
    try:
        return _json(text)
    except ValueError:
        return text


def _json(text: str) -> Any:
    """With numbers that lose no digit."""
    return json.loads(text, parse_float=Decimal, parse_constant=str)


def _fit(value: Any, kind: t.DataType, nullable: bool, where: str) -> Any:
    if value is None:
        return None if nullable else _refuse(where, "it is null", f"{_words(kind)}: this field is never null")
    fit = _FITS.get(type(kind))
    if fit is None:
        _refuse(where, f"it is of type {_words(kind)}", "a field of a type that can be written as text")
    return fit(value, kind, where)


def _struct(value: Any, kind: Any, where: str) -> t.Row:
    if not isinstance(value, dict):
        _wrong(value, kind, where)
    missing = [name for name in kind.names if name not in value]
    if missing or len(value) > len(kind):
        extra = [name for name in value if name not in kind.names]
        observed = f"{', '.join(missing)} is missing" if missing else f"there is no field {', '.join(extra)}"
        _refuse(where, observed, f"exactly the fields {', '.join(kind.names)}")
    inner = f"{where}." if where else ""
    found = [_fit(value[field.name], field.dataType, field.nullable, f"{inner}{field.name}") for field in kind.fields]
    return t.Row(*found)


def _array(value: Any, kind: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        _wrong(value, kind, where)
    return [_fit(one, kind.elementType, kind.containsNull, f"{where}[{index}]") for index, one in enumerate(value)]


def _map(value: Any, kind: Any, where: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        _wrong(value, kind, where)
    return {
        _fit(_of_text(name, kind.keyType), kind.keyType, False, f"a key of {where}"): _fit(
            one, kind.valueType, kind.valueContainsNull, f"{where}[{name}]"
        )
        for name, one in value.items()
    }


def _boolean(value: Any, kind: t.DataType, where: str) -> bool:
    return value if isinstance(value, bool) else _wrong(value, kind, where)


def _text(value: Any, kind: t.DataType, where: str) -> str:
    return value if isinstance(value, str) else _wrong(value, kind, where)


def _whole(value: Any, kind: t.DataType, where: str) -> int:
    largest = 2 ** (_BITS[type(kind)] - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not -largest <= value < largest:
        _wrong(value, kind, where)
    return int(value)


def _floating(value: Any, kind: t.DataType, where: str) -> float:
    if value in _NO_NUMBERS:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        _wrong(value, kind, where)
    number = float(value)
    if math.isinf(number) or (isinstance(kind, t.FloatType) and abs(number) > _LARGEST_FLOAT):
        _wrong(value, kind, where)
    return number


def _decimal(value: Any, kind: Any, where: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        _wrong(value, kind, where)
    try:
        number = Decimal(value)
    except InvalidOperation:
        _wrong(value, kind, where)
    if not number.is_finite() or abs(number.adjusted()) > _DIGITS:  # before a power of ten is computed
        _wrong(value, kind, where)
    scaled = Fraction(number) * 10**kind.scale
    if scaled.denominator != 1 or abs(scaled) >= 10**kind.precision:
        _wrong(value, kind, where)
    return number


def _binary(value: Any, kind: t.DataType, where: str) -> bytearray:
    try:
        return bytearray(base64.b64decode(value, validate=True))
    except (TypeError, ValueError):
        _wrong(value, kind, where)


def _date(value: Any, kind: t.DataType, where: str) -> date:
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        _wrong(value, kind, where)


def _moment(value: Any, kind: t.DataType, where: str) -> datetime:
    """With the offset of its zone, or, of a type without a zone, without one."""
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        _wrong(value, kind, where)
    if (found.tzinfo is None) != isinstance(kind, t.TimestampNTZType):
        _wrong(value, kind, where)
    return found


_FITS: Final[Mapping[type[t.DataType], Callable[[Any, Any, str], Any]]] = {
    **dict.fromkeys(_BITS, _whole),
    t.ArrayType: _array,
    t.BinaryType: _binary,
    t.BooleanType: _boolean,
    t.DateType: _date,
    t.DecimalType: _decimal,
    t.DoubleType: _floating,
    t.FloatType: _floating,
    t.MapType: _map,
    t.StringType: _text,
    t.StructType: _struct,
    t.TimestampNTZType: _moment,
    t.TimestampType: _moment,
}

_HOW: Final[Mapping[type[t.DataType], str]] = {
    t.BinaryType: " as base64",
    t.DateType: " such as 2026-01-31",
    t.TimestampNTZType: " such as 2026-01-31T12:00:00",
    t.TimestampType: " such as 2026-01-31T12:00:00Z, with the offset of its zone",
}


def _words(kind: t.DataType) -> str:
    return kind.simpleString() + _HOW.get(type(kind), "")


def _wrong(value: Any, kind: t.DataType, where: str) -> NoReturn:
    _refuse(where, f"it is {json.dumps(value, default=str)}", _words(kind))


def _refuse(where: str, observed: str, expected: str) -> NoReturn:
    raise ConfigError(
        f"the value does not fit: {f'{where}: ' if where else ''}{observed}",
        expected=expected,
        where="--value",
        next_step="correct it; `streamwarden state show` shows how the value of a key is written",
    )
