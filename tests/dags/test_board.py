"""The board: many people look at the rows, and the store is read about once a second."""

from __future__ import annotations

import threading

import pytest

from streamwarden.airflow.web.board import FRESH, OLDEST, REST, Board, Snapshot
from streamwarden.errors import StoreError
from streamwarden.health.evaluations import LastRound

LAST = LastRound(at=None, late=False, text="")


class Reader:
    """Counts readings; each waits for `go`, if it is held back, and fails while `down`."""

    def __init__(self, clock: list[float], took: float = 0.1) -> None:
        self.clock, self.took = clock, took
        self.count = 0
        self.down = False
        self.go = threading.Event()
        self.go.set()
        self.done = threading.Semaphore(0)

    def __call__(self) -> Snapshot:
        self.count += 1
        assert self.go.wait(10)
        try:
            if self.down:
                raise StoreError("the store is down")
            return Snapshot(self.clock[0], (), LAST, self.took)
        finally:
            self.done.release()


def test_the_first_request_reads_and_the_next_ones_do_not() -> None:
    clock = [1000.0]
    reader = Reader(clock)
    board = Board(reader, lambda: clock[0])
    assert [board.snapshot().at for _ in range(5)] == [1000.0] * 5
    assert reader.count == 1


def test_an_older_answer_is_given_at_once_while_a_thread_reads_a_newer_one() -> None:
    clock = [1000.0]
    reader = Reader(clock)
    board = Board(reader, lambda: clock[0])
    board.snapshot()
    assert reader.done.acquire(timeout=10)
    reader.go.clear()
    clock[0] += FRESH + 0.1
    assert [board.snapshot().at for _ in range(5)] == [1000.0] * 5  # nobody waits
    reader.go.set()
    assert reader.done.acquire(timeout=10)
    for thread in threading.enumerate():
        if thread.name == "streamwarden-board":
            thread.join(10)
    assert board.snapshot().at == clock[0]
    assert reader.count == 2


def test_a_large_fleet_is_read_less_often() -> None:
    clock = [1000.0]
    reader = Reader(clock, took=2.0)
    board = Board(reader, lambda: clock[0])
    board.snapshot()
    clock[0] += REST * 2.0 - 0.1
    board.snapshot()
    assert reader.count == 1


def test_rows_that_nobody_looked_at_for_long_are_read_before_the_answer() -> None:
    clock = [1000.0]
    board = Board(Reader(clock), lambda: clock[0])
    board.snapshot()
    clock[0] += OLDEST + 1
    assert board.snapshot().at == clock[0]


def test_a_store_that_is_down_leaves_the_rows_as_they_were_and_then_says_so() -> None:
    """Rows that grow old show their age; without any, the request fails with the reason."""
    clock = [1000.0]
    reader = Reader(clock)
    board = Board(reader, lambda: clock[0])
    board.snapshot()
    reader.down = True
    clock[0] += FRESH + 0.1
    assert board.snapshot().at == 1000.0
    clock[0] += OLDEST
    with pytest.raises(StoreError):
        board.snapshot()
