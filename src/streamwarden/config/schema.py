"""Builds a plain frozen dataclass from a mapping: pydantic checks the types, this module words its errors."""

import difflib
import json
import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import EnumType
from functools import cache
from typing import Any, Final, TypeVar, Union, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from streamwarden.config.kinds import SIDES, declared, keys_of_others, kind_of, kinds_of, plain
from streamwarden.config.yaml_document import Document
from streamwarden.errors import InvalidValue
from streamwarden.problems import ConfigFileError, KeyPath, Problem, in_order, show
from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")

_STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def parse(kind: type[T], document: Document, *, reserved: Collection[str] = (), also: Iterable[Problem] = ()) -> T:
    """Build a `kind` from `document`. Raises ConfigFileError with every problem of its types.

    Args:
        reserved: fields of `kind` that a file may not set.
        also: problems of the same document that are known already.
    """
    given = {**{side: {} for side in SIDES}, **document.value} if kind is StreamSpec else document.value
    value = {key: item for key, item in given.items() if key not in reserved}
    words = _Words(kind, value, reserved)
    problems = [*also, *(words.unknown((key,)) for key in sorted(set(reserved) & set(given)))]
    try:
        result = load(kind, value)
    except ValidationError as error:
        by_key: dict[KeyPath, Problem] = {}
        for detail in error.errors(include_url=False):  # a union reports one for each of its members: the first counts
            problem = words.problem(detail)
            by_key.setdefault(problem.key, problem)
        raise refusal(document, [*problems, *by_key.values()]) from None
    if problems:
        raise refusal(document, problems)
    return result


def refusal(document: Document, problems: Iterable[Problem]) -> ConfigFileError:
    """The error of a document, each problem with its line."""
    return ConfigFileError(document.file, in_order(_placed(problem, document) for problem in problems))


def load(kind: type[T], value: Mapping[str, Any]) -> T:
    """A `kind` from JSON-like data, strictly. Raises pydantic's ValidationError (its locations start with 0)."""
    result = _adapter(cast("Hashable", kind)).validate_json(json.dumps([value]))[0]
    return plain(kind, cast("T", result))


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    # A plain dataclass takes no config of its own; the tuple around it passes the config on to all dataclasses within.
    variants = declared(cast("type[Any]", kind))
    return TypeAdapter(tuple[variants], config=_STRICT)  # type: ignore[valid-type]


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
_MISSING: Final = ("missing", "missing_argument", "missing_keyword_only_argument")
_UNKNOWN: Final = "unexpected_keyword_argument"


