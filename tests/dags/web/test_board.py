"""The board: many people look at the rows, and the store is read about once a second."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.airflow.web import shared_workspace
from streamwarden.airflow.web.readings import Snapshot
from streamwarden.airflow.web.row_cache import (
    DAY,
    FRESH,
    OLDEST,
    PATIENCE,
    QUICK,
    REST,
    Board,
    Slow,
    read_board,
    read_numbers,
    state_trends,
)
from streamwarden.errors import StoreError
from streamwarden.health.evaluations import LastRound
from streamwarden.health.signals.series import STATE_BYTES
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.supervision.stop import Desired, DesiredState
from streamwarden.services.workspace import Workspace
from support.airflow.web_fleet import fill
from support.airflow.web_server import bearer, served
from support.pages import on_call
from support.streams.reports import report

LAST = LastRound(at=None, late=False, text="")
FOR_SURE = 30.0
"""Seconds that even the busiest machine needs less than for a reading that nothing holds back."""
BETWEEN = 2.0
"""Seconds between two requests of an open page."""


class Reader:
    """Counts readings; each waits for `go`, if it is held back, and fails while `down`."""

    def __init__(self, clock: list[float], cost: float = QUICK) -> None:
        self.clock, self.cost = clock, cost
        self.count = 0
        self.down = False
        self.go = threading.Event()
        self.go.set()
        self.done = threading.Semaphore(0)

    def __call__(self) -> Snapshot:
        self.count += 1
        assert self.go.wait(FOR_SURE)
        try:
            if self.down:
                raise StoreError("the store is down")
            return Snapshot(self.clock[0], (), LAST, self.cost)
        finally:
            self.done.release()


def test_the_first_request_reads_and_the_next_ones_do_not() -> None:
    clock = [1000.0]
    reader = Reader(clock)
    board = Board(reader, lambda: clock[0])
    assert [board.snapshot().at for _ in range(5)] == [1000.0] * 5
    assert reader.count == 1


@pytest.mark.parametrize(("patience", "late"), [(FOR_SURE, 0.0), (0.0, BETWEEN)], ids=["waits", "does not wait"])
def test_an_open_page_shows_what_happened_before_its_newest_request(patience: float, late: float) -> None:
    """The request that finds old rows gets the rows that it had read. Without its patience, which is the control, a
    page shows them one request later."""
    clock = [1000.0]
    reader = Reader(clock)
    reader.go.clear()
    board = Board(reader, lambda: clock[0], patience)
    with ThreadPoolExecutor(1) as browser:
        for _ in range(5):
            answer = browser.submit(board.snapshot)
            if not patience and clock[0] > 1000.0:
                answer.result(FOR_SURE)  # it has been answered before anything could be read
            reader.go.set()
            shown = answer.result(FOR_SURE).at
            assert shown == (clock[0] - late if clock[0] > 1000.0 else 1000.0)
            assert reader.done.acquire(timeout=FOR_SURE)
            _is_read(board)
            reader.go.clear()
            clock[0] += BETWEEN
    assert reader.count == 5


def _is_read(board: Board) -> None:
    """Wait until the rows of the last reading are there."""
    for thread in threading.enumerate():
        if thread.name == "streamwarden-board":
            thread.join(FOR_SURE)


def test_the_old_rows_are_the_answer_if_new_ones_take_longer_than_a_request_waits() -> None:
    """However many ask meanwhile, one thread reads."""
    clock = [1000.0]
    reader = Reader(clock)
    board = Board(reader, lambda: clock[0])
    board.snapshot()
    assert reader.done.acquire(timeout=FOR_SURE)
    reader.go.clear()
    clock[0] += FRESH + 0.1
    began = time.monotonic()
    with ThreadPoolExecutor(5) as browsers:
        assert {each.at for each in browsers.map(lambda _: board.snapshot(), range(5))} == {1000.0}
    assert time.monotonic() - began >= PATIENCE
    reader.go.set()
    assert reader.done.acquire(timeout=FOR_SURE)
    _is_read(board)
    assert board.snapshot().at == clock[0]
    assert reader.count == 2


def test_the_rows_of_a_large_fleet_are_shown_at_once_and_newer_ones_to_the_next_request() -> None:
    """A reading that computes for longer than a request may take is not waited for; the first has to be."""
    clock = [1000.0]
    reader = Reader(clock, cost=QUICK + 0.01)
    board = Board(reader, lambda: clock[0], FOR_SURE)
    assert _readings(board, reader, clock, (FRESH + 0.1,)) == 2
    reader.go.clear()
    clock[0] += FRESH + 0.1
    before = clock[0] - FRESH - 0.1
    with ThreadPoolExecutor(1) as browser:
        assert browser.submit(board.snapshot).result(FOR_SURE / 2).at == before
    reader.go.set()
    _is_read(board)
    assert board.snapshot().at == clock[0]


def test_a_large_fleet_is_read_less_often() -> None:
    clock = [1000.0]
    reader = Reader(clock, cost=2.0)
    board = Board(reader, lambda: clock[0], FOR_SURE)
    assert _readings(board, reader, clock, (FRESH + 0.1, REST * 2.0 - 0.1)) == 2
    assert _readings(board, reader, clock, (0.2,)) == 3


def test_one_reading_that_has_more_to_do_than_others_does_not_make_the_rows_rest() -> None:
    """The first, and the one after an evaluation; two in a row, which is the control, do."""
    clock = [1000.0]
    reader = Reader(clock, cost=2.0)
    board = Board(reader, lambda: clock[0], FOR_SURE)
    board.snapshot()
    reader.cost = QUICK
    assert _readings(board, reader, clock, (FRESH + 0.1,) * 2) == 3
    reader.cost = 2.0
    assert _readings(board, reader, clock, (FRESH + 0.1,) * 2) == 5
    assert _readings(board, reader, clock, (FRESH + 0.1,)) == 5


def _readings(board: Board, reader: Reader, clock: list[float], waits: Sequence[float]) -> int:
    """How often the store was read up to a request now and one after each wait."""
    board.snapshot()
    for seconds in waits:
        clock[0] += seconds
        board.snapshot()
        _is_read(board)
    return reader.count


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
    board = Board(reader, lambda: clock[0], FOR_SURE)
    board.snapshot()
    reader.down = True
    clock[0] += FRESH + 0.1
    assert board.snapshot().at == 1000.0
    clock[0] += OLDEST
    with pytest.raises(StoreError):
        board.snapshot()


@pytest.mark.parametrize(("age", "apart", "points"), [(600, 60, 5), (DAY, 1800, 24), (90, 60, 0)])
def test_a_stream_has_a_line_of_its_state_from_its_first_minutes_on(
    space: Workspace, age: float, apart: float, points: int
) -> None:
    """Of a day if there is one; of the last hour if the stream is young; none of two evaluations a minute apart, which
    are one point."""
    now = 1_800_000_000.0
    times = [now - passed * apart for passed in range(int(age / apart) + 1)]
    space.store.measurements.add(
        [
            Measurement(stream="counted", name=STATE_BYTES, source="a test", at=at, value=now - at, unit="bytes")
            for at in times
        ]
    )
    found = state_trends(space.store, ["counted", "other"], now)
    line = found.get("counted", ())
    assert len(line) >= points if points else len(line) < 2
    assert all(value == now - at for at, value in line)
    assert not found.get("other")


def test_full_collections_pass_over_what_the_server_holds_after_its_first_reading(tmp_path: Path) -> None:
    """Each of them looked at all of Airflow's code for 0.2 s, in which no request was answered."""
    with served(tmp_path, fill) as server:
        gc.unfreeze()  # what the process of the tests passes over
        server.get("/streamwarden/api/v1/streams", headers=bearer("viewer")).raise_for_status()
        assert gc.get_freeze_count() > len(gc.get_objects())


