"""How text enters the store: without secrets, and without characters or lengths that a database cannot keep.

One row that cannot be stored would hide a driver's end or an incident for ever: the error of a job may contain any byte
of its input. So every column of text has one of these types.
"""

import json
from collections.abc import Mapping, Set
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from types import NoneType
from typing import Any, Final

import sqlalchemy as sa
from pydantic_core import from_json
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from streamwarden.redaction import redacted, redacted_text

LONGEST_NAME: Final = 255
"""Characters of a name. PostgreSQL refuses a longer one."""

_DIGEST: Final = 16
_NUMBERS: Final = frozenset({int, float, bool, NoneType})


class Name(TypeDecorator[str]):
    """A name: a key, a kind, a person. One that is too long is cut and ends with its digest."""

    impl = sa.String(LONGEST_NAME)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _cut(storable(str(value)))


class Place(TypeDecorator[str]):
    """A path or a URL, which other processes read and open: it is kept as it is."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Prose(TypeDecorator[str]):
    """Text for people, without secrets."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(redacted_text(value))


class JsonText(TypeDecorator[Any]):
    """A JSON value kept as text, so that every database keeps it byte for byte. It holds no secrets."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else from_json(value)


def storable(text: str) -> str:
    """`text` as every database keeps it: NUL and lone surrogates become escapes that can be read (`\\x00`)."""
    if "\0" in text:
        text = text.replace("\0", r"\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_json(value: object) -> str:
    """JSON text of `value`, without secrets; mappings, sets, enums and paths become what JSON has.

    Raises TypeError for anything else.
    """
    return json.dumps(redacted(_plain(value)), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if type(value) in _NUMBERS:  # nearly always
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if _NUMBERS.issuperset(map(type, value)):
            return value
        return [_plain(item) for item in value]
    if isinstance(value, Set):
        return [_plain(item) for item in sorted(value, key=repr)]
    if isinstance(value, PurePath):
        return storable(str(value))
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{type(value).__name__} cannot be kept as JSON: {value!r:.100}")


def _cut(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}~{sha256(name.encode()).hexdigest()[:_DIGEST]}"
