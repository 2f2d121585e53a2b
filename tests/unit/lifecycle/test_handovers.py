"""What a driver records of the functions that get its batches, and what that proves."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.lifecycle import handovers
from streamwarden.lifecycle.driver_folder import HOLD
from streamwarden.lifecycle.handovers import (
    Handover,
    ask_to_hold,
    await_release,
    kept,
    ran_again,
    read_handovers,
    write_handovers,
)


def call(batch: int, **changes: object) -> Handover:
    return replace(Handover(query_id="q", batch=batch, began_at=100.0 + batch), **changes)  # type: ignore[arg-type]


def test_the_record_is_read_back_and_a_driver_without_functions_has_none(tmp_path: Path) -> None:
    calls = (call(0, wrote_at=100.5, ended_at=101.0), call(1))
    write_handovers(tmp_path, calls)
    assert read_handovers(tmp_path) == calls
    assert read_handovers(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("changes", "over", "wrote"),
    [
        ({}, False, False),
        ({"wrote_at": 1.0}, False, True),
        ({"ended_at": 2.0}, True, True),
        ({"ended_at": 2.0, "raised": True}, False, False),
        ({"ended_at": 2.0, "raised": True, "wrote_at": 1.0}, True, True),
    ],
    ids=["running", "wrote", "returned", "raised before a write", "raised after a write"],
)
def test_a_batch_is_handed_over_when_the_function_returned_or_raised_after_a_write(
    changes: dict[str, object], over: bool, wrote: bool
) -> None:
    handover = call(3, **changes)
    assert (handover.handed_over_at is not None, handover.wrote) == (over, wrote)


@pytest.mark.parametrize(
    ("drivers", "again"),
    [
        ([], None),
        ([[call(0, ended_at=1.0)], [call(1, ended_at=2.0)]], False),
        ([[call(0)], [call(0, ended_at=2.0)]], False),
        ([[call(0, ended_at=1.0)], [call(0)]], True),
        ([[call(0, wrote_at=1.0)], [call(0, ended_at=2.0)]], True),
        ([[call(0, ended_at=1.0)], [replace(call(0), query_id="other")]], False),
    ],
    ids=["no function", "each once", "killed before it wrote", "after it", "while it wrote", "another query"],
)
def test_only_a_batch_that_came_again_after_a_write_shows_whether_it_is_written_twice(
    drivers: list[list[Handover]], again: bool | None
) -> None:
    assert ran_again(drivers, "q") is again


def test_the_first_batch_of_a_driver_and_its_newest_are_kept() -> None:
    calls = [call(batch) for batch in range(100)]
    left = [handover.batch for handover in kept(calls)]
    assert (left[0], left[1], left[-1], len(left)) == (0, 71, 99, 30)


def test_a_batch_is_held_until_the_drill_lets_go(tmp_path: Path) -> None:
    await_release(tmp_path)
    ask_to_hold(tmp_path, True)
    waiting = threading.Thread(target=await_release, args=(tmp_path,))
    waiting.start()
    time.sleep(0.05)
    assert waiting.is_alive()
    ask_to_hold(tmp_path, False)
    waiting.join(timeout=5)
    assert not waiting.is_alive()


def test_a_drill_that_died_holds_one_batch_for_a_while_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handovers, "LONGEST_HOLD", 0.05)
    ask_to_hold(tmp_path, True)
    await_release(tmp_path)
    assert not (tmp_path / HOLD).exists()
