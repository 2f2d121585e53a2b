"""The state growth forecast: right on clean lines, unmoved by outliers, honest when it cannot tell."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.health.checks.state import state_growth
from streamwarden.health.signals.forecast import seconds_until, theil_sen, thin
from streamwarden.health.signals.growth import Doubt, ceiling_of, clear_growths, doubt_of, since_resets
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from support.streams.health_windows import NOW, batch_of, judge, measured, report, window

OK, WARNING, CRITICAL, UNKNOWN = Status.OK, Status.WARNING, Status.CRITICAL, Status.UNKNOWN
HOUR, DAY, GB = 3600.0, 86400.0, 10**9

floats = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False, allow_infinity=False)


class TestTheilSen:
    @given(slope=floats, start=floats, count=st.integers(min_value=3, max_value=100))
    def test_a_clean_line_is_found_exactly(self, slope: float, start: float, count: int) -> None:
        trend = theil_sen([(60.0 * n, start + slope * 60 * n) for n in range(count)])
        assert trend is not None
        scale = 1e-6 * (1 + abs(slope) + abs(start))
        assert trend.slope == pytest.approx(slope, abs=scale)
        assert trend.low <= trend.slope + scale
        assert trend.high >= trend.slope - scale

    def test_outliers_do_not_move_it(self) -> None:
        """Five of 24 points are off by 100x: a least-squares line would be lost, this one is within a few percent."""
        points = [(60.0 * n, 1_000.0 + 10 * n) for n in range(24)]
        for index in (2, 7, 11, 16, 21):
            points[index] = (points[index][0], 100_000.0)
        trend = theil_sen(points)
        assert trend is not None
        assert trend.slope * 60 == pytest.approx(10, rel=0.25)

    def test_the_interval_holds_the_true_slope_as_often_as_it_says(self) -> None:
        """500 noisy lines: the 95 % interval misses the truth in about 25 of them."""
        rng = random.Random(4)
        hits = 0
        for _ in range(500):
            trend = theil_sen([(float(n), 3.0 * n + rng.gauss(0, 5)) for n in range(24)])
            assert trend is not None
            hits += trend.low <= 3.0 <= trend.high
        assert 460 <= hits <= 490

    def test_too_little_is_none(self) -> None:
        assert theil_sen([]) is None
        assert theil_sen([(1.0, 1.0), (2.0, 2.0)]) is None
        assert theil_sen([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]) is None

    @given(st.lists(st.tuples(st.floats(0, 1e6), floats), min_size=0, max_size=200))
    def test_thinning_keeps_order_and_bounds(self, points: list[tuple[float, float]]) -> None:
        series = sorted(points)
        thinned = thin(series, 24)
        assert len(thinned) <= max(24, 0)
        assert [at for at, _ in thinned] == sorted(at for at, _ in thinned)
        if series:
            values = [value for _, value in series]
            assert all(min(values) <= value <= max(values) for _, value in thinned)

    @pytest.mark.parametrize(
        ("values", "stretches"),
        [
            ([10, 20, 9, 9.9], [[10, 20], [9, 9.9]]),
            ([10, 20, 10, 10], [[10, 20, 10, 10]]),  # exactly half is no reset
            ([10, 20, 9, 20], [[10, 20, 9, 20]]),  # one value alone is an outlier
            ([10, 20, 9], [[10, 20, 9]]),
            ([80, 10, 10, 40, 5, 5], [[80], [10, 10, 40], [5, 5]]),
            ([7], [[7]]),
            ([], []),
        ],
    )
    def test_a_fall_to_less_than_half_that_lasts_is_a_reset(
        self, values: list[float], stretches: list[list[float]]
    ) -> None:
        points = [(float(at), value) for at, value in enumerate(values)]
        assert [[value for _, value in stretch] for stretch in since_resets(points)] == stretches

    def test_time_until_a_limit(self) -> None:
        assert seconds_until(100, 50, 5) == 10
        assert seconds_until(100, 100, 5) == 0
        assert seconds_until(100, 50, 0) is None
        assert seconds_until(100, 50, -1) is None


def hourly(sizes: list[float], until: float = NOW - 1_000) -> tuple[Measurement, ...]:
    return tuple(measured("state_bytes", size, until - HOUR * (len(sizes) - 1 - n)) for n, size in enumerate(sizes))


def grow(left: float, *, now: float = 1 * GB, noise: float = 0.0) -> Verdict:
    """Two days of hourly sizes, now at `now` bytes, on their way to 5 GB in `left` seconds."""
    rng = random.Random(7)
    slope = (5 * GB - now) / left
    older = [now - slope * HOUR * (47 - n) for n in range(48)]
    reports = []
    for n in range(100):
        size = now - slope * (99 - n) + rng.uniform(-noise, noise)
        reports.append(
            report(
                n, NOW - 99 + n, operator={"memoryUsedBytes": 0}, custom={"rocksdbSstFileSize": round(size)}
            )
        )  # fmt: skip
    history = tuple(
        measured("state_bytes", size + rng.uniform(-noise, noise), NOW - HOUR * (47 - n) - 120)
        for n, size in enumerate(older)
    )
    return judge(state_growth.CHECK, window(reports, hourly=history))


@pytest.mark.parametrize(
    ("days", "status"), [(30, OK), (7.2, OK), (6.8, WARNING), (1.1, WARNING), (0.9, CRITICAL), (0.05, CRITICAL)]
)
def test_time_left_until_the_state_is_critical(days: float, status: Status) -> None:
    """Above 7 days OK, down to 1 day WARNING, below CRITICAL; a clean line is forecast within 3 %."""
    verdict = grow(days * DAY)
    assert verdict.status is status
    assert verdict.value == pytest.approx(days * DAY, rel=0.03)


def test_evidence_names_both_thresholds_with_an_interval() -> None:
    """At 0.5 GB, 5 GB is 10 days away; 1 GB a ninth of that; earliest <= expected <= latest."""
    verdict = grow(10 * DAY, now=GB // 2, noise=5e6)
    warning, critical = (verdict.evidence[f"seconds_until_{limit}"] for limit in ("warning", "critical"))
    assert isinstance(warning, dict)
    assert isinstance(critical, dict)
    assert critical["expected"] == pytest.approx(10 * DAY, rel=0.05)
    assert warning["expected"] == pytest.approx(10 * DAY / 9, rel=0.10)
    assert critical["earliest"] < critical["expected"] < critical["latest"]


def test_a_flat_state_is_well() -> None:
    verdict = judge(state_growth.CHECK, window(hourly=hourly([2e8] * 48)))
    assert verdict.status is OK
    assert "never" in verdict.reason


def test_a_shrinking_state_is_well() -> None:
    verdict = judge(state_growth.CHECK, window(hourly=hourly([8e8 - 1e6 * n for n in range(48)])))
    assert verdict.status is OK


def test_noise_without_a_trend_near_the_limit_is_unknown() -> None:
    """Between 2 and 4.9 GB at random: growth that would alarm is as plausible as none."""
    rng = random.Random(1)
    verdict = judge(state_growth.CHECK, window(hourly=hourly([rng.uniform(2.6e9, 4.9e9) for _ in range(10)])))
    assert verdict.status is UNKNOWN
    assert "no clear trend: a sawtooth or a swing: it was as large before, and fell again; over all" in verdict.reason


def plateau(n: int) -> float:
    return 4e9 + 1e7 * min(n, 30)


@pytest.mark.parametrize(
    ("values", "doubt"),
    [
        ([plateau(n) for n in range(48)], Doubt.NEWER_HALF),
        ([4e9 - 1e7 * min(n, 24) + 4e7 * max(0, n - 24) for n in range(48)], Doubt.SCATTER),
        ([4e9 - 1e6 * n for n in range(48)], Doubt.MAY_SHRINK),
        ([3e9 + 4e7 * (n % 24) for n in range(40)], Doubt.SAWTOOTH),
    ],
    ids=["plateau", "valley", "falling", "teeth"],
)
def test_why_a_trend_was_rejected_is_said(values: list[float], doubt: Doubt) -> None:
    points = [(NOW - HOUR * (len(values) - n), value) for n, value in enumerate(values)]
    assert doubt_of(points, least=900.0, ceiling=ceiling_of(points)) is doubt


def test_growth_to_a_size_that_was_there_before_is_a_tooth() -> None:
    points = [(NOW - 60 * (48 - n), 3e9 + 1e7 * n) for n in range(48)]
    assert doubt_of(points, least=900.0, ceiling=4e9) is Doubt.SAWTOOTH
    assert doubt_of(points, least=900.0, ceiling=0.0) is None, "it grows clearly"
    assert doubt_of(points[:7], least=900.0, ceiling=0.0) is None, "too little history"


def test_the_reason_of_a_rejected_trend_is_in_the_verdict() -> None:
    verdict = judge(state_growth.CHECK, window(hourly=hourly([plateau(n) for n in range(48)])))
    assert verdict.status is UNKNOWN
    assert "no clear trend: the newer half differs" in verdict.reason


def test_too_little_history_says_how_much_is_there_and_how_much_is_needed() -> None:
    fresh = tuple(report(n, at=NOW - 581 + n * 581 / 9) for n in range(10))
    assert judge(state_growth.CHECK, window(fresh)).reason.endswith("9m 41s of the 15m needed")
    few = judge(state_growth.CHECK, window(hourly=hourly([1e8 + 1e6 * n for n in range(7)])))
    assert few.reason.endswith("7 points of the 8 needed")


@pytest.mark.parametrize(("points", "known"), [(7, False), (8, True), (48, True)])
def test_little_history_is_unknown(points: int, known: bool) -> None:
    verdict = judge(state_growth.CHECK, window(hourly=hourly([1e8 + 1e6 * n for n in range(points)])))
    assert (verdict.status is not UNKNOWN) is known


@pytest.mark.parametrize(("later", "says"), [(60.0, False), (10 * HOUR, True)])
def test_a_forecast_says_from_when_it_is(later: float, says: bool) -> None:
    """State grows only while batches run: ten hours after the newest one, `in 20h` is a time that began then."""
    reports = [
        report(n, NOW - 12 * HOUR + 432 * n, custom={"rocksdbSstFileSize": 10**9 + 10**7 * n}) for n in range(101)
    ]
    verdict = judge(state_growth.CHECK, window(reports, now=NOW + later))
    assert verdict.status is WARNING
    assert ("counted from the newest batch 10h ago" in verdict.reason) is says


def test_ten_minutes_of_a_young_state_forecast_no_doom() -> None:
    """It fills up at 100 MB a minute, as it should: too young to say."""
    reports = [report(n, NOW - 600 + 6 * n, custom={"rocksdbSstFileSize": 10**7 * n}) for n in range(100)]
    assert judge(state_growth.CHECK, window(reports)).status is UNKNOWN


def test_a_reset_in_the_history_does_not_hide_the_growth_since() -> None:
    """State was cleared 12 hours ago from 4 GB and grows by 200 MB an hour again: 5 GB are 13 hours away."""
    sizes = [4e9] * 30 + [2e8 * n for n in range(1, 13)]
    verdict = judge(state_growth.CHECK, window(hourly=hourly(sizes)))
    assert verdict.status is CRITICAL
    assert verdict.value == pytest.approx((5e9 - 2.4e9) / 2e8 * HOUR, rel=0.05)


def test_the_saw_tooth_of_compaction_is_not_growth() -> None:
    """RocksDB's files swing between 1.0 and 1.6 GB with each compaction, for two days."""
    sizes = [1e9 + 1e8 * (n % 7) for n in range(48)]
    assert judge(state_growth.CHECK, window(hourly=hourly(sizes))).status in (OK, UNKNOWN)


