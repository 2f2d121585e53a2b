"""What the reader of a job knows of a value: enough to tell which frames have a watermark and what becomes of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Unknown:
    """Anything else. `mentions`: the names of columns that its expression may refer to."""

    mentions: frozenset[str] = frozenset()
    alias: str | None = None


@dataclass(frozen=True)
class Constant:
    """A value that stands in the file, or in the stream's declaration."""

    value: Any


@dataclass(frozen=True)
class Declared:
    """Something of the stream's specification: `spec`, `spec.state`, …"""

    of: Any


@dataclass(frozen=True)
class Session:
    """A Spark session: code that gets it can start a query."""


@dataclass(frozen=True)
class Reader:
    """`spark.readStream` or `spark.read`, with its options."""

    streaming: bool


@dataclass(frozen=True)
class Frame:
    """A DataFrame.

    Args:
        streaming: None if it is not known.
        known: whether all that was done to it was seen, from its source on.
        watermarks: columns that carry a watermark, under their present names.
    """

    streaming: bool | None
    known: bool = True
    watermarks: frozenset[str] = frozenset()

    def with_watermarks(self, *columns: str) -> Frame:
        return replace(self, watermarks=self.watermarks | set(columns))


@dataclass(frozen=True)
class Grouped:
    """A grouped frame, with the names that its keys mention; no key at all is one group."""

    frame: Frame
    keys: tuple[Unknown, ...]


@dataclass
class Writer:
    """A DataStreamWriter: one object that its methods change, as in Spark."""

    line: int
    format: str | None = "parquet"
    uses_batch_id: bool | None = None


@dataclass(frozen=True)
class Function:
    """A function of the job or of a module beside it; `home`: the names it sees."""

    node: ast.FunctionDef | ast.Lambda
    home: Mapping[str, Value] = field(repr=False)


@dataclass(frozen=True)
class Class:
    node: ast.ClassDef
    home: Mapping[str, Value] = field(repr=False)


@dataclass(frozen=True)
class Instance:
    """An object of a class of the job, with the values that its `__init__` was given, by name."""

    of: Class
    fields: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Many:
    """A tuple or list."""

    items: tuple[Value, ...]


Value = Unknown | Constant | Declared | Session | Reader | Frame | Grouped | Writer | Function | Class | Instance | Many


def words(text: str) -> frozenset[str]:
    """The identifiers in a piece of SQL, or in a column's name."""
    return frozenset(_WORD.findall(text))


def mentions(value: Value) -> frozenset[str]:
    """The names of columns that `value` may refer to."""
    match value:
        case Unknown(found, _):
            return found
        case Constant(str() as text):
            return words(text)
        case Many(items):
            return frozenset().union(*(mentions(item) for item in items))
        case _:
            return frozenset()


def can_start(value: Value) -> bool:
    """Whether a function that gets `value` can start a query with it."""
    match value:
        case Session() | Grouped() | Writer():
            return True
        case Frame():
            return value.streaming is not False
        case Many(items):
            return any(map(can_start, items))
        case Instance():
            return any(map(can_start, value.fields.values()))
        case _:
            return False


def alias_of(value: Value) -> str | None:
    """The name that a column expression is given, by `alias` or by `… AS name` in SQL."""
    if isinstance(value, Unknown):
        return value.alias
    if isinstance(value, Constant) and isinstance(value.value, str):
        match = re.search(r"\bAS\s+`?(\w+)`?\s*$", value.value, re.IGNORECASE)
        return match.group(1) if match else None
    return None