def test_the_numbers_of_new_batches_are_those_that_reading_everything_finds(tmp_path: Path) -> None:
    """Of a stream that runs; the one that is down keeps its own. Without the new batches, which is the control, the
    rows are the same objects."""
    with served(tmp_path, on_call.fill):
        space, files, slow = shared_workspace.opened(), shared_workspace.catalogs(), Slow()
        before = read_board(space, files, slow, time.time()).rows
        assert any(row.state == "down" for row in before)
        now = time.time()
        reports = [report(number, at=now, rows=900, id=f"query-{on_call.WEATHER}") for number in range(300, 310)]
        space.store.batches.upsert_many(on_call.WEATHER, reports)
        found = read_numbers(space.store, before, now)
        changed = [new.stream for old, new in zip(before, found, strict=True) if new != old]
        assert changed == [on_call.WEATHER]
        assert found == read_board(space, files, slow, now).rows
        assert all(one is other for one, other in zip(found, read_numbers(space.store, found, now), strict=True))


def test_the_version_of_an_embedded_store_changes_with_whatever_another_process_writes(space: Workspace) -> None:
    before = space.store.version()
    assert before is not None
    assert before == space.store.version()
    with Store(space.store_url) as other:
        other.stops.set_desired(
            DesiredState(stream="a", desired=Desired.STOPPED, changed_by="b", reason="c", changed_at=0.0)
        )
    assert space.store.version() != before
