"""The types of an output's columns in Spark's terms, and whether two descriptions can mean the same type. Pure.

A sink rarely stores a complete type: JSON has one kind of text for strings, dates and timestamps, and a Python value
does not show how wide its column is. So a description lists the possible types, and two descriptions agree if one Spark
type fits both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import Final

INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
FRACTIONS: Final = frozenset({"float", "double"})
DECIMAL: Final = "decimal"
"""A decimal of any precision; one of known precision is written `decimal(10,2)`."""

EACH: Final = "*"
"""Name of the part for every element of an array and every value of a map."""

_SCALARS: Final = INTEGERS | FRACTIONS | {"string", "boolean", "timestamp", "timestamp_ntz", "date", "binary"}
_SYNONYMS: Final[Mapping[str, str]] = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_DECIMAL: Final = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_TEXT: Final = re.compile(r"(?:varchar|char)\(\s*\d+\s*\)")
_NESTED: Final = re.compile(r"(array|struct|map)<(.*)>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The known facts about a column's type.

    Args:
        shown: the type as its origin writes it.
        possible: names of Spark's types (`bigint`, `decimal(10,2)`, `array`, …), one of which it is. None: any.
        parts: types of a struct's fields by name; of the elements of an array or the values of a map as EACH. A part
            that is left out can be anything.
    """

    shown: str
    possible: frozenset[str] | None
    parts: tuple[tuple[str, ColumnType], ...] = ()

    def part(self, name: str) -> ColumnType | None:
        """The type of a part; a struct's field may describe a value of a map, and the other way round."""
        types = dict(self.parts)
        return types.get(name, types.get(EACH))

    def agrees(self, other: ColumnType) -> bool:
        """Whether some Spark type fits both descriptions."""
        if not _overlap(self.possible, other.possible):
            return False
        names = {name for name, _ in (*self.parts, *other.parts)}
        pairs = ((self.part(name), other.part(name)) for name in names)
        return all(mine.agrees(its) for mine, its in pairs if mine is not None and its is not None)


ANYTHING: Final = ColumnType("anything", None)


def _overlap(one: Collection[str] | None, other: Collection[str] | None) -> bool:
    if one is None or other is None:
        return True
    return any(_same(kind, its) for kind in one for its in other)


def _same(one: str, other: str) -> bool:
    any_decimal = DECIMAL in (one, other) and one.startswith(DECIMAL) and other.startswith(DECIMAL)
    return one == other or any_decimal


def scalar(shown: str, *possible: str) -> ColumnType:
    """A type without parts: `possible`, or the type that `shown` names."""
    return ColumnType(shown, frozenset(possible or (shown,)))


def parse_type(written: str) -> ColumnType:
    """A type as Spark's DDL writes it, such as `BIGINT` or `array<struct<a: bigint, b: double>>`.

    Raises ValueError for any other text.
    """
    text = written.strip()
    lower = text.lower()
    if nested := _NESTED.fullmatch(text):
        kind, inner = nested[1].lower(), list(_split(nested[2]))
        if kind == "struct":
            fields = (part.partition(":") for part in inner)
            return ColumnType(
                lower, frozenset({kind}), tuple((name.strip(), parse_type(its)) for name, _, its in fields)
            )
        if len(inner) != (1 if kind == "array" else 2):
            raise ValueError(f"{written!r} is not a Spark type")
        return ColumnType(lower, frozenset({kind}), ((EACH, parse_type(inner[-1])),))
    if decimal := _DECIMAL.fullmatch(lower):
        return scalar(lower, f"decimal({decimal[1]},{decimal[2] or 0})")
    name = "string" if _TEXT.fullmatch(lower) else _SYNONYMS.get(lower, lower)
    if name == DECIMAL:
        return scalar(lower, "decimal(10,0)")  # what Spark makes of it
    if name not in _SCALARS:
        raise ValueError(f"{written!r} is not a Spark type")
    return scalar(lower, name)


def _split(text: str) -> Iterator[str]:
    """The parts of `text` between commas that are outside brackets."""
    depth = begin = 0
    for at, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]


_WHOLE: Final = scalar("a whole number (tinyint, smallint, int or bigint)", *INTEGERS)
_FRACTION: Final = scalar("a floating-point number (float or double)", *FRACTIONS)
_KINDS: Final[Mapping[type, ColumnType]] = {
    bool: scalar("boolean"),
    int: _WHOLE,
    float: _FRACTION,
    Decimal: scalar("a decimal", DECIMAL),
    str: scalar("string"),
    bytes: scalar("binary"),
    date: scalar("date"),
}


def type_of_values(values: Iterable[object]) -> ColumnType | None:
    """The type of a column by its Python values, None being the null; None: they do not say."""
    kinds = {_type_of_value(value) for value in values if value is not None}
    return reduce(_either, sorted(kinds, key=lambda kind: kind.shown)) if kinds else None


def _type_of_value(value: object) -> ColumnType:
    if isinstance(value, datetime):
        return scalar("timestamp_ntz") if value.tzinfo is None else scalar("timestamp")
    if isinstance(value, list):  # of pairs, it may be a map
        element = type_of_values(value)
        return ColumnType("an array", frozenset({"array", "map"}), () if element is None else ((EACH, element),))
    if isinstance(value, dict):
        types = ((name, type_of_values([item])) for name, item in value.items())
        parts = tuple((name, kind) for name, kind in types if kind is not None)
        return ColumnType("a struct or map", frozenset({"struct", "map"}), parts)
    return _KINDS.get(type(value), ANYTHING)


def _either(one: ColumnType, other: ColumnType) -> ColumnType:
    """The type of values that fit either one."""
    if one.possible is None or other.possible is None:
        return ANYTHING
    mine, its = dict(one.parts), dict(other.parts)
    parts = {**mine, **its}
    parts |= {name: _either(mine[name], its[name]) for name in mine.keys() & its.keys()}
    shown = one.shown if one.shown == other.shown else f"{one.shown} or {other.shown}"
    return ColumnType(shown, one.possible | other.possible, tuple(sorted(parts.items(), key=lambda part: part[0])))


def sample(values: Iterable[object]) -> object:
    """The first value that shows the type of them all; None if there is none."""
    return next((value for value in values if _shows_type(value)), None)


def _shows_type(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_shows_type, value))
    return value is not None
