"""Keys, values and changes of state as a person reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.cli.formatting import NONE, number, size
from streamwarden.cli.output import text
from streamwarden.services.overview.anatomy import moment_words

if TYPE_CHECKING:
    from streamwarden.lifecycle.time_travel.answers import Change, Entry, Key, Share

_LONGEST = 200
"""Characters of a value that a table shows; `--json` and an export have all of it."""


def key_words(key: Key, fields: Sequence[str]) -> str:
    """`carrier=UA, window.start=2013-01-01 05:00:00`: each part as `--key` takes it."""
    parts = (f"{field}={'null' if value is None else value}" for field, value in zip(fields, key, strict=True))
    return text(_printable(", ".join(parts))) or NONE


def value_words(value: str | None, item: str | None = None) -> str:
    """`n=3, total=57` of a JSON object; of an entry of a map with its key before it: `second=4: n=1`."""
    if value is None:
        return NONE if item is None else value_words(item)
    words = _printable(_fields(value))
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}… ({len(words):,} characters)"
    return text(words if item is None else f"{_printable(_fields(item))}: {words}") or NONE


def entry_words(entry: Entry) -> str:
    """The item, the value and the expiry of a row, in one cell."""
    expires = "" if entry.expires_ms is None else f" [dim]expires {moment_words(entry.expires_ms)}[/]"
    return value_words(entry.value, entry.item) + expires


def changed_words(row: str | None) -> str:
    """A row of one of two states, as a `Change` has it."""
    if row is None:
        return NONE
    found = json.loads(row)
    expires = "" if found.get("expires_ms") is None else f" [dim]expires {moment_words(found['expires_ms'])}[/]"
    return value_words(found.get("value"), found.get("item")) + expires


def what_happened(change: Change) -> str:
    """`appeared`, `vanished` or `changed`."""
    if not change.rows_before:
        return "[green]appeared[/]"
    return "changed" if change.rows_after else "[yellow]vanished[/]"


def growth_words(before: int | None, after: int | None, *, bytes: bool = False) -> str:
    """`3 → 7`."""
    show = size if bytes else number
    return f"{show(before)} → {show(after)}"


def share_cells(share: Share, fields: Sequence[str]) -> tuple[str, str, str]:
    """The partition or the key, its rows and its bytes."""
    name = key_words(share.key, fields) if share.partition is None else str(share.partition)
    return name, number(share.rows), size(share.bytes)


def _fields(value: str) -> str:
    found = json.loads(value)
    if not isinstance(found, dict):
        return value
    return ", ".join(f"{name}={_plain(field)}" for name, field in found.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _printable(words: str) -> str:
    """Without characters that a terminal would obey."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in words)
