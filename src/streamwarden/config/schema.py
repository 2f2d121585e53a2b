"""From a mapping to a plain frozen dataclass: pydantic checks the types, this module words its errors."""

from __future__ import annotations

import difflib
import json
import types
import typing
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, Union, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from streamwarden.config.problems import ConfigFileError, KeyPath, Problem, in_order, show
from streamwarden.config.yaml_document import Document
from streamwarden.errors import InvalidValue

T = TypeVar("T")

_STRICT: Final = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def parse(kind: type[T], document: Document, *, reserved: Collection[str] = (), also: Iterable[Problem] = ()) -> T:
    """Build a `kind` from `document`. Raises ConfigFileError with every problem of its types.

    Args:
        reserved: fields of `kind` that a file may not set.
        also: problems of the same document that are known already.
    """
    value = {key: item for key, item in document.value.items() if key not in reserved}
    problems = [*also, *(_unknown(kind, (key,), reserved) for key in sorted(set(reserved) & set(document.value)))]
    try:
        result = load(kind, value)
    except ValidationError as error:
        found: dict[KeyPath, Problem] = {}
        for detail in error.errors(include_url=False):  # a union reports one for each of its members: the first counts
            problem = _problem(kind, _real(detail, value), detail, reserved)
            found.setdefault(problem.key, problem)
        raise refusal(document, [*problems, *found.values()]) from None
    if problems:
        raise refusal(document, problems)
    return result


def refusal(document: Document, problems: Iterable[Problem]) -> ConfigFileError:
    """The error of a document, each problem with its line."""
    return ConfigFileError(document.file, in_order(placed(problem, document) for problem in problems))


def load(kind: type[T], value: Mapping[str, Any]) -> T:
    """A `kind` from JSON-like data, strictly. Raises pydantic's ValidationError (its locations start with 0)."""
    adapter = _adapter(cast("Hashable", kind))
    return cast("tuple[T]", adapter.validate_json(json.dumps([value])))[0]


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    # A plain dataclass takes no config of its own; the tuple around it passes the config on to all dataclasses within.
    return TypeAdapter(tuple[kind], config=_STRICT)  # type: ignore[valid-type]


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
    if _is_missing(detail) or detail["type"] == "unexpected_keyword_argument":
        return key
    for depth, part in enumerate(key):
        if not isinstance(value, dict | list):
            return key[:depth]
        value = value.get(part) if isinstance(value, dict) else value[cast("int", part)]
    return key


def _problem(kind: type[Any], key: KeyPath, detail: Mapping[str, Any], reserved: Collection[str]) -> Problem:
    code = str(detail["type"])
    value = detail["input"]
    if code == "unexpected_keyword_argument":
        return _unknown(kind, key, reserved)
    if _is_missing(detail):
        return Problem(key=key, observed="the required key is missing", next_step=f"add `{key[-1]}: …`")
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
    refused = detail.get("ctx", {}).get("error")
    if isinstance(refused, InvalidValue):
        part = refused.key.split(".") if refused.key else ()
        observed = refused.observed if part else f"{show(value)} cannot be read"
        return Problem(key=(*key, *part), observed=observed, allowed=refused.allowed)
    return Problem(key=key, observed=f"{_named(value)}: {detail['msg']}")


def _named(value: object) -> str:
    kinds = {type(None): "", bool: "", int: "the number ", float: "the number ", str: "the text ", list: "the list "}
    return f"{kinds.get(type(value), 'the mapping ')}{show(value)}"


def _unknown(kind: type[Any], key: KeyPath, reserved: Collection[str]) -> Problem:
    owner: Any = kind
    for part in key[:-1]:
        owner = _inner(owner, part)
    names = [field.name for field in fields(owner) if not (owner is kind and field.name in reserved)]
    near = difflib.get_close_matches(str(key[-1]), names, n=1)
    return Problem(
        key=key,
        observed="unknown key",
        allowed=f"one of {', '.join(names)}",
        next_step=f"did you mean `{near[0]}`?" if near else "delete it",
    )


def _inner(owner: Any, part: str | int) -> Any:
    hint = (
        typing.get_type_hints(owner)[str(part)]
        if is_dataclass(owner)
        else typing.get_args(owner)[0 if isinstance(part, int) else 1]
    )
    while typing.get_origin(hint) in (Union, types.UnionType):
        hint = next(item for item in typing.get_args(hint) if item is not types.NoneType)
    return hint


def placed(problem: Problem, document: Document) -> Problem:
    """The problem with the line of its key, or of the nearest mapping around it."""
    if problem.line is not None:
        return problem
    key = problem.key
    line = document.lines.get(key)
    if line is None and len(key) > 1:
        line = document.lines.get(key[:-1])
    return Problem(key=key, observed=problem.observed, allowed=problem.allowed, next_step=problem.next_step, line=line)
