"""The rules of deduplication: by hand where they are surprising, by their laws on any run."""

from collections import defaultdict
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.batches import InputBatch
from streamwarden.verification.repeats import Firsts, firsts

DELAY = 10


class Report(NamedTuple):
    id: str
    at: int
    text: str = ""


def steps(batches: list[list[Report]]) -> list[InputBatch[Report]]:
    """The batches with the watermarks that Spark would give them, and a last one without data."""
    marks, top = [0], 0
    for batch in batches:
        top = max([top, *(each.at - DELAY for each in batch)])
        marks.append(top)
    return [
        InputBatch(number, rows, marks[number - 1] if number else 0, marks[number])
        for number, rows in enumerate([*batches, []])
    ]


def found(batches: list[list[Report]], delay: int | None = DELAY) -> Firsts[Report]:
    return firsts(steps(batches), identity=lambda each: each.id, at=lambda each: each.at, delay=delay)


A, B = Report("a", 100), Report("b", 100)


def test_the_first_goes_out_in_its_own_batch_and_repeats_never() -> None:
    told = found([[A, A], [A, B], [B]])
    assert told.emitted == [(0, A), (1, B)]
    assert told.repeats == [(0, A), (1, A), (2, B)]


def test_an_identity_is_remembered_until_the_watermark_reaches_its_time_and_the_delay() -> None:
    """119: the watermark is 109, and `a` (100 + 10) is known. 120: it is 110, and from the next batch on forgotten."""
    again = Report("a", 121)
    assert found([[A], [Report("x", 119)], [], [again]]).repeats == [(3, again)]
    assert found([[A], [Report("x", 120)], [], [again]]).emitted[-1] == (3, again)


def test_the_batch_whose_watermark_forgets_an_identity_still_knows_it() -> None:
    again = Report("a", 121)
    assert found([[A], [Report("x", 120)], [again]]).repeats == [(2, again)]


def test_a_repeat_does_not_lengthen_the_memory() -> None:
    told = found([[A], [Report("a", 108)], [Report("x", 120)], [], [Report("a", 122)]])
    assert told.repeats == [(1, Report("a", 108))]
    assert (4, Report("a", 122)) in told.emitted


def test_what_is_late_is_dropped_even_if_it_is_new() -> None:
    """After 120 the watermark is 110 in batch 1; what lies at or before that is late in batch 2."""
    told = found([[Report("x", 120)], [Report("c", 90)], [Report("d", 110), Report("e", 111)]])
    assert told.late == [(2, Report("d", 110))]
    assert [row.id for _, row in told.emitted] == ["x", "c", "e"]


def test_different_reports_in_one_batch_clash_and_in_two_batches_do_not() -> None:
    other = Report("a", 100, "other")
    assert found([[A, other]]).clashes == [(0, other)]
    assert found([[A], [other]]).clashes == []
    assert found([[A, A]]).clashes == []


def test_without_a_watermark_nothing_is_late_and_nothing_forgotten() -> None:
    told = found([[A], [Report("x", 10_000)], [], [A, Report("old", 1)]], delay=None)
    assert told.late == []
    assert told.repeats == [(3, A)]
    assert told.remembered == {"a", "x", "old"}


reports = st.builds(Report, id=st.sampled_from("abcd"), at=st.integers(1, 80))
runs = st.lists(st.lists(reports, max_size=6), min_size=1, max_size=8)


@given(runs, st.sampled_from([DELAY, None]))
def test_each_report_is_a_first_or_a_repeat_or_late(run: list[list[Report]], delay: int | None) -> None:
    told = found(run, delay)
    everything = sorted(row for part in (told.emitted, told.repeats, told.late) for _, row in part)
    assert everything == sorted(row for batch in run for row in batch)


@given(runs)
def test_what_goes_out_twice_lies_more_than_the_delay_apart(run: list[list[Report]]) -> None:
    times = defaultdict(list)
    for _, row in found(run).emitted:
        times[row.id].append(row.at)
    for each in times.values():
        assert all(later - earlier > DELAY for earlier, later in pairwise(each))


@given(runs)
def test_without_a_watermark_each_identity_goes_out_once(run: list[list[Report]]) -> None:
    assert sorted(row.id for _, row in found(run, None).emitted) == sorted({row.id for batch in run for row in batch})


@given(runs, st.randoms(use_true_random=False))
def test_where_nothing_clashes_the_order_within_a_batch_changes_nothing(run: list[list[Report]], rng: Any) -> None:
    equal = [
        [Report(each.id, 1 + 10 * number + ord(each.id) % 4) for each in batch] for number, batch in enumerate(run)
    ]
    told, shuffled = found(equal), found([rng.sample(batch, len(batch)) for batch in equal])
    assert told.clashes == []
    assert sorted(told.emitted) == sorted(shuffled.emitted)


@given(runs)
def test_every_batch_delivered_twice_in_a_row_changes_nothing(run: list[list[Report]]) -> None:
    """What a producer does that is not sure; the second delivery finds each identity remembered, or is late."""
    once = [[row for n, row in enumerate(batch) if row.id not in {each.id for each in batch[:n]}] for batch in run]
    assert [row for _, row in found(once).emitted] == [
        row for _, row in found([[*batch, *batch] for batch in once]).emitted
    ]
