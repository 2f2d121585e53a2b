"""Keys, values and changes of state as a person reads them: the command line and the pages say the same. Pure."""

import json
from collections.abc import Sequence
from typing import Final

from streamwarden.lifecycle.time_travel.answers import Change, Entry, Key
from streamwarden.services.overview.anatomy import moment_words

LONGEST: Final = 200
"""Characters of a value that a table shows; `--json` and an export have all of it."""


def key_words(key: Key, fields: Sequence[str]) -> str:
    """`carrier=UA, window.start=2013-01-01 05:00:00`: each part as `--key` takes it."""
    parts = (f"{field}={'null' if value is None else value}" for field, value in zip(fields, key, strict=True))
    return _printable(", ".join(parts))


def value_words(value: str | None, item: str | None = None, longest: int = LONGEST) -> str:
    """`n=3, total=57` of a JSON object; of an entry of a map with its key before it: `second=4: n=1`. Empty: there is
    neither."""
    if value is None:
        return "" if item is None else value_words(item, longest=longest)
    words = _printable(_fields(value))
    if len(words) > longest:
        words = f"{words[:longest]}… ({len(words):,} characters)"
    return words if item is None else f"{_printable(_fields(item))}: {words}"


def expiry_words(expires_ms: int | None) -> str:
    """`expires 2026-01-31 12:00:00 UTC`; empty if it does not, or nothing says it."""
    return "" if expires_ms is None else f"expires {moment_words(expires_ms)}"


def changed_entry(row: str | None, change: Change) -> Entry | None:
    """A row of one of two states, as `change` has it."""
    return None if row is None else Entry(partition=0, key=change.key, **json.loads(row))


def what_happened(change: Change) -> str:
    """`appeared`, `vanished` or `changed`."""
    if not change.rows_before:
        return "appeared"
    return "changed" if change.rows_after else "vanished"


def _fields(value: str) -> str:
    found = json.loads(value)
    if not isinstance(found, dict):
        return found if isinstance(found, str) else value
    return ", ".join(f"{name}={_plain(field)}" for name, field in found.items())


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _printable(words: str) -> str:
    """Without characters that a terminal would obey."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in words)
