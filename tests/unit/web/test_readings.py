"""How much of the rows is read again, and how soon."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import pytest

from streamwarden.airflow.web.readings import (
    FEW,
    LOOK_AGAIN,
    NUMBERS_SHARE,
    WHOLE_SHARE,
    Paced,
    Reader,
    Readings,
    Seen,
    Snapshot,
)
from streamwarden.health.evaluations import LastRound
from streamwarden.services.overview.rows import StreamRow
from support.streams.stream_rows import stream_row

LAST = LastRound(at=None, late=False, text="")
COMPUTED = {"whole": 0.7, "numbers": 0.1, "some": 0.01}
"""Seconds of processor time, as of 1,000 streams."""


class Fleet:
    """Streams whose rows count how often each was read, with a clock of its own."""

    def __init__(self, streams: int = 3) -> None:
        self.now, self.used = 1000.0, 0.0
        self.loads_code = 0.0
        """Seconds that the first reading takes longer."""
        self.names = [f"s{number}" for number in range(streams)]
        self.version: object = 0
        self.common: object = "files"
        self.last = LAST
        self.marks: dict[str, object] = dict.fromkeys(self.names, 0)
        self.pids = {name: number + 1 for number, name in enumerate(self.names)}
        self.batch = 0
        self.reads: list[object] = []
        self.dies: Callable[[], object] = lambda: None
        """What happens while everything is read, after the driver was seen alive."""
        self.readings = Readings(
            Reader(self.whole, self.some, self.numbers, self.look, self.processes), lambda: self.now, lambda: self.used
        )

    def commits(self, seconds: float = 2.0) -> Snapshot:
        """Each stream commits a batch, and a page asks `seconds` later."""
        self.batch += 1
        self.version = self.batch
        return self.asks(seconds)

    def asks(self, seconds: float = 2.0) -> Snapshot:
        self.now += seconds
        return self.readings()

    def whole(self) -> Snapshot:
        self._reads("whole", "whole")
        snapshot = Snapshot(self.now, self._rows(self.names), LAST)
        self.dies()
        return snapshot

    def some(self, streams: Collection[str]) -> tuple[StreamRow, ...]:
        self._reads("some", sorted(streams))
        return self._rows([name for name in self.names if name in streams])

    def numbers(self, rows: tuple[StreamRow, ...]) -> tuple[StreamRow, ...]:
        self._reads("numbers", "numbers")
        return tuple(row if row.batch_id == self.batch else replace(row, batch_id=self.batch) for row in rows)

    def look(self) -> Seen:
        return Seen(self.version, self.common, dict(self.marks), self.last)

    def processes(self) -> frozenset[str]:
        return frozenset(str(pid) for pid in self.pids.values())

    def _rows(self, names: Iterable[str]) -> tuple[StreamRow, ...]:
        return tuple(
            stream_row(
                name,
                state="running" if name in self.pids else "down",
                pid=self.pids.get(name),
                batch_id=self.batch,
            )
            for name in names
        )

    def _reads(self, kind: str, said: object) -> None:
        self.used += COMPUTED[kind] + (0.0 if self.reads else self.loads_code)
        self.reads.append(said)


def test_streams_that_commit_all_the_time_cost_no_more_than_their_shares() -> None:
    """A page asks every two seconds for ten minutes. Were everything read each time, it would be a third of a core."""
    fleet = Fleet()
    fleet.readings()
    fleet.commits()
    before, began = fleet.used, fleet.now
    for _ in range(300):
        fleet.commits()
    assert (fleet.used - before) / (fleet.now - began) <= WHOLE_SHARE + NUMBERS_SHARE
    assert fleet.reads.count("numbers") >= 30
    assert fleet.reads.count("whole") >= 5


def test_numbers_are_as_new_as_their_share_allows() -> None:
    fleet = Fleet()
    fleet.readings()
    ages = []
    for _ in range(60):
        shown = fleet.commits().rows[0].batch_id
        assert shown is not None
        ages.append(2.0 * (fleet.batch - shown))
    assert max(ages) <= COMPUTED["numbers"] / NUMBERS_SHARE + 2.0


def test_a_first_reading_that_takes_long_delays_no_other() -> None:
    """It loads code, and the streams were not judged yet: the next ones show their verdicts and their numbers."""
    fleet = Fleet()
    fleet.loads_code = 60.0
    fleet.readings()
    assert fleet.commits(LOOK_AGAIN + 1).rows[0].batch_id == fleet.batch
    assert fleet.commits().rows[0].batch_id == fleet.batch
    assert fleet.reads == ["whole", "whole", "numbers"]


def test_a_death_is_shown_by_the_next_request_and_takes_only_the_row_of_its_stream() -> None:
    fleet = Fleet()
    fleet.readings()
    fleet.commits()
    fleet.reads.clear()
    del fleet.pids["s1"]
    shown = fleet.commits()
    assert [row.state for row in shown.rows] == ["running", "down", "running"]
    assert [row.stream for row in shown.rows] == fleet.names, "in the same order"
    assert fleet.reads == [["s1"]]
    fleet.commits()
    assert ["s1"] not in fleet.reads[1:], "it is told once"


def test_a_driver_that_dies_while_everything_is_read_is_down_at_the_next_request() -> None:
    """It was seen alive, and is gone when the reading ends."""
    fleet = Fleet()
    fleet.dies = lambda: fleet.pids.pop("s1", None)
    assert fleet.readings().rows[1].state == "running"
    assert fleet.commits().rows[1].state == "down"


def test_a_status_in_the_store_is_read_at_once_and_that_of_many_streams_with_everything() -> None:
    fleet = Fleet(FEW + 1)
    fleet.readings()
    fleet.commits()
    fleet.reads.clear()
    fleet.marks["s2"] = 1
    fleet.commits()
    assert fleet.reads == [["s2"]]
    fleet.marks = dict.fromkeys(fleet.names, 2)
    fleet.commits()
    assert fleet.reads == [["s2"], "whole"]


def test_a_stream_that_is_gone_has_no_row_and_a_new_one_has_one() -> None:
    fleet = Fleet()
    fleet.readings()
    fleet.names = ["s0", "s2", "s9"]
    del fleet.marks["s1"]
    fleet.marks["s9"], fleet.pids["s9"] = 0, 9
    assert [row.stream for row in fleet.commits().rows] == ["s0", "s2", "s9"]


def test_what_concerns_many_streams_is_read_at_once() -> None:
    fleet = Fleet()
    fleet.readings()
    fleet.common = "other files"
    fleet.asks()
    assert fleet.reads == ["whole", "whole"]


def test_nothing_is_read_while_nothing_changes_but_once_a_minute() -> None:
    """Snapshots that say the same have the same name, so that an open page gets no rows."""
    fleet = Fleet()
    first = fleet.readings()
    names = {fleet.asks().reading for _ in range(int(LOOK_AGAIN / 2))}
    assert (fleet.reads, names) == (["whole"], {first.reading})
    fleet.asks(COMPUTED["whole"] / WHOLE_SHARE)
    assert fleet.reads == ["whole", "whole"]
    assert fleet.asks().reading == first.reading, "it was read, and says the same"


def test_numbers_that_have_not_changed_are_no_news() -> None:
    """Somebody wrote into the store, and no batch."""
    fleet = Fleet()
    fleet.readings()
    first = fleet.commits()
    fleet.version = "written"
    assert fleet.asks(60).reading == first.reading
    assert fleet.reads == ["whole", "whole", "numbers"]
    assert fleet.commits(60).reading != first.reading


def test_an_evaluation_is_told_without_reading_the_rows() -> None:
    fleet = Fleet()
    first = fleet.readings()
    fleet.last = replace(LAST, at=1.0)
    shown = fleet.asks()
    assert (shown.last.at, fleet.reads) == (1.0, ["whole"])
    assert shown.reading != first.reading


def test_a_store_whose_changes_cannot_be_seen_is_read_as_often_as_the_shares_allow() -> None:
    fleet = Fleet()
    fleet.version = None
    fleet.readings()
    fleet.asks()
    fleet.reads.clear()
    for _ in range(60):
        fleet.asks()
    assert fleet.reads.count("numbers") >= 5
    assert fleet.reads.count("whole") == 1


@pytest.mark.parametrize(("computes", "times"), [(0.0, 10), (0.1, 2), (0.02, 4)])
def test_a_paced_reading_takes_its_share(computes: float, times: int) -> None:
    """Ten requests, two seconds apart, of something that may take 0.4 % of a core, but for its first time."""
    now, used, reads = [0.0], [0.0], []

    def read() -> int:
        used[0] += computes
        reads.append(now[0])
        return len(reads)

    paced = Paced(read, 0.004, lambda: now[0], lambda: used[0])
    for _ in range(10):
        assert paced() == len(reads)
        now[0] += 2.0
    assert len(reads) == times
