"""The state growth forecast: right on clean lines, unmoved by outliers, honest when it cannot tell."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamwarden.health.checks import state_growth
from streamwarden.health.forecast import coarse, seconds_until, since_reset, theil_sen, thin
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Measurement
from support.health_windows import NOW, judge, measured, report, window

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
        ("values", "kept"),
        [
            ([10, 20, 9, 9.9], [9, 9.9]),
            ([10, 20, 10, 10], [10, 20, 10, 10]),  # exactly half is no reset
            ([10, 20, 9, 20], [10, 20, 9, 20]),  # one value alone is an outlier
            ([10, 20, 9], [10, 20, 9]),
            ([80, 10, 10, 40, 5, 5], [5, 5]),  # the newest reset counts
            ([7], [7]),
            ([], []),
        ],
    )
    def test_a_fall_to_less_than_half_that_lasts_is_a_new_baseline(
        self, values: list[float], kept: list[float]
    ) -> None:
        points = [(float(at), value) for at, value in enumerate(values)]
        assert [value for _, value in since_reset(points)] == kept

    @given(st.lists(floats, max_size=300), st.integers(min_value=1, max_value=50))
    def test_coarse_keeps_order_and_bounds(self, values: list[float], most: int) -> None:
        series = [(float(at), value) for at, value in enumerate(values)]
        points = coarse(series, most)
        assert len(points) == min(most, len(series))
        assert [at for at, _ in points] == sorted(at for at, _ in points)
        assert all(value in values for _, value in points)

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


def test_the_evidence_tells_both_thresholds_with_an_interval() -> None:
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
    assert "no clear trend" in verdict.reason


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
