"""A driver's log in the task's log: every line once, also after the reader was killed, and never without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.services.fleet.exits.log_tail import BEHIND, CHUNK, LogTail, last_lines, last_text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "driver.log"


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def test_a_log_that_is_not_there_yet_has_no_lines(log: Path) -> None:
    """The driver was just launched."""
    assert LogTail.resumed(log).read() == ()


def test_lines_are_shown_once_and_in_order(log: Path) -> None:
    """Two looks, and nothing new in the third."""
    tail = LogTail.resumed(log)
    append(log, "one\ntwo\n")
    assert list(tail.read()) == ["one", "two"]
    append(log, "three\n")
    assert list(tail.read()) == ["three"]
    assert list(tail.read()) == []


def test_another_reader_goes_on_where_the_killed_one_was(log: Path) -> None:
    """A new triggerer, or a cleared task's new try, repeats nothing."""
    append(log, "one\n")
    assert list(LogTail.resumed(log).read()) == ["one"]
    append(log, "two\n")
    assert list(LogTail.resumed(log).read()) == ["two"]


def test_a_line_that_is_not_finished_waits_for_its_rest(log: Path) -> None:
    """Unless the driver has ended: then it is all there will be."""
    tail = LogTail.resumed(log)
    append(log, "whole\nhal")
    assert list(tail.read()) == ["whole"]
    append(log, "f\nlast words")
    assert list(tail.read()) == ["half"]
    assert list(tail.read(final=True)) == ["last words"]
    assert list(tail.read(final=True)) == []


def test_a_driver_that_floods_its_log_floods_nothing_else(log: Path) -> None:
    """The middle is skipped, and a line says how much and where the whole log is."""
    append(log, "x" * 99 + "\n")
    append(log, ("y" * 99 + "\n") * (2 * BEHIND // 100))
    append(log, "the end\n")
    shown = []
    tail = LogTail.resumed(log)
    while lines := tail.read():
        shown += lines
    assert shown[-1] == "the end"
    assert "were skipped" in shown[0]
    assert str(log) in shown[0]
    assert sum(map(len, shown)) < BEHIND


def test_a_line_longer_than_a_look_is_shown_in_pieces(log: Path) -> None:
    """A plan of a megabyte in one line must not stop the log."""
    append(log, "z" * 300_000 + "\nafter\n")
    shown = []
    tail = LogTail.resumed(log)
    while lines := tail.read():
        shown += lines
    assert "".join(shown[:-1]) == "z" * 300_000
    assert shown[-1] == "after"


def test_bytes_that_are_no_text_are_shown_as_such(log: Path) -> None:
    """A job may print anything."""
    log.write_bytes(b"caf\xe9\n")
    assert list(LogTail.resumed(log).read()) == ["caf\ufffd"]


def test_a_log_that_was_replaced_is_read_from_its_start(log: Path) -> None:
    """It is shorter than what was shown."""
    append(log, "a long first line\n")
    LogTail.resumed(log).read()
    log.write_text("new\n")
    assert list(LogTail.resumed(log).read()) == ["new"]


def test_a_reader_that_skips_nothing_shows_a_flood_whole(log: Path) -> None:
    """A person who follows a log in a terminal sees every line once, from where the following began."""
    append(log, "before\n")
    tail = LogTail(log, start=log.stat().st_size)
    count = 2 * BEHIND // 100
    append(log, "".join(f"{number:099d}\n" for number in range(count)) + "last words")
    assert [int(line) for line in tail.read_all()] == list(range(count))
    assert list(tail.read_all(final=True)) == ["last words"]
    assert not log.with_name(log.name + ".shown").exists()


def test_the_tail_of_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert last_text(tmp_path / "none") == ""
    (tmp_path / "log").write_text("x" * 100 + "end")
    assert last_text(tmp_path / "log", 5) == "xxend"


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
@pytest.mark.parametrize("line", ["x", "y" * 200, "z" * (CHUNK + 7)], ids=["short", "long", "longer than a read"])
@pytest.mark.parametrize("end", ["\n", ""], ids=["whole", "unfinished"])
def test_the_last_lines_are_those_of_the_whole_file(log: Path, count: int, line: str, end: str) -> None:
    """However many reads from the end that takes."""
    whole = [f"{number} {line}\n" for number in range(30)] + [f"last{end}"]
    log.write_text("".join(whole))
    assert list(last_lines(log, count)) == whole[len(whole) - min(count, len(whole)) :]


def test_no_more_of_a_log_is_read_than_asked_for(log: Path) -> None:
    """A single line of a megabyte must not fill a page."""
    log.write_text("x" * 1_000_000 + "the end\n")
    assert list(last_lines(log, 200, most=10)) == ["xxthe end\n"]


def test_a_secret_of_several_lines_is_redacted_whole(log: Path) -> None:
    """Each line of a key by itself looks like any other text."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----\n"
    log.write_text(f"{key}done\n")
    shown = "".join(last_lines(log, 3))
    assert "IBADAN" not in shown
    assert shown.endswith("done\n")
