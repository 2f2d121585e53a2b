"""Windows, watermarks and lateness, each rule against the definition it came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.verification.comparing.starts import Restarts
from streamwarden.verification.windows import Row, Sliding, aggregate, least_watermarks

HOUR = Sliding(60, 15)
NO_STARTS = Restarts(first=frozenset(), skipped=frozenset())


def watermarks(highest: dict[int, int | None], delay: int) -> dict[int, int]:
    """The watermark of each batch of a query with one source that was never restarted."""
    marks = least_watermarks([highest], [delay], highest, NO_STARTS)
    return {batch: marks[batch] for batch in highest}


def test_a_row_is_in_as_many_windows_as_slides_fit_into_the_length() -> None:
    assert list(HOUR.starts(100)) == [45, 60, 75, 90]


def test_a_window_holds_its_start_and_not_its_end() -> None:
    assert list(HOUR.starts(60)) == [15, 30, 45, 60]


def test_tumbling_windows_do_not_overlap() -> None:
    assert list(Sliding(60, 60).starts(119)) == [60]


@pytest.mark.parametrize(("length", "slide"), [(60, 0), (60, 61), (0, 0)])
def test_windows_that_would_miss_rows_are_refused(length: int, slide: int) -> None:
    with pytest.raises(ValueError, match="slide"):
        Sliding(length, slide)


@given(st.integers(-(10**6), 10**6), st.integers(1, 500), st.data())
def test_the_windows_of_a_row_are_all_those_that_hold_it(at: int, length: int, data: st.DataObject) -> None:
    slide = data.draw(st.integers(1, length))
    nearby = range((at - length) // slide * slide - slide, at + 2 * slide, slide)
    assert list(Sliding(length, slide).starts(at)) == [start for start in nearby if start <= at < start + length]


def test_the_watermark_of_a_batch_knows_only_the_batches_before_it() -> None:
    assert watermarks({0: 100, 1: 200, 2: None, 3: 150}, delay=30) == {0: 0, 1: 70, 2: 170, 3: 170}


def test_the_watermark_never_goes_back_nor_below_the_epoch() -> None:
    assert watermarks({0: 10, 1: 500, 2: 400, 3: None}, delay=60) == {0: 0, 1: 0, 2: 440, 3: 440}


@given(st.lists(st.one_of(st.none(), st.integers(0, 1000)), min_size=1), st.integers(0, 300))
def test_watermarks_only_grow(tops: list[int | None], delay: int) -> None:
    marks = list(watermarks(dict(enumerate(tops)), delay).values())
    assert marks == sorted(marks)


Tops = list[int | None]
tops_of_batches = st.lists(st.one_of(st.none(), st.integers(0, 50)), min_size=6, max_size=6)


def begun(*first: int, skipped: tuple[int, ...] = ()) -> Restarts:
    return Restarts(first=frozenset(first), skipped=frozenset(skipped))


@given(tops_of_batches, st.integers(0, 20), st.sets(st.integers(0, 5)))
def test_of_one_source_a_start_forgets_nothing(tops: Tops, delay: int, first: set[int]) -> None:
    """Its own watermark is the least of all, which the offset log keeps."""
    highest = dict(enumerate(tops))
    marks = least_watermarks([highest], [delay], highest, begun(*first))
    assert marks == watermarks({**highest, len(tops): None}, delay)


def logged_by_spark(one: Tops, other: Tops, starts: set[int]) -> dict[int, int]:
    """A tracker as Spark has it: each source's own watermark is forgotten by a start, the least of them is not."""
    logged, current = {}, 0
    newest: list[int | None] = [None, None]
    for batch, tops in enumerate(zip([*one, None], [*other, None], strict=True)):
        current = logged[batch] = max(current, min(0 if top is None else top - 5 for top in newest))
        if batch in starts:
            newest = [None, None]
        newest = [max(known or 0, top) if top is not None else known for known, top in zip(newest, tops, strict=True)]
    return logged


@given(tops_of_batches, tops_of_batches, st.sets(st.integers(0, 5)))
def test_of_two_sources_each_known_start_is_explained(one: Tops, other: Tops, starts: set[int]) -> None:
    highest = [dict(enumerate(one)), dict(enumerate(other))]
    assert least_watermarks(highest, [5, 5], range(6), begun(*starts)) == logged_by_spark(one, other, starts)


def test_a_batch_that_the_sink_has_and_that_runs_again_moves_no_watermark() -> None:
    """Killed between the manifest and the commit of batch 1: its events never come to the watermark's ears."""
    tops: dict[int, int | None] = {0: 0, 1: 20, 2: 21, 3: 40, 4: 41}
    assert least_watermarks([tops], [10], tops, begun(1, skipped=(1,))) == {0: 0, 1: 0, 2: 0, 3: 11, 4: 30, 5: 31}
    assert least_watermarks([tops], [10], tops, begun(1)) == {0: 0, 1: 0, 2: 10, 3: 11, 4: 30, 5: 31}


