"""The keys of a YAML file, read from its dataclass: name, type, default, and the text below each field."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Collection, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union

from streamwarden.stream.spec import Budget
from streamwarden.units import Quantity, format_duration


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a file. `name` is dotted."""

    name: str
    type: str
    default: str
    meaning: str


def keys(kind: Any, *, only: str = "", leave_out: Collection[str] = (), prefix: str = "") -> Iterator[Key]:
    """The keys of a mapping that becomes a `kind`, in order. Raises LookupError for a field without a text below it.

    Args:
        only: the one field to read; empty: all.
        leave_out: fields that are not keys of the file.
        prefix: put before each name.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, name = hints[field.name], f"{prefix}{field.name}"
        if field.name in leave_out or (only and field.name != only):
            continue
        if is_dataclass(hint):
            yield from keys(hint, prefix=f"{name}.")
        else:
            yield Key(name, _type(hint), _default(hint, field), meaning(kind, field.name))


def table(rows: Collection[Key]) -> str:
    """The keys as a Markdown table."""
    lines = [f"| `{key.name}` | {key.type} | {key.default} | {key.meaning} |" for key in rows]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *lines]) + "\n"


def meaning(kind: type, name: str) -> str:
    """The string literal below the field `name` of a class, or of the base that declares it. Raises LookupError."""
    for each in kind.__mro__:
        if name in inspect.get_annotations(each):
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
            assert isinstance(body, ast.ClassDef)
            for statement, following in zip(body.body, body.body[1:], strict=False):
                match statement, following:
                    case (
                        ast.AnnAssign(target=ast.Name(id=target)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ) if target == name:
                        return " ".join(text.split())
    raise LookupError(f"{kind.__name__}.{name} has no text below it that says what the key means")


def _type(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        quantity: Quantity = typing.get_args(hint)[1]
        return quantity.name
    if origin in (Union, types.UnionType):
        return " or ".join("null" if part is types.NoneType else _type(part) for part in typing.get_args(hint))
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{member.value}`" for member in hint)
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        return "list of mappings" if is_dataclass(getattr(inner, "__origin__", inner)) else "list of text"
    if origin is dict:
        return "mapping"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}[hint]


def _default(hint: Any, field: Field[Any]) -> str:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    if default is MISSING:
        return "**required**"
    if default is None:
        return "null"
    if isinstance(default, Budget):
        return f"{default.count} per {format_duration(default.per)}"
    if isinstance(default, Enum):
        return f"`{default.value}`"
    if isinstance(default, bool):
        return str(default).lower()
    if default in ("", (), {}):
        return "empty"
    if isinstance(default, tuple):
        return ", ".join(f"`{value}`" for value in default)
    words = _type(hint).split(" or ")[0]
    if words == "duration":
        return format_duration(default)
    return f"{default // 2**30} GiB" if words == "size" else f"`{default}`"
