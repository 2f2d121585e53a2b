"""Records of a sink that is at-least-once: which of them are repeats, and which only look like it."""

from __future__ import annotations

import hashlib
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streamwarden.sinks.kafka.delivery import delivered
from streamwarden.sinks.output import Output
from streamwarden.verification.comparing.events import BATCH, EVENT_ID, CommittedRecords, Event, LiveRecords, event_id

QUERY = "5ca1ab1e-0000-4000-8000-000000000001"


def event(key: str, value: str, batch: int, *, query: str = QUERY, update: bool = False) -> Event:
    """As the sink writes it, through its headers."""
    written = f"{query}/{batch}"
    identity = event_id(key.encode(), value.encode(), written if update else None)
    return Event.of(key.encode(), value.encode(), {EVENT_ID: identity.encode(), BATCH: written.encode()})


def of(*events: Event, committed: int | None = 9, deduplicated: bool = True, **more: Any) -> Output:
    return delivered(events, CommittedRecords(QUERY, committed, **more), {}, deduplicated=deduplicated)


def live(*events: Event, deduplicated: bool = True) -> Output:
    return delivered(events, LiveRecords(), {}, deduplicated=deduplicated)


def values(found: Output) -> list[object]:
    """The values, which are no JSON objects here."""
    return [value for (value,) in found.rows]


def test_an_id_is_that_of_key_and_value_and_anybody_can_compute_it() -> None:
    assert event_id(b'{"k":1}', b'{"k":1,"n":2}') == hashlib.sha256(b'{"k":1}\n{"k":1,"n":2}').hexdigest()
    assert event_id(b"k", b"v", f"{QUERY}/3") == hashlib.sha256(f"k\nv\n{QUERY}/3".encode()).hexdigest()
    assert len({event_id(b"ab", b"c"), event_id(b"a", b"bc"), event_id(b"ab", b"c", "q/1")}) == 3


def test_a_batch_that_was_written_again_is_there_once_and_the_repeats_are_counted() -> None:
    """Batch 1 was cut after two of its three records."""
    one, two, three = (event(f"k{n}", f"v{n}", 1) for n in (1, 2, 3))
    found = of(event("k0", "v0", 0), one, two, one, two, three)
    assert values(found) == ["v0", "v1", "v2", "v3"]
    assert (found.repeated, found.notes["repeated_records"], found.problems) == (2, {"1": 2}, ())


def test_a_reader_that_knows_nothing_of_ids_has_them_twice() -> None:
    one, two = event("k1", "v1", 1), event("k2", "v2", 1)
    found = of(one, two, one, two, deduplicated=False)
    assert values(found) == ["v1", "v2", "v1", "v2"]
    assert found.repeated == 2


def test_the_same_row_from_another_batch_is_no_repeat_but_a_row_that_came_twice() -> None:
    found = of(event("k", "v", 1), event("k", "v", 2))
    assert values(found) == ["v", "v"]
    assert found.repeated == 0


def test_a_row_that_was_another_one_when_the_batch_ran_again_stays_beside_the_first() -> None:
    assert values(of(event("k", "v", 1), event("k", "other", 1))) == ["v", "other"]


def test_what_other_queries_and_writers_wrote_is_not_the_streams() -> None:
    mine = event("k", "v", 0)
    found = of(
        event("k", "v", 0, query="another"), Event.of(b"k", b"v", {}), Event.of(None, None, {BATCH: b"/x"}), mine
    )
    assert values(found) == ["v"]
    assert found.notes["records_of_others"] == 3


@pytest.mark.parametrize(("committed", "left"), [(1, ["v0", "v1"]), (0, ["v0"]), (None, [])])
def test_a_batch_that_is_not_committed_will_come_again(committed: int | None, left: list[str]) -> None:
    found = of(event("k0", "v0", 0), event("k1", "v1", 1), committed=committed)
    assert values(found) == left
    assert found.notes["uncommitted_records"] == 2 - len(left)


def test_batches_before_the_first_are_left_out() -> None:
    assert values(of(event("k0", "v0", 0), event("k1", "v1", 1), first=1)) == ["v1"]


def test_an_id_that_is_not_the_contents_is_a_problem() -> None:
    wrong = Event.of(b"k", b"v", {EVENT_ID: b"0" * 64, BATCH: f"{QUERY}/0".encode()})
    (problem,) = of(wrong, event("k1", "v1", 0)).problems
    assert problem.startswith("1 records have an event id")


