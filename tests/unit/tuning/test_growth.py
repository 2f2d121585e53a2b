"""Whether the state grows without end: what only fills up, what swings, and what nothing bounds."""

from __future__ import annotations

from typing import Any

import pytest

from streamwarden.progress import Progress
from streamwarden.stream.spec import StateSpec
from streamwarden.tuning.advisor import advise
from streamwarden.tuning.growth import Growth, growth_of
from streamwarden.tuning.recommendation import Decision
from support.streams.health_windows import NOW, iso, report, spec
from support.streams.tuning import files, history


def growing(
    number: int, total: int, *, removed: int = 0, watermark: float | None = None, newest: float | None = None
) -> Progress:
    """A batch after which the state has `total` rows; `newest`: the newest event time in it."""
    top: dict[str, Any] = {"eventTime": {}}
    if watermark is not None and newest is not None:
        top["eventTime"] = {"watermark": iso(watermark), "max": iso(newest)}
    operator = {"numRowsTotal": total, "numRowsUpdated": 1000, "numRowsRemoved": removed, "memoryUsedBytes": 50 * total}
    return report(number, NOW - 10_000 + 10 * number, top=top, operator=operator)


def endless(count: int = 40) -> list[Progress]:
    return [growing(number, 1000 * (number + 1)) for number in range(count)]


def found(reports: list[Progress], of: Any = None) -> Growth:
    growth = growth_of(history(reports, of))
    assert growth is not None
    return growth


def test_state_that_nothing_removes_and_nothing_bounds_grows_without_end() -> None:
    growth = found(endless())
    assert growth.endless
    assert growth.rows == pytest.approx(100)
    assert growth.critical_in is not None


def test_the_advice_says_so_and_no_topic_keeps_without_a_word() -> None:
    """Six times "keep" was the answer to a stream that grew until its driver died."""
    by_topic = {each.topic: each for each in advise(history(endless(), files=files()))}
    size = by_topic["state size"]
    assert size.status is Decision.CHANGE
    assert "the state only grows, by 360,000 rows" in size.says
    assert "state.bounded_by" in size.says
    for topic in ("checkpoint interval", "partitions"):
        assert by_topic[topic].says.endswith("This holds for the present size of the state, which only grows.")


@pytest.mark.parametrize(
    "state",
    [StateSpec(ttl=86400.0), StateSpec(bounded_by="the number of customers")],
    ids=["a TTL", "a declared bound"],
)
def test_state_with_a_bound_may_still_be_filling_up(state: StateSpec) -> None:
    of = spec(state=state)
    assert not found(endless(), of).endless
    advice = advise(history(endless(), of))[0]
    assert advice.status is Decision.UNKNOWN
    assert "too short to show whether the state stops growing" in advice.says


@pytest.mark.parametrize(("behind", "without_end"), [(7200.0, False), (10.0, True)])
def test_a_watermark_counts_until_it_has_passed_the_first_events_of_the_history(behind, without_end) -> None:
    """Then rows of that time should have left, and none has: the watermark does not bound this state."""
    reports = [growing(n, 1000 * (n + 1), watermark=NOW + 60 * n - behind, newest=NOW + 60 * n) for n in range(40)]
    assert found(reports).endless is without_end


def test_growth_that_slows_down_or_swings_is_none() -> None:
    filling = [growing(n, round(100_000 * (1 - 0.8**n))) for n in range(40)]
    swinging = [growing(n, 5_000 + 10 * n, removed=990) for n in range(40)]
    assert growth_of(history(filling)) is None
    assert growth_of(history(swinging)) is None
    assert growth_of(history(endless(19))) is None, "too few batches"
