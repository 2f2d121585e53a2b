"""One line of JSON as a row of named, typed fields, or None: an independent implementation of Spark's JSON reader.

A missing field and a JSON null are None. A value of another type makes the whole line malformed. So does text that is
not a JSON object, and a string of more than a mebibyte. Other fields are ignored.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeVar

__all__ = ["fields", "instant", "integer", "json_object", "number", "text"]

T = TypeVar("T")

_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
)
_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)
_LONGEST: Final = 2**20


def json_object(line: str) -> dict[str, object] | None:
    """The JSON object in a line; None if the line contains something else."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def fields(line: str, schema: Mapping[str, Callable[[object], object]]) -> dict[str, object] | None:
    """The fields of `schema` (name -> one of the types below); None if the line is malformed."""
    value = json_object(line)
    if value is None:
        return None
    values: dict[str, object] = {}
    for name, kind in schema.items():
        raw = value.get(name)
        try:
            values[name] = None if raw is None else kind(raw)
        except ValueError:
            return None
    return values


def text(raw: object) -> str:
    """A STRING. Any other JSON value becomes its JSON text. Raises ValueError above a mebibyte."""
    value = raw if isinstance(raw, str) else json.dumps(raw, separators=(",", ":"), ensure_ascii=False)
    if len(value) > _LONGEST // 4 and len(value.encode()) > _LONGEST:  # a character is four bytes at most
        raise ValueError(f"{len(value)} characters")
    return value


def integer(raw: object) -> int:
    """An INT. Raises ValueError for a fraction, text, true and false, and a number of more than 32 bits."""
    if type(raw) is not int or raw not in _INT:
        raise ValueError(raw)
    return raw


def number(raw: object) -> float:
    """A DOUBLE. Raises ValueError for text, true and false."""
    if type(raw) not in (int, float):
        raise ValueError(raw)
    return float(raw)  # type: ignore[arg-type]


def instant(raw: object) -> int:
    """A TIMESTAMP of the pattern `yyyy-MM-dd'T'HH:mm:ss.SSSXXX`, in Unix milliseconds. Raises ValueError.

    A whole number means Unix seconds, as in Spark, and overflows in the same way: its microseconds are 64 bits.
    """
    if isinstance(raw, str):
        return _milliseconds(raw)
    if type(raw) is not int or raw not in _LONG:
        raise ValueError(raw)
    microseconds = (raw * 1_000_000 + 2**63) % 2**64 - 2**63
    return microseconds // 1000


@lru_cache(maxsize=2**16)
def _milliseconds(written: str) -> int:
    if not _INSTANT.fullmatch(written):
        raise ValueError(written)
    return round(datetime.fromisoformat(written).timestamp() * 1000)
