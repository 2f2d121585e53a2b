"""The records of a driver's log that a person searches for, or that stand around an error."""

from __future__ import annotations

import pytest

from streamwarden.airflow.web.words.log_lines import AFTER, BEFORE, SHOWN, around, searched

HEAD = "26/11/27 10:00:00"


def log(*, before: int = 0, after: int = 0) -> list[str]:
    """Records, then an error with its traceback, then more records; with their line ends."""
    error = [f"{HEAD} ERROR Stream: query ended\n", "Traceback (most recent call last):\n", "KeyError: 'gate'\n"]
    return [*_plain(before, "before"), *error, *_plain(after, "after")]


def _plain(count: int, word: str) -> list[str]:
    return [f"{HEAD} INFO Batch: {word} {number}\n" for number in range(count)]


def test_the_records_around_an_error_are_shown_and_its_traceback_is_one_record() -> None:
    found = around(log(before=BEFORE + 50, after=AFTER + 50), "'gate'")
    assert len(found) == BEFORE + 1 + AFTER
    (error,) = [record for record in found if record.found]
    assert error.level == "ERROR"
    assert error.text.endswith("KeyError: 'gate'")
    assert found[0].text.endswith("before 50")


@pytest.mark.parametrize("error", ["", "of another driver"])
def test_without_the_error_the_newest_records_are_shown(error: str) -> None:
    found = around(log(before=2 * SHOWN), error)
    assert len(found) == SHOWN
    assert not any(record.found for record in found)
    assert found[-1].level == "ERROR"


@pytest.mark.parametrize(
    ("level", "wanted", "said"),
    [
        ("", "BEFORE 1", ["INFO"]),
        ("warning", "", ["WARNING", "ERROR"]),
        ("error", "", ["ERROR"]),
        ("error", "disk", []),
    ],
)
def test_records_are_searched_by_level_and_by_text_of_any_case(level: str, wanted: str, said: list[str]) -> None:
    lines = [f"{HEAD} WARN Disk: nearly full\n", *log(before=3)]
    assert [record.level for record in searched(lines, level, wanted)] == said


def test_a_search_shows_the_newest_records_that_fit_and_marks_them() -> None:
    found = searched(log(before=SHOWN + 5), "", "before")
    assert len(found) == SHOWN
    assert all(record.found for record in found)
    assert found[-1].text.endswith(f"before {SHOWN + 4}")
