"""From a mapping to a plain frozen dataclass: strict types by pydantic, quantities by `units`, errors for people."""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, cast

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter, ValidationError

from streamwarden import sinks, sources
from streamwarden.config.yaml_document import Document
from streamwarden.problems import KeyPath, Problem, in_order, show
from streamwarden.stream import Budget, SinkSpec, SourceSpec, StreamSpec
from streamwarden.units import parse_duration, parse_size

T = TypeVar("T")

_STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_BUDGET: Final = re.compile(r"\s*([0-9]+)\s+per\s+(.+?)\s*")


def parse_budget(text: object) -> dict[str, Any]:
    """`5 per hour`, `3 per 30m` as the fields of a Budget. Raises ValueError with what is allowed."""
    match = _BUDGET.fullmatch(text) if isinstance(text, str) else None
    allowed = "a budget such as 5 per hour or 3 per 30m"
    if match is None:
        raise ValueError(f"{show(text)} is not {allowed}")
    span = match.group(2)
    try:
        per = parse_duration(f"1 {span}" if span.isalpha() else span)
    except ValueError:
        raise ValueError(f"{show(text)} is not {allowed}") from None
    return {"count": int(match.group(1)), "per": per}


_QUANTITIES: Final[Mapping[object, tuple[Callable[[Any], object], str]]] = {
    "seconds": (parse_duration, "a duration such as 30s, 2 seconds, 10m, 1h, 250 ms"),
    "bytes": (parse_size, "a size such as 512 MB, 5 GB (10^9 bytes) or 5 GiB (2^30 bytes)"),
}


def build(kind: type[T], document: Document, *, reserved: Collection[str] = ()) -> tuple[T | None, list[Problem]]:
    """A `kind` from `document`, or as much of it as the correct keys give, with every problem of the rest.

    Args:
        reserved: fields of `kind` that a file may not set.

    None only if what is wrong cannot be left out (a required key that is not text).
    """
    problems: list[Problem] = []
    given = {**{side: {} for side in SIDES}, **document.value} if kind is StreamSpec else document.value
    value = _prepared(kind, given, (), problems)
    for name in sorted(set(reserved) & set(value)):
        problems.append(_unknown(kind, (name,), reserved, value))
        del value[name]
    result: T | None = None
    try:
        result = load(kind, value)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = _real(detail, value)
            if all(problem.key != key for problem in problems):  # a union complains once for each of its members
                problems.append(_problem(kind, key, detail, reserved, value))
                _drop(value, key, blank=_is_missing(detail) or _is_required(kind, key, value))
        try:
            result = load(kind, value)
        except ValidationError:
            result = None
    return result, in_order(placed(problem, document) for problem in problems)


def load(kind: type[T], value: Mapping[str, Any]) -> T:
    """A `kind` from JSON-like data, strictly. Raises pydantic's ValidationError (its locations start with 0)."""
    adapter = _adapter(cast("Hashable", kind))
    found = adapter.validate_json(json.dumps([value]))[0]
    if kind is StreamSpec:
        return kind(**{each.name: getattr(found, each.name) for each in fields(StreamSpec)})
    return cast("T", found)


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    # A plain dataclass takes no config of its own; the tuple around it passes the config on to all dataclasses within.
    known = _declared_stream() if kind is StreamSpec else kind
    return TypeAdapter(tuple[known], config=_STRICT)  # type: ignore[valid-type]


_KINDS: Final[Mapping[object, Mapping[str, type[Any]]]] = {SourceSpec: sources.KINDS, SinkSpec: sinks.KINDS}
SIDES: Final[Mapping[str, Mapping[str, type[Any]]]] = {"source": sources.KINDS, "sink": sinks.KINDS}
"""The kinds of a type, and of the key of a stream that holds it."""


def _declared_stream() -> type[StreamSpec]:
    """StreamSpec as a file has it: each kind of source and of sink with its own keys."""
    sides = [(side, _one_of(kinds), field()) for side, kinds in SIDES.items()]
    return make_dataclass("StreamSpec", sides, bases=(StreamSpec,), frozen=True, kw_only=True)


def _one_of(kinds: Mapping[str, type[Any]]) -> Any:
    """The union of all kinds of a source or a sink, told apart by `kind`."""
    members = tuple(Annotated[kind, Tag(name)] for name, kind in kinds.items())

    def kind_of(value: object) -> str:
        return _kind_of(kinds, value)

    return Annotated[Union[members], Discriminator(kind_of)]  # noqa: UP007