@dataclass(frozen=True, slots=True)
class _Words:
    """Words the errors of pydantic about one value of one type."""

    kind: type[Any]
    value: Mapping[str, Any]
    reserved: Collection[str]

    def problem(self, detail: Mapping[str, Any]) -> Problem:
        key, code = self._key(detail), str(detail["type"])
        if code in _WORDED:
            return _WORDED[code](self, key, detail)
        if code in _WANTED:
            return _wrong_type(key, detail["input"], self._with_keys(key, _WANTED[code]))
        refused = detail.get("ctx", {}).get("error")
        if isinstance(refused, InvalidValue):
            part = refused.key.split(".") if refused.key else ()
            observed = refused.observed if part else f"{show(detail['input'])} cannot be read"
            return Problem(key=(*key, *part), observed=observed, allowed=refused.allowed)
        return Problem(key=key, observed=f"{_named(detail['input'])}: {detail['msg']}")

    def _key(self, detail: Mapping[str, Any]) -> KeyPath:
        """The key path in the file: without the leading 0 and without the names of a union's members."""
        key: KeyPath = detail["loc"][1:]
        kinds, depth = self._kinds(key)
        if len(key) > depth and key[depth] in kinds:
            key = (*key[:depth], *key[depth + 1 :])
        if detail["type"] in (*_MISSING, _UNKNOWN):
            return key
        value: Any = self.value
        for depth, part in enumerate(key):
            if not (part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)):
                return key[:depth]
            value = value[part]
        return key

    def unknown(self, key: KeyPath, _: object = None) -> Problem:
        """A key that no type has, or that only another kind of source or sink has."""
        owner, value = self._owner(key[:-1]), self._value(key)
        kinds, depth = self._kinds(key)
        if kinds and len(key) == depth + 1 and key[depth] in keys_of_others(kinds, self._value(key[:depth])):
            allowed = f"nothing: `kind: {kind_of(kinds, self._value(key[:depth]))}` has no {key[depth]}"
            return Problem(key=key, observed=show(value), allowed=allowed)
        names = [item.name for item in fields(owner) if not (owner is self.kind and item.name in self.reserved)]
        near = difflib.get_close_matches(str(key[-1]), names, n=1)
        return Problem(
            key=key,
            observed="unknown key",
            allowed=f"one of {', '.join(names)}",
            next_step=f"did you mean `{near[0]}`?" if near else "delete it",
        )

    def missing(self, key: KeyPath, _: object) -> Problem:
        """A key without a default."""
        kinds, depth = self._kinds(key)
        hint, allowed = self._owner(key), ""
        if is_dataclass(hint):
            allowed = self._with_keys(key, "a mapping")
        elif isinstance(hint, EnumType):
            allowed = f"one of {', '.join(hint)}"
        elif kinds and len(key) > depth:
            allowed = f"what `kind: {kind_of(kinds, self._value(key[:depth]))}` needs"
        step = f"add `{key[-1]}: …`"
        return Problem(key=key, observed="the required key is missing", allowed=allowed, next_step=step)

    def unknown_kind(self, key: KeyPath, detail: Mapping[str, Any]) -> Problem:
        """A kind of source or sink that does not exist."""
        *names, last = map(repr, self._kinds(key)[0])
        observed = f"{show(detail['input']['kind'])} is not known"
        return Problem(key=(*key, "kind"), observed=observed, allowed=f"{', '.join(names)} or {last}")

    def unknown_value(self, key: KeyPath, detail: Mapping[str, Any]) -> Problem:
        """A value that is not one of a few."""
        return Problem(
            key=key, observed=f"{show(detail['input'])} is not known", allowed=str(detail["ctx"]["expected"])
        )

    def no_kind(self, key: KeyPath, detail: Mapping[str, Any]) -> Problem:
        """A mapping without its kind, or no mapping."""
        if isinstance(detail["input"], dict) and "kind" not in detail["input"]:
            return Problem(key=(*key, "kind"), observed="the required key is missing", next_step="add `kind: …`")
        return _wrong_type(key, detail["input"], "a mapping with a `kind`")

    def _kinds(self, key: KeyPath) -> tuple[Mapping[str, type[Any]], int]:
        """The kinds of what a key path leads into, and the length of the path to it; none: its keys do not depend on a
        kind."""
        kinds = kinds_of(self.kind).get(str(key[0]), {}) if key else {}
        return kinds, 2 if len(key) > 1 and isinstance(key[1], int) else 1

    def _with_keys(self, key: KeyPath, wanted: str) -> str:
        """`wanted`; of a mapping of known keys, with them."""
        owner = self._owner(key) if wanted == "a mapping" else None
        return f"{wanted} of {', '.join(item.name for item in fields(owner))}" if is_dataclass(owner) else wanted

    def _value(self, key: KeyPath) -> Any:
        value: Any = self.value
        for part in key:
            value = value.get(part) if isinstance(value, Mapping) else value[part]
        return value

    def _owner(self, key: KeyPath) -> Any:
        """The type of the value at `key`."""
        kind: Any = self.kind
        kinds, depth = self._kinds(key)
        for number, part in enumerate(key, start=1):
            if kinds and number == depth:
                kind = kinds.get(kind_of(kinds, self._value(key[:depth])), self.kind)
            elif not kinds or number > depth:
                kind = _inner(kind, part)
        return kind


_WORDED: Final[Mapping[str, Callable[[_Words, KeyPath, Mapping[str, Any]], Problem]]] = {
    **dict.fromkeys(_MISSING, _Words.missing),
    _UNKNOWN: _Words.unknown,
    "union_tag_invalid": _Words.unknown_kind,
    "union_tag_not_found": _Words.no_kind,
    "enum": _Words.unknown_value,
    "literal_error": _Words.unknown_value,
}


def _wrong_type(key: KeyPath, value: object, wanted: str) -> Problem:
    quotes = wanted == "text" and isinstance(value, bool | int | float)
    step = f'put it in quotes: "{show(value)}"' if quotes else ""
    return Problem(key=key, observed=_named(value), allowed=wanted, next_step=step)


def _named(value: object) -> str:
    kinds = {type(None): "", bool: "", int: "the number ", float: "the number ", str: "the text ", list: "the list "}
    return f"{kinds.get(type(value), 'the mapping ')}{show(value)}"


def _inner(owner: Any, part: str | int) -> Any:
    hint = (
        typing.get_type_hints(owner)[str(part)]
        if is_dataclass(owner)
        else typing.get_args(owner)[0 if isinstance(part, int) else 1]
    )
    while typing.get_origin(hint) in (Union, types.UnionType):
        hint = next(item for item in typing.get_args(hint) if item is not types.NoneType)
    return hint


def _placed(problem: Problem, document: Document) -> Problem:
    """The problem with the line of its key, or of the nearest mapping around it."""
    key, lines = problem.key, document.lines
    around = lines.get(key[:-1]) if len(key) > 1 else None
    return replace(
        problem, line=next((line for line in (problem.line, lines.get(key), around) if line is not None), None)
    )
