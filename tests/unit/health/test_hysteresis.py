"""A verdict neither jumps at one value nor flaps, and always says exactly what a steady value is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.health.checks import CHECKS
from streamwarden.health.checks.batches import checkpoint_duration
from streamwarden.health.signals.hysteresis import MEMORY, RECENT, settle
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status
from streamwarden.health.window import Window
from support.streams.health_windows import batch_of, judge, report, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
CHECK = checkpoint_duration.CHECK
LIMITS = DEFAULTS.of(CHECK.name)

seconds = st.floats(min_value=0, max_value=100, allow_nan=False)


def grade(value: float) -> Status:
    return CHECK.grade(value, LIMITS)


def checkpoints(*durations: float) -> Window:
    return window(
        report(batch, durations={"walCommit": round(each * 1000), "commitOffsets": 0}, operator={"commitTimeMs": 0})
        for batch, each in enumerate(durations)
    )


@pytest.mark.parametrize(
    ("history", "status"),
    [
        ([60], UNKNOWN),  # a first observation never alarms
        ([60, 60], UNKNOWN),
        ([60, 60, 60], CRITICAL),
        ([1], OK),
        ([1, 60], UNKNOWN),  # two observations, one of them bad: nobody can tell yet
        ([60, 1], UNKNOWN),
        ([60, 1, 1], OK),
        ([1, 60, 60], OK),
        ([1, 1, 60, 60, 60], CRITICAL),
        ([1, 60, 1, 60, 1, 60], CRITICAL),  # three of the five newest
        ([1, 60, 1, 1, 1, 60, 1, 1, 1], OK),  # never three of five
        ([60, 60, 60, 1, 1, 1, 1], CRITICAL),  # four good ones do not end it yet
        ([60, 60, 60, 1, 1, 1, 1, 1], OK),
        ([60, 60, 60, 12, 12, 12, 12, 12], WARNING),
        ([60, 60, 60, 12, 12, 1, 1, 1], WARNING),  # the worst of the five that ended CRITICAL
        ([12, 12, 12, 60, 60, 12, 12], WARNING),
        ([12, 60, 60, 1, 60], CRITICAL),
    ],
)
def test_three_of_five_raise_and_five_of_five_clear(history: list[float], status: Status) -> None:
    """The rule of docs/reference/checks.md, case by case, in seconds of checkpoint duration."""
    assert judge(CHECK, checkpoints(*history)).status is status


def test_a_held_status_says_that_it_is_held() -> None:
    verdict = judge(CHECK, checkpoints(60, 60, 60, 1, 1, 1, 1))
    assert "held at CRITICAL until 5 observations" in verdict.reason
    assert verdict.value == 1


def test_a_value_that_swings_around_a_limit_does_not_flap() -> None:
    """9 s and 11 s in turn: WARNING from the fifth batch on, without a change."""
    swings = [11.0, 9.0] * 20
    seen = [judge(CHECK, checkpoints(*swings[: upto + 1])).status for upto in range(4, 40)]
    assert set(seen) == {WARNING}


@given(value=seconds, length=st.integers(min_value=3, max_value=40))
def test_a_steady_value_is_judged_exactly_as_its_grade(value: float, length: int) -> None:
    """Hysteresis moves no boundary."""
    settled = settle([value] * length, grade)
    assert (settled.status, settled.value, settled.held) == (grade(value), value, False)


@given(st.lists(seconds, min_size=1, max_size=40))
def test_status_lies_between_the_worst_value_and_three_of_five(values: list[float]) -> None:
    settled = settle(values, grade)
    remembered = values[-MEMORY:]
    if settled.status is None:
        assert len(values) < 3
        assert grade(max(values)) is not OK
        return
    assert settled.status.rank <= grade(max(remembered)).rank
    if len(remembered) >= 3:
        assert settled.status.rank >= grade(sorted(remembered[-RECENT:])[-3]).rank


@given(st.lists(seconds, min_size=3, max_size=30), st.lists(seconds, min_size=5, max_size=5))
def test_five_newest_observations_below_a_status_always_end_it(past: list[float], newest: list[float]) -> None:
    assert settle(past + newest, grade).status == settle(newest, grade).status or (
        grade(max(newest)).rank >= settle(past + newest, grade).status.rank  # type: ignore[union-attr]
    )


@given(st.lists(seconds, min_size=1, max_size=30), st.floats(min_value=0.1, max_value=50))
def test_longer_durations_are_never_judged_better(values: list[float], more: float) -> None:
    """Monotone: adding to every value cannot improve the status."""
    one, other = settle(values, grade).status, settle([each + more for each in values], grade).status
    if one is None:
        assert other is not OK
    elif other is not None:
        assert other.rank >= one.rank


def test_a_new_query_is_a_new_baseline() -> None:
    """Twenty bad batches of the old checkpoint say nothing about the new query's first good one."""
    old = [batch_of(report(b, durations={"walCommit": 60_000}), "old") for b in range(20)]
    new = [batch_of(report(0, durations={"walCommit": 10}), "new")]
    verdict = judge(CHECK, window(batches=(*old, *new)))
    assert verdict.status is OK
    assert verdict.evidence["observations"] == 1


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_check_grades_its_own_limits_as_documented(check: object) -> None:
    """warning and critical themselves are WARNING; the next numbers beyond are OK and CRITICAL."""
    import math

    from streamwarden.health.check import Check

    assert isinstance(check, Check)
    limits = DEFAULTS.of(check.name)
    worse = math.inf if check.more_is_worse else -math.inf
    assert check.grade(limits["warning"], limits) is WARNING
    assert check.grade(limits["critical"], limits) is WARNING
    assert check.grade(math.nextafter(limits["warning"], -worse), limits) is OK
    assert check.grade(math.nextafter(limits["critical"], worse), limits) is CRITICAL
