"""Dataclasses from JSON and to JSON, by their type hints: the one decoder of what passes between the steps of a drill.

Unknown keys are ignored and missing ones take the field's default, so that another version's journal can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum, EnumType
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

Readers = Mapping[type, Callable[[Any], Any]]
Writers = Mapping[type, Callable[[Any], Any]]

_STORED_AS: Final = "stored_as"


@dataclass(frozen=True, slots=True, eq=False)
class ByKind:
    """Annotates a type that stands for several: which one a value has, the `kind` in its data says."""

    kinds: Mapping[str, type[Any]]


def stored_as(key: str) -> Mapping[str, str]:
    """The metadata of a field whose JSON has another key."""
    return {_STORED_AS: key}


def key_of(each: Field[Any]) -> str:
    """The key under which a field is stored."""
    return str(each.metadata.get(_STORED_AS, each.name))


def decode(kind: Any, raw: Any, readers: Readers | None = None) -> Any:
    """`raw` as a value of the type `kind`.

    Args:
        readers: what reads a type that this module does not know how to read.

    Raises ValueError, TypeError or KeyError if it does not fit.
    """
    if readers and kind in readers:
        return readers[kind](raw)
    if is_dataclass(kind):
        return _decode_fields(kind, raw, readers)
    if isinstance(kind, EnumType):
        return kind(raw)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        by_kind = next((extra for extra in parts if isinstance(extra, ByKind)), None)
        return decode(parts[0] if by_kind is None else by_kind.kinds[raw["kind"]], raw, readers)
    if raw is None or origin is None:
        return raw
    if origin in (Union, UnionType):
        wanted = [part for part in parts if part is not NoneType]
        return decode(wanted[0], raw, readers) if len(wanted) == 1 else raw
    if origin in (tuple, Sequence):
        return tuple(decode(parts[0], each, readers) for each in raw)
    if origin is Mapping:
        return {decode(parts[0], key): decode(parts[1], each, readers) for key, each in raw.items()}
    return raw


def encode(value: Any, writers: Writers | None = None) -> Any:
    """The inverse of `decode`: what another process will read. A type that JSON does not have becomes text."""
    return json.loads(json.dumps(_plain(value, writers or {}), default=str))


def _decode_fields(kind: Any, raw: Any, readers: Readers | None) -> Any:
    hints, values = _hints(kind), {}
    for each in fields(kind):
        key = key_of(each)
        if key in raw:
            values[each.name] = decode(hints[each.name], raw[key], readers)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise KeyError(f"{kind.__name__} without {key}")
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _plain(value: Any, writers: Writers) -> Any:
    writer = writers.get(type(value))
    if writer is not None:
        return _plain(writer(value), writers)
    if is_dataclass(value) and not isinstance(value, type):
        return {key_of(each): _plain(getattr(value, each.name), writers) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(each, writers) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, writers) for each in value]
    return value
