"""What the starts of drivers explain, and what they contradict."""

from dataclasses import replace

import pytest

from streamwarden.errors import VerificationError
from streamwarden.verification.comparing.starts import (
    SLACK,
    Restarts,
    Start,
    invented_times,
    planner,
    require_known,
    restarts,
    stale_entries,
)


def start(planned: int | None, committed: int | None, sink: int | None = None, at: float = 0.0) -> Start:
    return Start(at=at, planned=planned, committed=committed, sink=sink)


@pytest.mark.parametrize(
    ("found", "first", "skips"),
    [
        (start(None, None), 0, False),
        (start(0, None), 0, False),
        (start(0, None, 0), 0, True),
        (start(4, 4, 4), 5, False),
        (start(5, 4, 4), 5, False),
        (start(5, 4, 5), 5, True),
        (start(5, 2, 5), 5, True),  # Spark runs the newest planned batch again, and no other
        (start(4, 4, 9), 5, False),  # skipped too, and no batch of this checkpoint: a problem, no explanation
    ],
)
def test_the_batch_that_a_driver_begins_with(found: Start, first: int, skips: bool) -> None:
    assert (found.first, found.is_skip) == (first, skips)


def test_a_start_before_a_rewind_explains_nothing_after_it() -> None:
    lives = [start(None, None, at=0), start(7, 6, 7, at=1), start(3, 3, 3, at=2), start(5, 4, 4, at=3)]
    assert restarts(lives) == Restarts(first=frozenset({0, 4, 5}), skipped=frozenset())
    assert restarts(reversed(lives)) == restarts(lives)


def test_of_two_starts_at_one_batch_the_later_one_says_whether_it_was_skipped() -> None:
    """Killed in batch 5 before the manifest had it, and killed in it again behind the manifest."""
    lives = [start(5, 4, 4, at=1), start(5, 4, 5, at=2)]
    assert restarts(lives) == Restarts(first=frozenset({5}), skipped=frozenset({5}))


def test_entries_of_an_older_run_are_named_when_a_driver_starts_and_when_they_are_left_at_the_end() -> None:
    assert stale_entries([start(None, None), start(5, 4, 5)], newest=7, planned=7) == []
    [one] = stale_entries([start(1, 1, 2)], newest=9, planned=9)
    assert one.startswith("when the driver of 1970-01-01 00:00:00Z started, the sink's manifest had batch 2, ")
    assert "Spark skips such batches without reading their input" in one
    [some] = stale_entries([], newest=9, planned=6)
    assert some.startswith("now, the sink's manifest had the batches 7 to 9, ")


def test_entries_of_an_older_run_that_a_later_start_no_longer_saw_are_no_problem() -> None:
    stale = start(None, None, 20, at=1)
    assert stale_entries([stale, start(None, None, at=100)], newest=5, planned=5) == [], "the output was cleared too"
    origin = start(10, 10, 20, at=1)
    assert stale_entries([start(5, 5, 5, at=2), origin], newest=9, planned=9) == [], "the fork is of batch 5"


def test_entries_of_an_older_run_that_a_later_start_saw_again_stay_a_problem() -> None:
    stale = start(None, None, 20, at=1)
    found = stale_entries([stale, start(3, 3, 20, at=100)], newest=20, planned=7)
    assert ["the batches 0 to 3" in found[0], "the batches 4 to 7" in found[1], "the batches 8 to 20" in found[2]] == [
        True
    ] * len(found)
    [cut] = stale_entries([start(4, 4, 5, at=1), start(5, 4, 5, at=2)], newest=6, planned=6)
    assert "had batch 5, " in cut, "its driver was killed in the batch that the older run wrote"


def test_a_batch_is_planned_by_the_last_driver_that_found_it_unplanned() -> None:
    lives = [start(None, None, at=0), start(5, 4, at=1), start(5, 4, at=2), start(8, 8, at=3)]
    assert [found and found.at for batch in (0, 5, 6, 8, 9) for found in [planner(lives, batch)]] == [0, 0, 2, 2, 3]
    assert planner(lives[1:], 3) is None


def test_a_batch_cannot_be_planned_before_its_driver_started_or_after_it_ended() -> None:
    lives = [replace(start(None, None, at=1000), ended=2000.0), start(1, 1, at=3000)]
    inside, cut = {0: 1_000_500, 1: 2_000_000, 2: 3_000_000}, SLACK + 1
    assert invented_times(lives, inside) == []
    assert [case.split(" says")[0] for case in invented_times(lives, {**inside, 0: int(1000 * (1000 - cut))})] == [
        "batch 0"
    ]
    assert [case.split(" says")[0] for case in invented_times(lives, {**inside, 1: int(1000 * (2000 + cut))})] == [
        "batch 1"
    ]
    assert invented_times(lives, {**inside, 2: 9_000_000_000}) == [], "it has not ended yet"
    assert invented_times([], {0: 0}) == []


def test_a_batch_may_claim_a_time_at_which_a_drill_had_put_the_clock() -> None:
    life = replace(start(None, None, at=1000), ended=2000.0)
    claimed = {0: 1_500_000, 1: 5_500_000}
    assert len(invented_times([life], claimed)) == 1
    assert invented_times([replace(life, clock_steps=(4000.0,))], claimed) == []
    assert len(invented_times([replace(life, clock_steps=(-4000.0, 3000.0))], claimed)) == 1


UNKNOWN = Start(at=3000.0, planned=None, committed=None, ended=4000.0, logs_known=False)


def test_a_driver_whose_logs_are_not_known_may_have_planned_any_batch_of_its_life() -> None:
    """It was launched, so a batch of that time is no invention; before its launch and after its end none is its."""
    lives = [replace(start(None, None, at=1000), ended=2000.0), UNKNOWN]
    assert invented_times(lives, {0: 1_000_500, 1: 3_500_000}) == []
    for at in (2_500_000, 4_500_000):
        assert [case.split(" says")[0] for case in invented_times(lives, {0: 1_000_500, 1: at})] == ["batch 1"]


def test_a_start_whose_logs_are_not_known_explains_no_batch_and_plans_none_for_sure() -> None:
    known = start(4, 4, 4, at=1)
    assert restarts([known, UNKNOWN]) == restarts([known])
    assert planner([known, UNKNOWN], 9) == known


def test_a_problem_that_a_start_with_unknown_logs_could_explain_leaves_no_verdict() -> None:
    require_known([UNKNOWN], [])
    require_known([start(None, None)], ["a problem"])
    with pytest.raises(
        VerificationError, match="a problem; and it is unknown what the driver of 1970-01-01 00:50:00Z began with"
    ):
        require_known([UNKNOWN], ["a problem"])


def test_whether_stale_entries_were_removed_before_a_start_with_unknown_logs_is_not_known() -> None:
    stale = start(None, None, 20, at=1)
    with pytest.raises(VerificationError):
        stale_entries([stale, UNKNOWN], newest=5, planned=5)
    assert stale_entries([replace(UNKNOWN, at=0.0), stale], newest=20, planned=20) != [], "it saw them after that"
    assert stale_entries([stale, UNKNOWN, start(None, None, at=5000)], newest=5, planned=5) == []