def test_in_mode_update_the_newest_row_of_a_key_is_left_and_an_earlier_one_may_come_back() -> None:
    """1, 2, 1: the third is no repeat of the first, and its id says so."""
    rows = [event("k", value, batch, update=True) for batch, value in enumerate(("1", "2", "1"))]
    assert len({each.id for each in rows}) == 3
    found = of(rows[0], rows[1], rows[1], rows[2], event("j", "7", 1, update=True), update=True)
    assert values(found) == ["1", "7"]
    assert (found.repeated, found.problems) == (1, ())


def test_in_mode_update_two_rows_of_one_key_in_one_batch_are_a_problem() -> None:
    found = of(event("k", "1", 1, update=True), event("k", "2", 1, update=True), update=True)
    (problem,) = found.problems
    assert problem.startswith("1 rows differed when their batch ran again")


def test_repeats_are_found_across_chunks_and_keep_their_values_columns_and_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the second chunk nothing is left; the third has a column more, and one that no Arrow type keeps."""
    monkeypatch.setattr("streamwarden.sinks.kafka.delivery._TOGETHER", 2)
    one, two = event("k1", '{"n": 1}', 0), event("k2", '{"n": 2}', 0)
    mixed = event("k3", '{"n": {"deep": [1]}, "m": 0.10}', 1)
    found = of(one, two, two, one, one, mixed)
    assert found.columns == ("n", "m")
    assert found.rows == [(1, None), (2, None), ({"deep": [1]}, Decimal("0.10"))]
    assert [part.batches.to_pylist() for part in found.parts if part.batches is not None] == [[0, 0], [1]]
    assert (found.count, found.repeated) == (3, 3)


def test_no_record_is_no_row() -> None:
    assert (of().rows, of(update=True).rows, live().rows) == ([], [], [])


def told_live(key: str, value: str) -> Event:
    return Event.of(key.encode(), value.encode(), {EVENT_ID: event_id(key.encode(), value.encode()).encode()})


def test_in_real_time_mode_records_repeated_after_a_kill_count_once() -> None:
    """Counts of two keys; the driver was killed after the fourth record, and the next began at the first."""
    first = [told_live("a", "1"), told_live("b", "1"), told_live("a", "2"), told_live("a", "3")]
    found = live(*first, *first, told_live("b", "2"))
    assert sorted(values(found)) == ["2", "3"]
    assert (found.repeated, found.notes["records_of_others"], found.problems) == (4, 0, ())
    naive = live(*first, *first, deduplicated=False)
    assert values(naive) == ["1", "1", "2", "3"] * 2


def test_in_real_time_mode_the_newest_row_of_a_key_counts_although_it_was_there_before() -> None:
    assert values(live(told_live("a", "1"), told_live("a", "2"), told_live("a", "1"))) == ["1"]


def test_in_real_time_mode_foreign_records_are_skipped_and_a_wrong_id_is_reported() -> None:
    other, stranger = event("k", "v", 1), Event.of(b"k", b"v", {})
    forged = Event.of(b"k", b"w", {EVENT_ID: event_id(b"k", b"v").encode()})
    found = live(other, stranger, forged)
    assert (values(found), found.notes["records_of_others"]) == (["w"], 2)
    assert found.problems == ("1 records have an event id that is not that of their key and value",)


def test_the_reader_in_the_guide_has_each_row_once() -> None:
    guide = Path(__file__).parents[4] / "docs/how-to/kafka.md"
    (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)

    class Record:
        def __init__(self, partition: int, batch: int, value: str) -> None:
            self._partition, self._event = partition, event("k", value, batch)

        def partition(self) -> int:
            return self._partition

        def headers(self) -> list[tuple[str, bytes]]:
            return [(BATCH, self._event.written_by.encode()), (EVENT_ID, str(self._event.id).encode())]

    cut = [Record(0, 1, "a"), Record(1, 1, "x"), Record(0, 1, "b")]
    again = [Record(1, 1, "x"), Record(0, 1, "a"), Record(0, 1, "b"), Record(0, 1, "c")]
    kept = [names["is_new"](record) for record in (Record(0, 0, "a"), *cut, *again, Record(0, 2, "d"))]
    assert kept == [True, True, True, True, False, False, False, True, True]
    late = [names["is_new"](record) for record in (Record(0, 1, "c"), Record(0, 1, "b"), Record(0, 2, "d"))]
    assert late == [False] * 3, "batch 1 once more, of a driver that was replaced, after its successor began batch 2"
    assert [names["is_new"](record) for record in (Record(0, 2, "e"), Record(0, 3, "f"))] == [True, True]