def _kind_of(kinds: Mapping[str, type[Any]], value: object) -> str:
    return str(value.get("kind", next(iter(kinds)))) if isinstance(value, Mapping) else next(iter(kinds))


def own_keys(side: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A stored source or sink without the keys of other kinds, which earlier versions stored with every kind."""
    kind = _narrowed({"source": SourceSpec, "sink": SinkSpec}[side], value)
    foreign = {each.name for other in SIDES[side].values() for each in fields(other)} - {
        each.name for each in fields(kind)
    }
    return {key: item for key, item in value.items() if key not in foreign}


def _narrowed(hint: Any, value: object) -> Any:
    """The type of the kind that `value` names; any other type as it is."""
    kinds = _KINDS.get(hint) if isinstance(hint, type) else None
    return hint if kinds is None else kinds.get(_kind_of(kinds, value), hint)


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(cast("type", kind), include_extras=True)


def _prepared(hint: Any, value: Any, at: KeyPath, problems: list[Problem]) -> Any:
    """`value` with its quantities as numbers; what cannot be read is left out and becomes a problem."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        for mark in typing.get_args(hint)[1:]:
            if mark in _QUANTITIES and isinstance(value, str | int | float):
                return _read(*_QUANTITIES[mark], value, at, problems)
        return _prepared(typing.get_args(hint)[0], value, at, problems)
    if origin in (Union, types.UnionType):
        inner = [part for part in typing.get_args(hint) if part is not types.NoneType]
        return value if value is None or len(inner) != 1 else _prepared(inner[0], value, at, problems)
    if hint is Budget and not isinstance(value, Mapping):
        return _read(parse_budget, "a budget such as 5 per hour or 3 per 30m", value, at, problems)
    hint = _narrowed(hint, value)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        hints = _hints(hint)
        pairs = ((key, _prepared(hints.get(key), item, (*at, key), problems)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not _UNREADABLE}
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        of = typing.get_args(hint)[1]
        pairs = ((key, _prepared(of, item, (*at, key), problems)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not _UNREADABLE}
    if origin in (tuple, list) and isinstance(value, list):
        of = typing.get_args(hint)[0]
        items = (_prepared(of, item, (*at, index), problems) for index, item in enumerate(value))
        return [item for item in items if item is not _UNREADABLE]
    return value


_UNREADABLE: Final = object()


def _read(parse: Callable[[Any], object], allowed: str, value: Any, at: KeyPath, problems: list[Problem]) -> Any:
    try:
        return parse(value)
    except ValueError:
        problems.append(Problem(key=at, observed=f"{show(value)} cannot be read", allowed=allowed))
        return _UNREADABLE


def _is_required(kind: type[Any], key: KeyPath, value: object) -> bool:
    owner = _owner(kind, key, value)[0] if key else None
    return is_dataclass(owner) and isinstance(owner, type) and key[-1] in required(owner)


def _is_missing(detail: Mapping[str, Any]) -> bool:
    return str(detail["type"]) in {"missing", "missing_argument", "missing_keyword_only_argument"}


_WANTED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "dataclass_exact_type": "a mapping",
}


def _real(detail: Mapping[str, Any], value: object) -> KeyPath:
    """The key path in the file: without the leading 0 and without the names of a union's members."""
    key: KeyPath = detail["loc"][1:]
    if detail["type"] == "union_tag_invalid":
        return (*key, "kind")
    if len(key) > 1 and key[1] in SIDES.get(str(key[0]), ()):
        key = (key[0], *key[2:])  # without the name of the kind
    if _is_missing(detail) or detail["type"] == "unexpected_keyword_argument":
        return key
    for depth, part in enumerate(key):
        if not isinstance(value, dict | list):
            return key[:depth]
        value = value.get(part) if isinstance(value, dict) else value[cast("int", part)]
    return key


_COMPLAINT: Final = re.compile(r"Value error, (?:([\w.]+) is (.+), )allowed is (.+)", re.DOTALL)
"""How a dataclass's own `__post_init__` words what it refuses."""


def _problem(
    kind: type[Any], key: KeyPath, detail: Mapping[str, Any], reserved: Collection[str], given: Mapping[str, Any]
) -> Problem:
    code = str(detail["type"])
    value = detail["input"]
    if code == "unexpected_keyword_argument":
        return _unknown(kind, key, reserved, given)
    if code == "union_tag_invalid":
        *names, last = map(repr, SIDES[str(key[0])])
        allowed = f"{', '.join(names)} or {last}"
        return Problem(key=key, observed=f"{show(value['kind'])} is not known", allowed=allowed)
    if _is_missing(detail):
        side = str(key[0])
        allowed = f"what `kind: {_kind_of(SIDES[side], given[side])}` needs" if side in SIDES else ""
        return Problem(
            key=key, observed="the required key is missing", allowed=allowed, next_step=f"add `{key[-1]}: …`"
        )
    if code in ("enum", "literal_error"):
        return Problem(key=key, observed=f"{show(value)} is not known", allowed=str(detail["ctx"]["expected"]))
    if code in _WANTED:
        quotes = code == "string_type" and isinstance(value, bool | int | float)
        return Problem(
            key=key,
            observed=f"{_named(value)}",
            allowed=_WANTED[code],
            next_step=f'put it in quotes: "{show(value)}"' if quotes else "",
        )
    complaint = _COMPLAINT.fullmatch(str(detail["msg"])) if code == "value_error" else None
    if complaint is not None:
        return Problem(key=(*key, *complaint[1].split(".")), observed=complaint[2], allowed=complaint[3])
    return Problem(key=key, observed=f"{_named(value)}: {detail['msg']}")


def _named(value: object) -> str:
    kinds = {type(None): "", bool: "", int: "the number ", float: "the number ", str: "the text ", list: "the list "}
    return f"{kinds.get(type(value), 'the mapping ')}{show(value)}"


def _owner(kind: Any, key: KeyPath, given: object) -> tuple[Any, object]:
    """The type that has the last part of `key`, and the value of that type."""
    for part in key[:-1]:
        given = _at(given, part)
        kind = _narrowed(_inner(kind, part), given)
    return kind, given


def _unknown(kind: type[Any], key: KeyPath, reserved: Collection[str], whole: object) -> Problem:
    owner, given = _owner(kind, key, whole)
    side = SIDES.get(str(key[0]), {}) if len(key) == 2 else {}
    if any(each.name == key[-1] for other in side.values() for each in fields(other)):
        allowed = f"nothing: `kind: {_kind_of(side, given)}` has no {key[-1]}"
        return Problem(key=key, observed=show(_at(given, key[-1])), allowed=allowed)
    names = [each.name for each in fields(owner) if not (owner is kind and each.name in reserved)]
    near = difflib.get_close_matches(str(key[-1]), names, n=1)
    return Problem(
        key=key,
        observed="unknown key",
        allowed=f"one of {', '.join(names)}",
        next_step=f"did you mean `{near[0]}`?" if near else "delete it",
    )


def _at(value: object, key: str | int) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _inner(owner: Any, part: str | int) -> Any:
    hint = (
        _hints(cast("Hashable", owner))[str(part)]
        if is_dataclass(owner)
        else typing.get_args(owner)[0 if isinstance(part, int) else 1]
    )
    while typing.get_origin(hint) in (Annotated, Union, types.UnionType):
        hint = next(item for item in typing.get_args(hint) if item is not types.NoneType)
    return hint


def _drop(value: dict[str, Any], key: KeyPath, *, blank: bool) -> None:
    """Take the offending key out, so that the rest can be built and judged; what cannot be missing becomes blank."""
    holder: Any = value
    for part in key[:-1]:
        if not isinstance(holder, dict | list):
            return
        holder = holder.get(part) if isinstance(holder, dict) else holder[cast("int", part)]
    last = key[-1] if key else None
    if blank and isinstance(holder, dict):
        holder[last] = ""
    elif isinstance(holder, dict):
        holder.pop(last, None)
    elif isinstance(holder, list) and isinstance(last, int):
        holder[last] = ""


def placed(problem: Problem, document: Document) -> Problem:
    """The problem with the line of its key, or of the nearest mapping around it."""
    if problem.line is not None:
        return problem
    key = problem.key
    line = document.lines.get(key)
    if line is None and len(key) > 1:
        line = document.lines.get(key[:-1])
    return Problem(key=key, observed=problem.observed, allowed=problem.allowed, next_step=problem.next_step, line=line)


def required(kind: type[Any]) -> tuple[str, ...]:
    """The keys that a file of `kind` cannot leave out."""
    return tuple(each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)
