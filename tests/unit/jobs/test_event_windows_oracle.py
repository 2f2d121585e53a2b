"""The oracle of event_windows: by hand on a small run, by its laws on any run."""

import json
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.batches import moment
from support.oracles.oracle_runs import WRITTEN, expectation, iso, marks_of

MINUTE = 60_000
DAY = 1_700_006_400_000  # midnight, and so the start of a window


def line(at: int, user: object = 1, action: object = "view") -> str:
    return json.dumps({"event_time": iso(DAY + at), "user_id": user, "action": action})


def marks(*minutes: int) -> list[int]:
    return [0, *(DAY + minute * MINUTE for minute in minutes)]


def test_a_window_holds_its_actions_in_order_of_time_then_text() -> None:
    batches = [[line(2000, 7, "b"), line(1000, 7, "z"), line(2000, 7, "a")], [line(15 * MINUTE)]]
    found = expectation("event_windows", batches, marks(-10, 5))
    assert found.problems == ("watermark that the input does not explain: batch 1: "
        "2023-11-14 23:50:00+00:00 in the offset log, 2023-11-14 23:50:02+00:00 by the input",)  # fmt: skip
    assert found.rows == {(moment(DAY), 7): (moment(DAY + 5 * MINUTE), 3, ["z", "a", "b"])}


def test_an_event_is_late_only_when_its_window_was_closed_by_the_batch_before() -> None:
    late, in_time = line(4 * MINUTE, action="late"), line(5 * MINUTE, action="in time")
    batches = [[line(15 * MINUTE)], [late], [late, late, in_time]]
    found = expectation("event_windows", batches, marks(5, 5, 5))
    assert found.problems == ()
    assert found.rows == {(moment(DAY), 1): (moment(DAY + 5 * MINUTE), 1, ["late"])}
    assert (found.counts.dropped, found.counts.open, found.counts.emitted) == (2, 2, 1)
    assert found.notes["late_rows"] == 2
    assert found.notes["late_pairs"] == 1


def test_an_event_from_the_future_moves_nothing() -> None:
    future = json.dumps({"event_time": iso((WRITTEN + 3600) * 1000 + 1), "user_id": 1, "action": "view"})
    latest = json.dumps({"event_time": iso((WRITTEN + 3600) * 1000), "user_id": 1, "action": "view"})
    found = expectation("event_windows", [[line(0), future]], marks(-10))
    assert found.problems == ()
    assert (found.counts.records, found.counts.malformed) == (2, 1)
    assert expectation("event_windows", [[latest]], marks(-10)).counts.malformed == 0


def test_what_is_no_event_is_malformed() -> None:
    bad = [line(0, None), line(0, "1"), line(0, 1.5), line(0, 1, None), "{}", "not json"]
    found = expectation("event_windows", [bad], [0, 0])
    assert (found.counts.records, found.counts.malformed, found.problems) == (6, 6, ())


events = st.tuples(st.integers(0, 40), st.integers(0, 2), st.sampled_from("abc"))
runs = st.lists(st.lists(events, max_size=6), min_size=1, max_size=6)


def judged(run: list[list[tuple[int, int, str]]]):  # type: ignore[no-untyped-def]
    times = [[DAY + minute * MINUTE for minute, _, _ in batch] for batch in run]
    batches = [[line(minute * MINUTE, user, action) for minute, user, action in batch] for batch in run]
    return expectation("event_windows", batches, marks_of(times, 10 * MINUTE))


@given(runs, st.randoms(use_true_random=False))
def test_the_order_of_events_within_a_batch_changes_nothing(run: list[list[tuple[int, int, str]]], rng) -> None:  # type: ignore[no-untyped-def]
    shuffled = [rng.sample(batch, len(batch)) for batch in run]
    assert judged(run).rows == judged(shuffled).rows


@given(runs)
def test_each_event_is_in_the_output_or_open_or_late(run: list[list[tuple[int, int, str]]]) -> None:
    found = judged(run)
    assert found.problems == ()
    assert sum(values[1] for values in found.rows.values()) == found.counts.emitted
    assert found.counts.pairs == found.counts.emitted + found.counts.open + found.counts.dropped
    for _, events, actions in found.rows.values():
        assert len(actions) == events


@given(runs)
def test_without_lateness_the_batches_do_not_matter(run: list[list[tuple[int, int, str]]]) -> None:
    """Sorted by time, then cut anywhere: each closed window holds what one look at all events finds."""
    flat = sorted(event for batch in run for event in batch)
    cut = len(flat) // 2
    found = judged([flat[:cut], flat[cut:]])
    assert found.counts.dropped == 0
    counts = Counter((minute - minute % 5, user) for minute, user, _ in flat)
    for (start, user), (_, events, _) in found.rows.items():
        assert counts[(start - moment(DAY)).seconds // 60, user] == events
