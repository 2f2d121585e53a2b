"""What a row of the fleet says: its badge, one line of reason, and which rows are folded into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.airflow.web.words.badge import Tone, badge, since
from streamwarden.airflow.web.words.folds import FEW, NEVER_RAN, Fold, folded
from streamwarden.airflow.web.words.reason import Reason, follows, of_exit, reason
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.after_exit import Next
from streamwarden.services.overview.rows import AfterExit, Forecast, Growth, StreamRow

KILLED = ExitRecord(kind=ExitKind.KILLED, ended_at=7.0, signal=9)
LEFT = AfterExit(next=Next.LEFT_DOWN, reason="2 failures", next_step="", at=None, attempt=0)


def row(stream: str = "orders", state: Any = "running", health: Status = Status.OK, **more: Any) -> StreamRow:
    forecast = Forecast(sentence="", status=Growth.UNKNOWN, seconds=None, limit_bytes=5e9)
    return StreamRow(stream=stream, state=state, health=health, dag_id="", forecast=forecast, **more)


def down(stream: str = "orders", exit: ExitRecord = KILLED) -> StreamRow:
    return row(stream, "down", Status.CRITICAL, last_exit=exit, after_exit=LEFT)


@pytest.mark.parametrize(
    ("error_class", "message", "said"),
    [
        (
            "KeyError",
            "/srv/jobs/flight_departures.py:46: KeyError: \"column 'gate' is missing\"",
            Reason("KeyError: column 'gate' is missing", "flight_departures.py:46"),
        ),
        ("CAST_INVALID_INPUT", "job.py:3: the value 'x' is no number",
         Reason("CAST_INVALID_INPUT: the value 'x' is no number", "job.py:3")),
        ("X", "C:\\jobs\\a b.py:3: X: y", Reason("failed (X: C:\\jobs\\a b.py:3: X: y)")),
        (None, "the disk is full\nand more", Reason("failed (the disk is full)")),
    ],
)  # fmt: skip
def test_an_error_of_the_job_is_one_line_and_its_place(error_class: str | None, message: str, said: Reason) -> None:
    exit = ExitRecord(kind=ExitKind.FAILED, ended_at=0.0, error_class=error_class, message=message)
    assert of_exit(exit) == said


@pytest.mark.parametrize(
    ("given", "word", "tone", "why"),
    [
        (down(), "down", Tone.CRITICAL, Reason("killed by signal 9")),
        (row(), "running", Tone.GOOD, None),
        (row(health=Status.UNKNOWN), "running", Tone.UNKNOWN, None),
        (row(state="starting", health=Status.UNKNOWN), "starting", Tone.ACTIVE, None),
        (row(state="stopped", health=Status.CRITICAL, sentence="stopped by ann: x"), "stopped", Tone.QUIET,
         Reason("stopped by ann: x")),
        (row(state="new", health=Status.UNKNOWN), "new", Tone.QUIET, None),
        (row(state="broken", health=Status.CRITICAL, sentence="no\n key"), "broken", Tone.CRITICAL, Reason("no key")),
        (row(health=Status.WARNING, health_causes=("backlog",), health_reason="it grows"), "WARNING", Tone.WARNING,
         Reason("backlog: it grows")),
        (row(health=Status.CRITICAL, declared=False, sentence="its file is gone"), "CRITICAL", Tone.CRITICAL,
         Reason("its file is gone")),
    ],
)  # fmt: skip
def test_a_row_begins_with_what_matters_first(given: StreamRow, word: str, tone: Tone, why: Reason | None) -> None:
    assert (badge(given).word, badge(given).tone, reason(given)) == (word, tone, why)


def test_since_when_it_is_so_and_what_follows() -> None:
    assert (since(down()), follows(down())) == (7.0, "left down")
    assert (since(row(since=3.0)), follows(row())) == (3.0, "")
    assert since(row(state="new")) is None


def test_equal_reasons_are_one_line_in_the_place_of_the_first() -> None:
    other = down("b", replace(KILLED, signal=15))
    rows = [down("a"), other, down("c"), down("d"), row("e")]
    fold, alone, last = folded(rows, ())
    assert isinstance(fold, Fold)
    assert ([each.stream for each in fold.rows], alone, last) == (["a", "c", "d"], other, rows[-1])
    assert (fold.reason, fold.follows, fold.is_open) == (Reason("killed by signal 9"), "left down", False)
    opened = folded(rows, [fold.name])
    assert opened[1:4] == [rows[0], rows[2], rows[3]]
    assert opened[0].is_open  # type: ignore[union-attr]


def test_few_rows_healthy_rows_and_queries_are_not_folded() -> None:
    few = [down(f"s{number}") for number in range(FEW - 1)]
    well = [row(f"w{number}") for number in range(FEW)]
    queries = [down("pair"), down("pair/left"), down("pair/right")]
    assert folded([*few, *well, *queries], ()) == [*few, *well, *queries]


def test_streams_that_never_ran_are_one_line() -> None:
    (fold,) = folded([row(f"n{number}", "new", Status.UNKNOWN) for number in range(FEW)], ())
    assert isinstance(fold, Fold)
    assert (fold.name, fold.reason) == (NEVER_RAN, None)
