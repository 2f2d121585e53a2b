"""Changes values of a YAML file and leaves everything else as it is, to the byte: comments, order, quotes, blank lines.

The parser says where a value stands in the text, and only that piece of the text is replaced. A library that writes
YAML with its comments (ruamel.yaml) was tried: it puts a new key below the comment that belongs to the next section,
and writes a file whose lists are not indented in its own way anew.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from streamwarden.errors import ConfigError

_PLAIN: Final = re.compile(r"[A-Za-z0-9][\w./:-]*( [\w./-]+)*")
"""A scalar that needs no quotes, if it is not read as a number: `4 seconds`, `spark_jobs/new.py`."""

Place = tuple[str, ...]
"""The keys that lead to a value."""

_STEP: Final = 2
"""Columns by which a new mapping is indented."""


def edited(text: str, values: Mapping[Place, str], file: str) -> str:
    """The text of a file with these values: scalars, in place of what is there or as new keys.

    Args:
        values: place of a key -> its new value, which is text: a number gets quotes.
        file: the file's name, for the error.

    Raises ConfigError if the file is no mapping, or anything else would change.
    """
    changed = text
    if isinstance(_loaded(text), dict):
        for key, value in values.items():
            changed = _with(changed, key, _quoted(value))
    if _loaded(changed) != _expected(text, values):
        raise ConfigError(
            "the file cannot be edited without changing something else in it",
            expected="mappings, one below the other",
            where=file,
            next_step="change it by hand: " + "; ".join(f"{'.'.join(key)}: {values[key]}" for key in values),
        )
    return changed


def value_at(text: str, key: Place) -> str | None:
    """The scalar at a place of the file, as it is written there; None: there is none."""
    node, rest = _nearest(_root(text), key)
    return node.value if not rest and isinstance(node, yaml.ScalarNode) and node.value else None


def unified_diff(before: str, after: str, file: str) -> str:
    """The changes of a file, with three lines around each."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, fromfile=file, tofile=f"{file} (advised)"))


def _root(text: str) -> yaml.Node:
    return yaml.compose(text, yaml.SafeLoader) or yaml.MappingNode("tag:yaml.org,2002:map", [])


def _nearest(node: yaml.Node, key: Place) -> tuple[yaml.Node, Place]:
    """The deepest node on the way to a key, and the rest of the way."""
    for at, name in enumerate(key):
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next((value for given, value in pairs if given.value == name), None)
        if found is None:
            return node, key[at:]
        node = found
    return node, ()


def _with(text: str, key: Place, value: str) -> str:
    node, rest = _nearest(_root(text), key)
    if not rest:
        start, end = node.start_mark.index, node.end_mark.index
        return text[:start] + (value if start < end else f" {value}") + text[end:]
    if isinstance(node, yaml.ScalarNode) and node.value:
        return text  # a value where a mapping has to be, which is refused
    if isinstance(node, yaml.MappingNode) and node.flow_style:
        return _into_braces(text, node, rest, value)
    return _below(text, node, _column(text, node), rest, value)


def _into_braces(text: str, node: yaml.MappingNode, rest: Place, value: str) -> str:
    *outer, last = (_quoted(name) for name in rest)
    added = "".join(f"{name}: {{" for name in outer) + f"{last}: {value}" + "}" * len(outer)
    at = node.value[-1][1].end_mark.index if node.value else node.end_mark.index - 1
    return text[:at] + (f", {added}" if node.value else added) + text[at:]


def _below(text: str, node: yaml.Node, column: int, rest: Place, value: str) -> str:
    """The new keys on lines of their own, after the last line of the mapping and before the comments that follow it."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [f"{' ' * (column + _STEP * depth)}{_quoted(name)}:" for depth, name in enumerate(rest)]
    end = _end(node)
    ends_a_line = end == 0 or text[end - 1] == "\n"
    at = end if ends_a_line else text.find("\n", end) + 1 or len(text)
    before = text[:at] if not at or text[at - 1] == "\n" else text[:at] + newline
    return f"{before}{newline.join(lines)} {value}{newline}{text[at:]}"


def _column(text: str, node: yaml.Node) -> int:
    """Where the keys of a mapping begin; of a key without a value, one step further than the key itself."""
    if isinstance(node, yaml.MappingNode):
        return int(node.value[0][0].start_mark.column) if node.value else 0
    line = text[text.rfind("\n", 0, node.start_mark.index) + 1 :]
    return len(line) - len(line.lstrip(" ")) + _STEP


def _end(node: yaml.Node) -> int:
    """The index behind the last value: a mapping's own end is behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index) if node.end_mark is not None else 0


def _quoted(value: str) -> str:
    plain = _PLAIN.fullmatch(value) and isinstance(yaml.safe_load(value), str)
    return value if plain else "'" + value.replace("'", "''") + "'"


def _loaded(text: str) -> Any:
    """Scalars as texts: what kind of value they are is not the editor's concern. None: it is no YAML any more."""
    try:
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506  texts, lists and mappings alone: the safest of all
    except yaml.YAMLError:
        return None


def _expected(text: str, values: Mapping[Place, str]) -> Any:
    document = _loaded(text)
    if not isinstance(document, dict):
        return "no mapping"
    for key, value in values.items():
        at = document
        *outer, last = key
        for name in outer:
            inner = at.get(name)
            at[name] = inner if isinstance(inner, dict) else {}
            at = at[name]
        at[last] = value
    return document
