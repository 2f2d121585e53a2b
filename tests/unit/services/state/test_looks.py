"""Looks that are asked for and answered later: private, bounded in number, and gone after an hour."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.time_travel.answers import Difference, Entry, History, Moment, Share, Shown
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.services.state import looking
from streamwarden.services.state.looking import Look, Selection
from streamwarden.services.state.looks import Looks, Seen, Wanted, answer
from streamwarden.stream.spec import StreamSpec

TABLE = StateTable(operator=0, name="stateStoreSave", kind=TableKind.ROWS)
SECRET_KEY = "4711"
SHOWN = Shown(
    fields=("key",),
    rows=3,
    entries=(Entry(partition=1, key=(SECRET_KEY,), value='{"n":1}'),),
    partitions=(Share(partition=1, rows=3, bytes=8),),
)
DIFFERENCE = Difference(
    fields=("key",), rows_before=1, rows_after=3, appeared=2, vanished=0, changed=1, unchanged=0, grew=0, shrank=0
)
PAST = History(fields=("key",), moments=(Moment(batch=3, rows=0, entries=()),))


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(tmp_path / "data", "flights/left")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each kind of look was asked for; the reading process is not started."""
    asked: dict[str, Any] = {}

    def look(name: str, found: Any) -> None:
        def ask(spec: StreamSpec, chosen: Selection, **more: Any) -> Look[Any]:
            asked[name] = (chosen, more)
            return Look(stream="flights", table=TABLE, batches=(3, 7), committed_at=5.0, kept=(3, 7), answer=found)

        monkeypatch.setattr(looking, name, ask)

    look("show", SHOWN)
    look("diff", DIFFERENCE)
    look("history", PAST)
    return asked


def ask(looks: Looks, **wanted: Any) -> Seen:
    return looks.ask("ann", Wanted(**wanted), time.time())


@pytest.mark.parametrize(
    ("wanted", "name", "field", "sentence"),
    [
        ({"keys": (SECRET_KEY,), "batch": 7}, "show", "shown", "1 of 3 rows after batch 7"),
        ({"since": 3, "batch": 7}, "diff", "difference", "batches 3 and 7: 2 keys appeared, 0 vanished, 1 changed"),
        ({"keys": (SECRET_KEY,), "history": True}, "history", "history", "a history of 2 batches"),
    ],
)
def test_a_question_is_answered_and_both_are_kept(
    looks: Looks, seen: dict[str, Any], wanted: dict[str, Any], name: str, field: str, sentence: str
) -> None:
    asked = ask(looks, operator=0, **wanted)
    assert looks.get(asked.id) == asked
    done = answer(StreamSpec.__new__(StreamSpec), looks, asked)
    assert looks.newest() == [done]
    assert getattr(done, field) is not None
    assert done.sentence == sentence
    assert SECRET_KEY not in done.sentence + done.id
    assert seen[name][0] == Selection(operator=0, keys=wanted.get("keys", ()))


def test_a_refusal_is_an_answer_whose_sentence_says_nothing_of_the_state(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise CheckpointError(f"no row with the key {SECRET_KEY}", expected="a key", where="flights", next_step="look")

    monkeypatch.setattr(looking, "show", refuse)
    done = answer(StreamSpec.__new__(StreamSpec), looks, ask(looks, keys=(SECRET_KEY,)))
    assert done.refusal is not None
    assert SECRET_KEY in done.refusal.observed
    assert SECRET_KEY not in done.sentence
    assert looks.get(done.id) == done


def test_a_look_is_for_its_owner_alone(looks: Looks) -> None:
    asked = ask(looks)
    (file,) = looks.data.rglob("*.json")
    assert (file.stem, file.stat().st_mode & 0o777) == (asked.id, 0o600)
    assert {folder.stat().st_mode & 0o777 for folder in looks.data.rglob("*") if folder.is_dir()} == {0o700}


def test_looks_are_gone_after_an_hour_and_never_many(looks: Looks) -> None:
    for number in range(Looks.most + 3):
        looks.put(replace(ask(looks), id=f"20260101T0000{number:02d}000000Z-00000000"))
    ask(looks)
    assert len(looks.newest()) <= Looks.most
    newest = looks.newest()[0].id
    for file in looks.data.rglob("*.json"):
        os.utime(file, (time.time() - Looks.keep - 1,) * 2)
    assert (looks.newest(), looks.get(newest)) == ([], None)
    kept = ask(looks)
    assert Looks.remove_expired(looks.data, time.time()) > 0
    assert [file.stem for file in looks.data.rglob("*.json")] == [kept.id]
    assert Looks.remove_expired(looks.data, time.time() + Looks.keep + 1) == 1
    assert not (looks.data / "looks/flights").exists()


def test_only_an_id_leads_to_a_look(looks: Looks) -> None:
    ask(looks)
    (looks.data / "secret.json").write_text("{}")
    for name in ("../../secret", "", "20260101T000000000000Z-0123abcd"):
        assert looks.get(name) is None
        looks.forget(name)
    assert (looks.data / "secret.json").exists()
    (kept,) = looks.data.rglob("looks/**/*.json")
    kept.write_text("torn {")
    assert looks.newest() == []
    looks.forget(kept.stem)
    assert not kept.exists()


@pytest.mark.parametrize("more", [{}, {"keys": ("a",), "batch": 3}, {"keys": ("a",), "since": 3}])
def test_a_history_is_of_a_key_over_all_batches(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="a history shows one key"):
        Wanted(history=True, **more)