@given(tops_of_batches, tops_of_batches, st.sets(st.integers(0, 5)))
def test_no_start_makes_the_watermark_stand_for_ever(one: Tops, other: Tops, starts: set[int]) -> None:
    """After it, and one event of each source, all is as if there had been none."""
    highest = [dict(enumerate(one)), dict(enumerate(other))]
    marks = least_watermarks(highest, [5, 5], range(6), begun(*starts))
    since = max(starts, default=0)
    ends = [max((top for top in tops[since:] if top is not None), default=None) for tops in (one, other)]
    if None not in ends:
        assert marks[6] >= min(end - 5 for end in ends if end is not None)


def row(at: int, group: str = "a") -> Row:
    return Row(at, (group,), (1, at))


def test_a_row_is_late_for_the_windows_that_the_batch_before_closed_and_no_others() -> None:
    """Batch 1 closed what ended at 90 or before; a row at 80 of batch 2 misses those windows only."""
    totals = aggregate([(2, [row(80)])], {0: 0, 1: 90, 2: 120, 3: 1000}, HOUR, committed=3)
    assert sorted(totals.emitted) == [(45, "a"), (60, "a"), (75, "a")]
    assert (totals.pairs, totals.dropped, totals.late_rows) == (4, 1, 1)


def test_a_window_that_the_batch_itself_closes_still_takes_the_rows_of_that_batch() -> None:
    """The wrong rule (the batch's own watermark) would drop two windows here."""
    totals = aggregate([(2, [row(80)])], {1: 0, 2: 120}, HOUR, committed=2)
    assert sorted(totals.emitted) == [(30, "a"), (45, "a"), (60, "a")]
    assert totals.open_pairs == 1
    assert totals.dropped == 0


def test_a_window_is_open_until_the_watermark_reaches_its_end() -> None:
    tumbling = Sliding(60, 60)
    assert aggregate([(0, [row(10)])], {0: 0, 1: 59}, tumbling, committed=1).open_pairs == 1
    assert aggregate([(0, [row(10)])], {0: 0, 1: 60}, tumbling, committed=1).emitted == {(0, "a"): [1, 10]}


def test_a_batch_that_is_planned_and_not_committed_has_emitted_nothing() -> None:
    totals = aggregate([(0, [row(10)])], {0: 0, 1: 1000}, Sliding(60, 60), committed=0)
    assert totals.emitted == {}


def test_what_was_emitted_before_the_first_judged_batch_is_not_expected_again() -> None:
    marks = {0: 0, 1: 60, 2: 120}
    totals = aggregate([(0, [row(10), row(70)])], marks, Sliding(60, 60), committed=2, first=2)
    assert totals.emitted == {(60, "a"): [1, 70]}
    assert totals.emitted_before == 1


def test_rows_of_a_file_that_no_batch_read_are_owed_in_full() -> None:
    totals = aggregate([(None, [row(10)])], {0: 0, 1: 1000}, Sliding(60, 60), committed=1)
    assert totals.emitted == {(0, "a"): [1, 10]}


batches = st.lists(st.lists(st.tuples(st.integers(0, 400), st.sampled_from("ab")), max_size=8), min_size=1, max_size=6)


@given(batches, st.integers(0, 120), st.integers(0, 5))
def test_every_pair_is_emitted_open_or_dropped(given_: list[list[tuple[int, str]]], delay: int, first: int) -> None:
    rows = {batch: [row(at, group) for at, group in each] for batch, each in enumerate(given_)}
    marks = watermarks({batch: max((r.at for r in each), default=None) for batch, each in rows.items()}, delay)
    totals = aggregate(rows.items(), marks, HOUR, committed=max(rows), first=first)
    assert totals.pairs == 4 * sum(len(each) for each in rows.values())
    assert totals.pairs == totals.emitted_pairs + totals.emitted_before + totals.open_pairs + totals.dropped
    assert totals.emitted_pairs == sum(sums[0] for sums in totals.emitted.values())


@given(batches, st.integers(0, 120))
def test_a_state_machine_that_emits_batch_by_batch_says_the_same(
    given_: list[list[tuple[int, str]]], delay: int
) -> None:
    """The oracle decides lateness at once for all batches; this does it as an engine does, one batch after another."""
    rows = {batch: [row(at, group) for at, group in each] for batch, each in enumerate(given_)}
    marks = watermarks({batch: max((r.at for r in each), default=None) for batch, each in rows.items()}, delay)
    state: dict[tuple[int, str], list[int]] = {}
    emitted: dict[tuple[int, str], list[int]] = {}
    for batch, each in rows.items():
        for at, group in [(r.at, str(r.group[0])) for r in each]:
            for start in range(-60, 500, 15):
                if start <= at < start + 60 and start + 60 > marks.get(batch - 1, 0):
                    sums = state.setdefault((start, group), [0, 0])
                    sums[0] += 1
                    sums[1] += at
        for key in [key for key in state if key[0] + 60 <= marks[batch]]:
            assert key not in emitted
            emitted[key] = state.pop(key)
    assert aggregate(rows.items(), marks, HOUR, committed=max(rows)).emitted == emitted
