"""The charts of a stream: from sampled reports, from measurements, and from roll-ups where the rows are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.hours import HOUR
from streamwarden.health.checks import CHECKS
from streamwarden.health.partitions import LARGEST, MEDIAN, SMALLEST
from streamwarden.health.series import BACKLOG_SECONDS
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.window import Measurement
from streamwarden.services.overview.charts import CHARTS, POINTS, ChartData, chart_data, chart_for
from streamwarden.stream import HealthSpec, StreamSpec
from support.reports import START, report

SPEC = StreamSpec(
    name="s",
    job="/j.py",
    checkpoint="/c",
    health=HealthSpec(thresholds={"state_size": {"warning": 1e6, "critical": 2e6}}),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.migrate()
        store.batches.upsert_many("s", [report(number, rows=100) for number in range(1000)])
        store.measurements.add(
            Measurement(stream="s", name=BACKLOG_SECONDS, at=START + 60 * n, value=n, unit="seconds", source="check")
            for n in range(30)
        )
        yield store


def charts(store: Store, since: float, until: float, kept_since: float = 0.0) -> dict[str, ChartData]:
    found = chart_data(store, SPEC, DEFAULTS, since, until, kept_since=kept_since)
    assert [each.name for each in found] == [each.name for each in CHARTS]
    return {each.name: each for each in found}


def test_a_line_has_no_more_points_than_a_chart_has_room_for(store: Store) -> None:
    found = charts(store, START, START + 2000)
    for chart in found.values():
        for line in chart.lines:
            assert len(line.at) == len(line.values)
            assert len(line.at) <= POINTS
    assert len(found["batch_duration"].lines[0].at) == POINTS


def test_the_limits_of_a_stream_are_drawn_in_its_charts(store: Store) -> None:
    found = charts(store, START, START + 2000)
    assert (found["state_size"].warning, found["state_size"].critical) == (1e6, 2e6)
    assert (found["rates"].warning, found["rates"].critical) == (None, None)


def test_the_parts_of_a_batch_add_up_to_no_more_than_the_batch(store: Store) -> None:
    found = charts(store, START, START + 2000)
    parts = [
        sum(value or 0.0 for value in at)
        for at in zip(*(line.values for line in found["batch_time"].lines), strict=True)
    ]
    whole = [value or 0.0 for value in found["batch_duration"].lines[0].values]
    assert parts
    assert all(part <= total + 0.001 for part, total in zip(parts, whole, strict=True))
    assert all(part > 0.5 * total for part, total in zip(parts, whole, strict=True))


def test_a_measurement_is_a_line(store: Store) -> None:
    (line,) = charts(store, START, START + 1740)["backlog"].lines
    assert line.values[-1] == 29.0


def test_the_spread_of_the_partitions_is_drawn_now_and_by_the_hour(store: Store) -> None:
    """One partition grows away from the others."""
    sizes = {LARGEST: 9e8, MEDIAN: 2e8, SMALLEST: 1e8}
    store.measurements.add(
        Measurement(stream="s", name=name, at=START + 60 * n, value=size, unit="bytes", source="checkpoint")
        for name, size in sizes.items()
        for n in range(30)
    )
    recent = charts(store, START, START + 1740)["state_partitions"]
    store.roll_up(START + 3 * HOUR)
    old = charts(store, START, START + 3 * HOUR, kept_since=START + 1)["state_partitions"]
    assert [len(chart.lines[0].at) for chart in (recent, old)] == [29, 1]
    for chart in (recent, old):
        assert {line.name: line.values[-1] for line in chart.lines} == {"largest": 9e8, "median": 2e8, "smallest": 1e8}
    assert (recent.warning, recent.critical) == (None, None)  # the check judges a ratio, which no line of bytes shows


def test_an_old_range_shows_the_means_of_hours_and_says_so(store: Store) -> None:
    """What no roll-up has is an empty chart, not a wrong one."""
    store.roll_up(START + 3 * HOUR)
    found = charts(store, START - 10 * HOUR, START + 3 * HOUR, kept_since=START)
    assert found["batch_duration"].hourly
    (line,) = found["batch_duration"].lines
    assert line.at == (START + HOUR / 2,)
    assert line.values[0] == pytest.approx(report(0).duration_ms / 1000)
    assert found["checkpoint_duration"].lines == ()


@pytest.mark.parametrize(
    ("check", "chart"),
    [
        ("state_size", "state_size"),
        ("state_growth", "state_size"),
        ("partition_skew", "state_partitions"),
        ("driver_down", "rates"),
        ("drill_kill", "rates"),
    ],
)
def test_each_problem_has_a_chart_that_shows_it(check: str, chart: str) -> None:
    assert chart_for(check) == chart


def test_the_charts_of_problems_exist() -> None:
    names = {chart.name for chart in CHARTS}
    assert {chart_for(check.name) for check in CHECKS} <= names