def test_a_state_that_is_critical_already_has_no_time_left() -> None:
    verdict = judge(state_growth.CHECK, window(hourly=hourly([6e9 + 1e7 * n for n in range(48)])))
    assert (verdict.status, verdict.value) == (CRITICAL, 0)


MINUTE, MB = 60.0, 10**6
Size = Callable[[float], float]


def points_at(size: Size, now: float, *, trigger: float = 5.0, age: float = 3 * DAY) -> list[tuple[float, float]]:
    """What the check sees at `now` of a stream that has committed a batch each `trigger` seconds since time 0.

    16 of the newest 100 batches, and 30 older ones at growing distances.
    """
    newest = int(min(now, age) // trigger)
    back = min(99, newest)
    ids = {round(newest - back + back * n / 15) for n in range(16)}
    ids |= {0, *(newest - round(max(back, 1) * 1.25**exponent) for exponent in range(1, 30))}
    return [(each * trigger, size(each * trigger)) for each in sorted(ids) if each >= 0]


def alarms(size: Size, hours: float, *, critical: float = 5 * GB) -> list[float]:
    """Minutes at which the forecast predicts less than a week, one evaluation a minute."""
    found, ceiling = [], 0.0
    for minute in range(1, int(hours * 60) + 1):
        points = points_at(size, minute * MINUTE)
        ceiling = max(ceiling, ceiling_of(points))
        for growth in clear_growths(points, least=900.0, ceiling=ceiling):
            left = seconds_until(critical, growth.trend.level, growth.trend.slope)
            if left is not None and left < 7 * DAY:
                found.append(float(minute))
                break
    return found


def noisy(size: Size, share: float, seed: int = 3) -> Size:
    """`size` with the noise that the time decides: the same batch has the same size in each evaluation."""
    return lambda at: size(at) * (1 + share * (noise(seed, at) - 0.5))


@cache
def noise(seed: int, at: float) -> float:
    return random.Random(f"{seed} {at}").random()


def saw(low: float, high: float, period: float) -> Size:
    return lambda at: low + (high - low) * (at % period) / period


GROWS: list[tuple[str, Size, float]] = [
    ("a line", lambda at: 50 * MB + 100 * MB * at / HOUR, 16),
    ("a noisy line", noisy(lambda at: 50 * MB + 400 * MB * at / HOUR, 0.1), 18),
    ("after a flat day", lambda at: 200 * MB + 400 * MB * max(0.0, at - 5 * HOUR) / HOUR, 5 * 60 + 20),
    ("a sawtooth whose teeth grow", lambda at: saw(0, 300 * MB, HOUR)(at) + 300 * MB * at / HOUR, 60),
    ("slow growth under a ripple", lambda at: 1 * GB + 60 * MB * at / HOUR + 20 * MB * math.sin(at / 200), 4 * 60),
]


@pytest.mark.parametrize(("name", "size", "minutes"), GROWS, ids=[name for name, _, _ in GROWS])
def test_clear_growth_is_reported_after_a_quarter_of_an_hour(name: str, size: Size, minutes: float) -> None:
    found = alarms(size, minutes / 60 + 1)
    assert found
    assert found[0] <= minutes, found[:3]
    assert min(found) >= 15


NO_GROWTH: list[tuple[str, Size]] = [
    ("flat", lambda at: 200 * MB),
    ("noise", noisy(lambda at: 400 * MB, 0.2)),
    ("much noise", noisy(lambda at: 400 * MB, 1.0)),
    ("a plateau", lambda at: min(1.0, at / (10 * MINUTE)) * 300 * MB),
    ("a noisy plateau", noisy(lambda at: min(1.0, at / (10 * MINUTE)) * 300 * MB, 0.1)),
    ("a TTL of ten minutes", saw(50 * MB, 400 * MB, 10 * MINUTE)),
    ("a compaction each 7 minutes", saw(200 * MB, 320 * MB, 7 * MINUTE)),
    ("shrinking", lambda at: max(50 * MB, 800 * MB - 100 * MB * at / HOUR)),
]


@pytest.mark.parametrize(("name", "size"), NO_GROWTH, ids=[name for name, _ in NO_GROWTH])
def test_what_does_not_grow_without_end_is_silent(name: str, size: Size) -> None:
    """Six hours, an evaluation each minute."""
    assert alarms(size, 6.0) == []


@pytest.mark.parametrize("period", [30 * MINUTE, HOUR, 2 * HOUR])
@pytest.mark.parametrize("share", [0.0, 0.05])
@pytest.mark.parametrize("low", [50, 250])
def test_a_sawtooth_is_silent_once_its_first_tooth_is_known(period: float, share: float, low: float) -> None:
    """Until the first fall it is growth: 50 to 400 MB within half an hour would be critical within hours."""
    found = alarms(noisy(saw(low * MB, 400 * MB, period), share), 4 * period / HOUR)
    assert found
    assert max(found) <= period / MINUTE + 1


def test_a_swing_is_silent_once_its_first_rise_is_known() -> None:
    found = alarms(lambda at: 400 * MB - 100 * MB * math.cos(at / HOUR * 2 * math.pi), 6.0)
    assert max(found, default=0.0) <= 45


def test_the_filling_of_new_state_is_reported_as_long_as_it_lasts() -> None:
    """It fills for 40 minutes and is full then: the forecast ends soon after."""
    found = alarms(lambda at: min(1.0, at / (40 * MINUTE)) * 300 * MB, 4.0)
    assert 15 <= min(found) <= 16
    assert max(found) <= 80


def young(minutes: float) -> Verdict:
    """A driver that has committed a batch each two seconds, 30 MB of new state in each minute; nothing else ran."""
    newest = int(minutes * 30)
    ids = [each for each in range(newest + 1) if each > newest - 100 or each % 20 == 0]
    batches = [
        batch_of(
            report(
                n, NOW - 2 * (newest - n), operator={"memoryUsedBytes": 0}, custom={"rocksdbSstFileSize": 10**6 * n}
            )
        )
        for n in ids
    ]  # fmt: skip
    return judge(state_growth.CHECK, window(batches=tuple(batches[-100:]), older=tuple(batches[:-100])))


def test_a_young_state_is_at_most_a_warning_for_an_hour() -> None:
    """It reaches 5 GB within three hours. In its first hour it may still fill up."""
    assert young(14.5).status is UNKNOWN
    first = young(15.5)
    assert first.status is WARNING
    assert "state grows by 1.8 GB/h, measured over 15m 30s, and reaches 5.0 GB in 2h" in first.reason
    assert "(95 %: " in first.reason
    assert "new state may still fill up" in first.reason
    assert young(61).status is CRITICAL
