"""The rules of session windows: by hand where they are surprising, by their laws on any run."""

from itertools import pairwise, product
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.batches import InputBatch
from streamwarden.verification.sessions import SessionOutcome, sessions

GAP, DELAY = 10, 5


class Ping(NamedTuple):
    at: int
    group: str


def steps(batches: list[list[Ping]]) -> list[InputBatch[Ping]]:
    """The batches with the watermarks that Spark would give them, and a last one without data."""
    marks, top = [0], 0
    for batch in batches:
        top = max([top, *(ping.at - DELAY for ping in batch)])
        marks.append(top)
    return [
        InputBatch(number, rows, marks[number - 1] if number else 0, marks[number])
        for number, rows in enumerate([*batches, []])
    ]


def told(*batches: list[int]) -> SessionOutcome[Ping]:
    return sessions(steps([[Ping(at, "a") for at in batch] for batch in batches]), GAP)


def spans(found: SessionOutcome[Ping]) -> list[tuple[int, int, int, int]]:
    return [(batch, each.start, each.end, len(each.rows)) for batch, each in found.emitted]


def test_pings_within_the_gap_are_one_session_and_it_ends_a_gap_after_the_last() -> None:
    assert spans(told([100, 109, 118], [200])) == [(2, 100, 128, 3)]


def test_sessions_that_touch_are_one() -> None:
    assert spans(told([100, 110], [200])) == [(2, 100, 120, 2)]
    assert spans(told([100, 111], [200])) == [(2, 100, 110, 1), (2, 111, 121, 1)]


def test_a_ping_between_two_open_sessions_makes_one_of_them() -> None:
    assert spans(told([100, 115], [107], [200])) == [(3, 100, 125, 3)]


def test_a_ping_is_late_by_its_own_session_whatever_it_could_join() -> None:
    """The watermark of batch 0 is 0, of batch 1 is 110: at 100 a session of its own is over, at 101 it is not."""
    found = told([115], [105], [100, 101], [300])
    assert found.late == [(2, Ping(100, "a"))]
    assert spans(found) == [(4, 101, 125, 3)]


def test_ping_after_its_session_was_emitted_begins_another() -> None:
    """100-110 is told in batch 1, at watermark 111. A ping at 106 comes in time and finds it gone."""
    found = told([100, 116], [], [106], [300])
    assert (1, 100, 110, 1) in spans(found)
    assert (4, 106, 126, 2) in spans(found)


pings = st.builds(Ping, at=st.integers(1, 120), group=st.sampled_from("ab"))
runs = st.lists(st.lists(pings, max_size=6), min_size=1, max_size=8)


@given(runs)
def test_each_ping_is_emitted_once_or_open_or_late(run: list[list[Ping]]) -> None:
    found = sessions(steps(run), GAP)
    kept = [ping for _, each in found.emitted for ping in each.rows] + [
        ping for each in found.open for ping in each.rows
    ]
    assert sorted(kept + [ping for _, ping in found.late]) == sorted(ping for batch in run for ping in batch)


@given(runs, st.randoms(use_true_random=False))
def test_the_order_within_a_batch_changes_nothing(run: list[list[Ping]], rng: Any) -> None:
    def outcome(of: list[list[Ping]]) -> list[Any]:
        found = sessions(steps(of), GAP)
        return sorted((batch, each.group, each.start, each.end, sorted(each.rows)) for batch, each in found.emitted)

    assert outcome(run) == outcome([rng.sample(batch, len(batch)) for batch in run])


@given(runs)
def test_group_and_start_identify_every_session(run: list[list[Ping]]) -> None:
    found = sessions(steps(run), GAP)
    keys = [(each.group, each.start) for _, each in found.emitted]
    assert len(keys) == len(set(keys))


@given(st.lists(pings, max_size=30))
def test_sessions_of_one_batch_equal_a_split_at_long_pauses(batch: list[Ping]) -> None:
    wanted = []
    for group in "ab":
        times = sorted(ping.at for ping in batch if ping.group == group)
        cuts = [0, *(n + 1 for n, (a, b) in enumerate(pairwise(times)) if b - a > GAP), len(times)]
        wanted += [(group, times[a], times[b - 1] + GAP) for a, b in pairwise(cuts) if a < b]
    found = sessions(steps([batch, [Ping(1000, "c")]]), GAP)
    assert sorted((each.group, each.start, each.end) for _, each in found.emitted) == sorted(wanted)


@given(runs)
def test_open_sessions_of_a_group_lie_apart(run: list[list[Ping]]) -> None:
    found = sessions(steps(run), GAP)
    for one, other in product(found.open, repeat=2):
        assert one is other or one.group != other.group or one.end < other.start or other.end < one.start
