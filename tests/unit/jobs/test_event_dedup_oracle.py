"""The oracle of event_dedup: by hand on small runs."""

import json

from streamwarden.verification.batches import moment
from support.oracles.oracle_runs import WRITTEN, expectation, iso, marks_of

MINUTE = 60_000
DAY = 1_700_006_400_000


def line(who: object, at: int = 0, **changes: object) -> str:
    return json.dumps({"event_time": iso(DAY + at), "event_id": who, "user_id": 1, "action": "view"} | changes)


def marks(*batches: list[int]) -> list[int]:
    return marks_of([[DAY + at for at in batch] for batch in batches], 10 * MINUTE)


def test_event_is_emitted_once_however_often_it_repeats() -> None:
    batches = [[line("a"), line("a"), line("b", 1)], [line("a"), line("c", 2, user_id=2, action="buy")]]
    found = expectation("event_dedup", batches, marks([0, 0, 1], [0, 2]))
    assert found.problems == ()
    assert found.rows == {
        ("a", moment(DAY)): (1, "view"),
        ("b", moment(DAY + 1)): (1, "view"),
        ("c", moment(DAY + 2)): (2, "buy"),
    }
    assert found.notes["repeats"] == 2


def test_an_id_with_another_time_is_another_event() -> None:
    found = expectation("event_dedup", [[line("a"), line("a", 1)]], marks([0, 1]))
    assert set(found.rows) == {("a", moment(DAY)), ("a", moment(DAY + 1))}


def test_a_repeat_that_comes_when_the_event_is_forgotten_is_late_and_not_new() -> None:
    """The watermark reaches the event's own time: it is forgotten, and from the next batch on it is late."""
    batches = [[line("a")], [line("b", 10 * MINUTE)], [line("a")], [line("a")]]
    found = expectation("event_dedup", batches, marks([0], [10 * MINUTE], [0], [0]))
    assert found.problems == ()
    assert set(found.rows) == {("a", moment(DAY)), ("b", moment(DAY + 10 * MINUTE))}
    assert (found.notes["repeats"], found.notes["late_rows"], found.counts.dropped) == (1, 1, 1)


def test_what_is_no_event_or_of_the_future_is_malformed() -> None:
    future = line("f", event_time=iso((WRITTEN + 3600) * 1000 + 1))
    bad = ["not json", line(None), line("a", user_id="1"), line("a", action=None), line("a", event_time=None), future]
    found = expectation("event_dedup", [bad], [0, 0])
    assert (found.counts.records, found.counts.malformed, found.rows) == (6, 6, {})
    assert found.problems == ()


def test_differing_repeats_in_one_batch_are_reported_as_undetermined() -> None:
    found = expectation("event_dedup", [[line("a"), line("a", action="buy")]], marks([0, 0]))
    assert found.problems == (
        "repeats of one event that differ, in one batch: it is undefined which of them is kept: a (batch 0)",
    )
