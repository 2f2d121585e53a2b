"""The charts of a stream: from sampled reports, from measurements, and from roll-ups where the rows are gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.retention import KEEP
from streamwarden.adapters.store.tables import batches
from streamwarden.drills.records.sections import DOCUMENTED_CHECKS
from streamwarden.health.checks import CHECKS
from streamwarden.health.signals.partitions import LARGEST, MEDIAN, SMALLEST
from streamwarden.health.signals.series import BACKLOG_SECONDS, MEMORY_BYTES, STATE_BYTES
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.window import Measurement
from streamwarden.services.overview.charts import CHARTS, POINTS, ChartData, chart_data, chart_for
from streamwarden.stream.spec import HealthSpec, SparkSpec, StreamSpec
from streamwarden.units import HOUR
from support.streams.reports import START, operator, report

SPEC = StreamSpec(
    name="s",
    job="/j.py",
    checkpoint="/c",
    health=HealthSpec(thresholds={"state_size": {"warning": 1e6, "critical": 2e6}}),
)

PARTED = [chart.name for chart in CHARTS if chart.parts is not None]


@pytest.fixture(scope="module")
def history(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with a thousand batches and half an hour of measurements; only to be copied."""
    path = shutil.copy(migrated, tmp_path_factory.mktemp("history") / "store.db")
    with Store(f"sqlite:///{path}") as store:
        store.batches.upsert_many("s", [report(number, rows=100) for number in range(1000)])
        store.measurements.add(
            Measurement(stream="s", name=name, at=START + 60 * n, value=n, unit=unit, source="check")
            for n in range(30)
            for name, unit in ((BACKLOG_SECONDS, "seconds"), (MEMORY_BYTES, "bytes"), (STATE_BYTES, "bytes"))
        )
    return path


