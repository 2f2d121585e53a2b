"""Keys, values and changes of state in cells of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.cli.formatting import NONE, number, size
from streamwarden.cli.output import text
from streamwarden.services.overview import state_words as words

if TYPE_CHECKING:
    from streamwarden.lifecycle.time_travel.answers import Change, Entry, Key, Share

_COLOURS = {"appeared": "green", "vanished": "yellow"}


def key_words(key: Key, fields: Sequence[str]) -> str:
    """See `state_words.key_words`."""
    return text(words.key_words(key, fields)) or NONE


def value_words(value: str | None, item: str | None = None) -> str:
    """See `state_words.value_words`."""
    return text(words.value_words(value, item)) or NONE


def entry_words(entry: Entry) -> str:
    """The item, the value and the expiry of a row, in one cell."""
    expires = words.expiry_words(entry.expires_ms)
    return value_words(entry.value, entry.item) + (f" [dim]{expires}[/]" if expires else "")


def changed_words(row: str | None, change: Change) -> str:
    """A row of one of two states, as a `Change` has it."""
    entry = words.changed_entry(row, change)
    return NONE if entry is None else entry_words(entry)


def what_happened(change: Change) -> str:
    """`appeared`, `vanished` or `changed`, in its colour."""
    word = words.what_happened(change)
    return f"[{_COLOURS[word]}]{word}[/]" if word in _COLOURS else word


def growth_words(before: int | None, after: int | None, *, bytes: bool = False) -> str:
    """`3 → 7`."""
    show = size if bytes else number
    return f"{show(before)} → {show(after)}"


def share_cells(share: Share, fields: Sequence[str]) -> tuple[str, str, str]:
    """The partition or the key, its rows and its bytes."""
    name = key_words(share.key, fields) if share.partition is None else str(share.partition)
    return name, number(share.rows), size(share.bytes)
