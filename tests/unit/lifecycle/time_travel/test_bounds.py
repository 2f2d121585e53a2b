"""What is kept of an answer about state: nothing that is long, no secret, and the rest as it was."""

from __future__ import annotations

import json

import pytest

from streamwarden.lifecycle.time_travel.answers import (
    Change,
    Difference,
    Entry,
    History,
    Moment,
    Share,
    Shown,
)
from streamwarden.lifecycle.time_travel.bounds import LONGEST, PARTITIONS, bounded
from streamwarden.redaction import REDACTED

LONG = json.dumps({"text": "x" * 5000})
ENTRY = Entry(partition=0, key=("a",), item='{"second":4}', value='{"n":1}', expires_ms=5)
SMALL = Shown(fields=("key",), rows=1, entries=(ENTRY,), partitions=(Share(partition=0, rows=1, bytes=8),))
COUNTS = dict.fromkeys(("appeared", "vanished", "changed", "unchanged", "grew", "shrank"), 0)


def difference(change: Change) -> Difference:
    return Difference(fields=("key",), rows_before=1, rows_after=1, growth=(change,), sample=(change,), **COUNTS)


def change(row: str | None, key: str = "a") -> Change:
    return Change(key=(key,), rows_before=1, rows_after=1, bytes_before=None, bytes_after=9, before=row, after=None)


@pytest.mark.parametrize(
    "answer",
    [
        SMALL,
        History(
            fields=("key",), moments=(Moment(batch=3, rows=1, entries=(ENTRY,)), Moment(batch=4, rows=0, entries=()))
        ),
        difference(change(json.dumps({"value": '{"n":1}', "expires_ms": 5}))),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_a_small_answer_is_kept_as_it_is(answer: Shown | History | Difference) -> None:
    assert bounded(answer) == answer


@pytest.mark.parametrize(
    "answer",
    [
        Shown(
            fields=("key",),
            rows=1,
            entries=(Entry(partition=0, key=("k" * 9000,), item=LONG, value=LONG),),
            partitions=tuple(Share(partition=number, rows=1, bytes=1) for number in range(500)),
            largest=(Share(key=("k" * 9000,), rows=1, bytes=1),),
        ),
        History(
            fields=("key",), moments=(Moment(batch=3, rows=1, entries=(Entry(partition=0, key=("a",), value=LONG),)),)
        ),
        difference(change(json.dumps({"item": LONG, "value": LONG}), key="k" * 9000)),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_a_large_answer_is_cut_and_stays_readable(answer: Shown | History | Difference) -> None:
    """Each text in it is cut to `LONGEST`, and says how long it was; JSON stays JSON."""
    kept = bounded(answer)
    assert all(len(text) < 3 * LONGEST for text in _texts(kept))
    if isinstance(kept, Shown):
        assert len(kept.partitions) == PARTITIONS
        assert kept.entries[0].key[0] == "k" * LONGEST + "… (9,000 characters)"
        assert "(5,0" in json.loads(str(kept.entries[0].value))
    if isinstance(kept, Difference):
        assert "(5,0" in json.loads(json.loads(str(kept.sample[0].before))["value"])


def _texts(answer: Shown | History | Difference) -> list[str]:
    entries = list(answer.entries) if isinstance(answer, Shown) else []
    if isinstance(answer, History):
        entries = [entry for moment in answer.moments for entry in moment.entries]
    found = [text for entry in entries for text in (*entry.key, entry.item, entry.value)]
    if isinstance(answer, Difference):
        found = [text for change in (*answer.growth, *answer.sample) for text in (*change.key, change.before)]
    return [text for text in found if text is not None]


def test_a_secret_is_not_kept() -> None:
    entry = Entry(partition=0, key=("hunter2-hunter2", None), value='{"password":"hunter2-hunter2","n":1}')
    kept = bounded(Shown(fields=("api.token", "other"), rows=1, entries=(entry,), partitions=()))
    assert kept.entries[0].key == (REDACTED, None)
    assert json.loads(str(kept.entries[0].value)) == {"password": REDACTED, "n": 1}
