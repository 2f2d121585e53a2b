"""Bounds an answer about state that is kept for a while: its texts are cut, and secrets in them are redacted. Pure.

How many rows it has was bounded by who asked. What is cut says how long it was, and stays JSON where it was JSON.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeVar

from streamwarden.lifecycle.time_travel.answers import Change, Difference, Entry, History, Key, Share, Shown
from streamwarden.redaction import redacted, redacted_text

LONGEST: Final = 1_000
"""Characters of a value, of an item and of each field of a key."""
PARTITIONS: Final = 20
"""The largest ones are kept."""

_Of = TypeVar("_Of", Shown, History, Difference)


def bounded(answer: _Of) -> _Of:
    """The answer with no text longer than `LONGEST`, without secrets."""
    fields = answer.fields
    if isinstance(answer, Shown):
        return replace(
            answer,
            entries=tuple(bounded_entry(entry, fields) for entry in answer.entries),
            partitions=answer.partitions[:PARTITIONS],
            largest=tuple(_share(share, fields) for share in answer.largest),
        )
    if isinstance(answer, History):
        moments = (
            replace(moment, entries=tuple(bounded_entry(entry, fields) for entry in moment.entries))
            for moment in answer.moments
        )
        return replace(answer, moments=tuple(moments))
    return replace(
        answer,
        growth=tuple(_change(change, fields) for change in answer.growth),
        sample=tuple(_change(change, fields) for change in answer.sample),
    )


def bounded_entry(entry: Entry, fields: Sequence[str]) -> Entry:
    """A row with no text longer than `LONGEST`, without secrets."""
    return replace(entry, key=_key(entry.key, fields), item=_json(entry.item), value=_json(entry.value))


def _share(share: Share, fields: Sequence[str]) -> Share:
    return replace(share, key=_key(share.key, fields))


def _change(change: Change, fields: Sequence[str]) -> Change:
    return replace(change, key=_key(change.key, fields), before=_row(change.before), after=_row(change.after))


def _key(key: Key, fields: Sequence[str]) -> Key:
    named = redacted(dict(zip(fields, key, strict=True)))
    return tuple(None if named[field] is None else cut(named[field]) for field in fields)


def _row(row: str | None) -> str | None:
    """A row of a `Change`: JSON, in which item and value are JSON themselves."""
    if row is None:
        return None
    found = json.loads(row)
    return json.dumps({**found, **{part: _json(found[part]) for part in ("item", "value") if part in found}})


def _json(text: str | None) -> str | None:
    """A value; if it is too long, a text that begins as it does."""
    if text is None:
        return None
    shown = json.dumps(redacted(json.loads(text)), ensure_ascii=False, separators=(",", ":"))
    return shown if len(shown) <= LONGEST else json.dumps(cut(shown), ensure_ascii=False)


def cut(text: str) -> str:
    """The beginning of a long text, and how long it was; without secrets."""
    text = redacted_text(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
