"""Dataclasses from JSON and to JSON, by their type hints: the one decoder of what passes between the steps of a drill.

Unknown keys are ignored and missing ones take the field's default, so that another version's journal can be read.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum, EnumType
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

Readers = Mapping[type, Callable[[Any], Any]]
Writers = Mapping[type, Callable[[Any], Any]]
Decoder = Callable[[Any, Readers | None], Any]

_OF_JSON: Final = frozenset({str, int, float, bool, NoneType})
"""Types whose values are the same in JSON."""


@dataclass(frozen=True, slots=True, eq=False)
class ByKind:
    """Annotates a type that stands for several: which one a value has, the `kind` in its data says."""

    kinds: Mapping[str, type[Any]]


def decode(kind: Any, raw: Any, readers: Readers | None = None) -> Any:
    """`raw` as a value of the type `kind`.

    Args:
        readers: what reads a type that this module does not know how to read.

    Raises ValueError, TypeError or KeyError if it does not fit.
    """
    return _decoder(kind)(raw, readers)


def decode_fields(kind: Any, raw: Mapping[str, Any], readers: Readers | None = None) -> dict[str, Any]:
    """The fields of the dataclass `kind` that `raw` has, as `decode` reads them."""
    return {
        name: raw[name] if decoder is _as_it_is else decoder(raw[name], readers)
        for name, decoder in _stored_fields(kind)
        if name in raw
    }


def encode(value: Any, writers: Writers | None = None) -> Any:
    """The inverse of `decode`: what another process will read. A type that JSON does not have becomes text."""
    return _plain(value, writers or {})


@cache
def _decoder(kind: Any) -> Decoder:
    """Reads a value of the type. It is looked up once for each type: that takes longer than to read a value."""
    if kind in _OF_JSON:
        return _as_it_is
    if isinstance(kind, type):
        return partial(_decode_plain, kind, _decoder_of_plain(kind))
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        by_kind = next((extra for extra in parts if isinstance(extra, ByKind)), None)
        if by_kind is None:
            return _decoder(parts[0])
        return lambda raw, readers: decode(by_kind.kinds[raw["kind"]], raw, readers)
    wanted = [part for part in parts if part is not NoneType]
    if origin in (Union, UnionType) and len(wanted) == 1:
        inner = _decoder(wanted[0])
        return inner if inner is _as_it_is else lambda raw, readers: None if raw is None else inner(raw, readers)
    if origin in (tuple, Sequence):
        inner = _decoder(parts[0])
        return lambda raw, readers: None if raw is None else tuple(inner(item, readers) for item in raw)
    if origin is Mapping and parts == (str, Any):
        return lambda raw, readers: None if raw is None else {**raw}
    if origin is Mapping:
        return partial(_decode_mapping, _decoder(parts[0]), _decoder(parts[1]))
    return _as_it_is


def _as_it_is(raw: Any, readers: Readers | None) -> Any:
    return raw


def _decoder_of_plain(kind: type) -> Decoder:
    if is_dataclass(kind):
        return partial(_decode_dataclass, kind)
    if isinstance(kind, EnumType):
        return lambda raw, readers: kind(raw)
    return _as_it_is


def _decode_plain(kind: type, decoder: Decoder, raw: Any, readers: Readers | None) -> Any:
    return readers[kind](raw) if readers and kind in readers else decoder(raw, readers)


def _decode_mapping(key: Decoder, value: Decoder, raw: Any, readers: Readers | None) -> Any:
    if raw is None:
        return None
    return {key(name, None): value(item, readers) for name, item in raw.items()}


def _decode_dataclass(kind: Any, raw: Any, readers: Readers | None) -> Any:
    missing = [name for name in _required_fields(kind) if name not in raw]
    if missing:
        raise KeyError(f"{kind.__name__} without {missing[0]}")
    return kind(**decode_fields(kind, raw, readers))


@cache
def _stored_fields(kind: Any) -> tuple[tuple[str, Decoder], ...]:
    """Name and decoder of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((item.name, _decoder(hints[item.name])) for item in fields(kind))


@cache
def _required_fields(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING)


def _plain(value: Any, writers: Writers) -> Any:
    kind: Any = type(value)
    if kind in _OF_JSON:
        return value
    writer = writers.get(kind)
    if writer is not None:
        return _plain(writer(value), writers)
    if (names := _field_names(kind)) is not None:
        return {name: _plain(getattr(value, name), writers) for name in names}
    if isinstance(value, Enum):
        return _plain(value.value, writers)
    if kind is dict or isinstance(value, Mapping):
        return {str(key): _plain(item, writers) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, writers) for item in value]
    return json.loads(json.dumps(value, default=str))


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    return tuple(item.name for item in fields(kind)) if is_dataclass(kind) else None