@pytest.fixture
def store(history: Path, tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{shutil.copy(history, tmp_path / 'store.db')}") as store:
        yield store


def charts(store: Store, since: float, until: float) -> dict[str, ChartData]:
    found = chart_data(store, SPEC, DEFAULTS, since, until)
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


def pruned(store: Store, now: float) -> None:
    """Housekeeping at `now`: the fixture's hour is rolled up, and its rows are deleted if `now` is a week later."""
    store.roll_up(now)
    store.prune(now)


def test_the_spread_of_the_partitions_is_drawn_now_and_by_the_hour(store: Store) -> None:
    """One partition grows away from the others."""
    sizes = {LARGEST: 9e8, MEDIAN: 2e8, SMALLEST: 1e8}
    store.measurements.add(
        Measurement(stream="s", name=name, at=START + 60 * n, value=size, unit="bytes", source="checkpoint")
        for name, size in sizes.items()
        for n in range(30)
    )
    recent = charts(store, START, START + 1740)["state_partitions"]
    pruned(store, START + KEEP + 2 * HOUR)
    old = charts(store, START, START + 3 * HOUR)["state_partitions"]
    assert [len(chart.lines[0].at) for chart in (recent, old)] == [29, 1]
    for chart in (recent, old):
        assert {line.name: line.values[-1] for line in chart.lines} == {"largest": 9e8, "median": 2e8, "smallest": 1e8}
    assert (recent.warning, recent.critical) == (None, None)  # the check judges a ratio, which no line of bytes shows


def test_each_operator_has_a_line_of_its_own(store: Store) -> None:
    """A batch that does not name one has no value of it."""
    both = [operator(numRowsTotal=30, memoryUsedBytes=7), operator(numRowsTotal=4, operatorName="dedupe")]
    for number, operators in enumerate((both, both[:1], both)):
        at = START + 3000 + 10 * number
        store.batches.upsert_progress("s", report(2000 + number, at=at, stateOperators=operators))
    found = charts(store, START + 2990, START + 3030)
    lines = {line.name: line.values for line in found["operator_rows"].lines}
    assert lines == {"0 stateStoreSave": (30.0, 30.0, 30.0), "1 dedupe": (4.0, None, 4.0)}
    assert found["operator_memory"].lines[0].values == (7.0, 7.0, 7.0)
    assert found["partition_lag"].lines == ()


def test_rows_written_are_shown_of_a_sink_that_counts(store: Store) -> None:
    """Spark reports -1 for one that does not."""
    for number, count in enumerate((7, -1, 0)):
        sink = {"description": "KafkaTable", "numOutputRows": count}
        store.batches.upsert_progress("s", report(2000 + number, at=START + 3000 + 10 * number, sink=sink))
    (line,) = charts(store, START + 2990, START + 3030)["rows_written"].lines
    assert (line.name, line.values) == ("written", (7.0, None, 0.0))
    uncounted = report(2003, at=START + 3100, sink={"description": "FileSink", "numOutputRows": -1})
    store.batches.upsert_progress("s", uncounted)
    assert charts(store, START + 3090, START + 3130)["rows_written"].lines == ()


def test_every_chart_goes_on_where_the_batches_are_not_kept_any_more(store: Store) -> None:
    """Their numbers are close to those that were drawn from the batches, and the chart says up to when they are means
    of hours."""
    before = charts(store, START, START + 2000)
    pruned(store, START + KEEP + 2 * HOUR)
    after = charts(store, START - 10 * HOUR, START + 3 * HOUR)
    del after["state_partitions"]  # this store has no measurement of them
    for name in PARTED:
        assert after.pop(name).lines == (), "no roll-up has the parts of a report"
    for name, chart in after.items():
        assert chart.hourly_until == START + 2 * HOUR, name
        for line, exact in zip(chart.lines, before[name].lines, strict=True):
            assert line.at == (START + HOUR / 2,), name
            (value,) = line.values
            known = [each for each in exact.values if each is not None]
            if (name, line.name) == ("rates", "in"):  # the fixture's stream stood still for half an hour
                assert value == pytest.approx(1000 * 100 / HOUR)
            elif (name, line.name) == ("rates", "processed"):
                assert value == pytest.approx(100 / report(0).duration_ms * 1000)
            elif name == "watermark_lag":
                assert value is not None
                assert min(known) <= value <= max(known)
            elif name not in ("state_size", "memory_usage", "backlog"):  # whose samples are others than the reports
                assert value == pytest.approx(sum(known) / len(known)), (name, line.name)
            else:
                assert value == pytest.approx(14.5), name


def test_a_range_of_all_days_that_are_kept_is_drawn_from_batches_alone(store: Store) -> None:
    """Housekeeping runs once an hour, and the browser asks for exactly seven days a moment before the server looks at
    its clock."""
    now = START + KEEP + 1800
    store.batches.upsert_progress("s", report(5000, at=now - 1))
    pruned(store, now)
    for chart in charts(store, now - KEEP, now + 0.05).values():
        assert chart.hourly_until is None, chart.name
    assert charts(store, now - KEEP, now + 0.05)["checkpoint_duration"].lines[0].at == (START + 1998, now - 1)


def test_an_older_range_ends_in_points_of_single_batches(store: Store) -> None:
    now = START + KEEP + 2 * HOUR
    recent = [now - 300 + 2 * n for n in range(100)]
    store.batches.upsert_many("s", [report(5000 + n, at=at) for n, at in enumerate(recent)])
    pruned(store, now)
    for name in DOCUMENTED_CHECKS[:-1]:
        (line,) = charts(store, now - 90 * 86400, now)[name].lines
        assert line.at[0] < START + 2 * HOUR, name
        assert line.at[-1] == recent[-1], name
        assert len(line.at) <= POINTS
        assert None not in line.values


def test_months_of_hours_are_condensed_with_the_weight_of_their_samples(store: Store) -> None:
    """1,000 batches in one hour and 10 in the next are one point, and the mean is that of the 1,010."""
    slow = {"batchDuration": 9000}
    store.batches.upsert_many("s", [report(1000 + n, at=START + HOUR + n, **slow) for n in range(10)])
    now = START + KEEP + 500 * HOUR
    pruned(store, now)
    found = charts(store, START - 999 * HOUR, now - KEEP)
    (line,) = found["batch_duration"].lines
    quick = report(0).duration_ms / 1000
    assert line.values == (pytest.approx((1000 * quick + 10 * 9) / 1010),)
    (rows, _) = found["rates"].lines
    assert rows.values == (pytest.approx((1000 * 100 + 10 * 200) / (2 * HOUR)),)


def test_hours_of_an_earlier_version_leave_a_gap_and_no_wrong_number(store: Store) -> None:
    """Its rows lack the phases: the checkpoint's duration is not known, and the rates are."""
    with_none = batches.update().values(planning_ms=None, execution_ms=None, logs_ms=None)
    store._database.write(lambda connection: connection.execute(with_none))
    pruned(store, START + KEEP + 2 * HOUR)
    found = charts(store, START, START + HOUR)
    assert found["checkpoint_duration"].lines[0].at == ()
    assert found["checkpoint_duration"].hourly_until is None
    assert len(found["rates"].lines[0].at) == 1
    assert [line.name for line in found["batch_time"].lines if any(line.values)] == ["state commit"]


def test_the_tasks_of_a_stage_share_the_cores_in_a_roll_up_as_in_a_report(store_url: str) -> None:
    """Two operators of four partitions on two cores: a second of task time is half a second."""
    spec = StreamSpec(name="s", job="/j.py", checkpoint="/c", spark=SparkSpec(master="local[2]"))
    state = [operator(allRemovalsTimeMs=1000, commitTimeMs=0, numShufflePartitions=4) for _ in range(2)]
    with Store(store_url) as store:
        long = {"triggerExecution": 5000, "addBatch": 4000}
        store.batches.upsert_many("s", [report(n, stateOperators=state, durationMs=long) for n in range(5)])
        pruned(store, START + KEEP + 2 * HOUR)
        found = {each.name: each for each in chart_data(store, spec, DEFAULTS, START, START + HOUR)}
    assert found["state_cleanup_time"].lines[0].values == (1.0,)


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
