"""The charts of a stream: each is declared here once, with how its values come from the batches' reports.

A chart of the last days is made of batches, evenly sampled; an older one of the hourly roll-ups, which keep less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.store.measurements import Statistic
from streamwarden.adapters.store.rollup import Rolled
from streamwarden.health.partitions import LARGEST, MEDIAN, SMALLEST
from streamwarden.health.series import (
    BACKLOG_SECONDS,
    MEMORY_BYTES,
    STATE_BYTES,
    checkpoint_seconds,
    state_bytes,
    wall_times,
)
from streamwarden.progress import Progress
from streamwarden.services.overview.rows import Model

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.thresholds import Thresholds
    from streamwarden.stream import StreamSpec

POINTS: Final = 240
"""Points of a line at most: more than a chart has room for takes time and shows nothing."""

Values = Callable[["StreamSpec", Sequence[Progress]], Sequence[float | None]]


class Line(Model):
    """One line of a chart; a value is None where there is none."""

    name: str
    at: tuple[float, ...]
    """Unix seconds"""
    values: tuple[float | None, ...]


class ChartData(Model):
    """A chart with its data."""

    name: str
    title: str
    unit: str
    """bytes, seconds, rows/s"""
    stacked: bool
    lines: tuple[Line, ...]
    warning: float | None
    """limit of the check with this name: WARNING from here on"""
    critical: float | None
    hourly: bool
    """the values are means of hours, because the batches are not kept any more"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the values of one line come from: the reports of batches, or a measurement; `rolled`: the roll-up that
    stands for it where the rows are not kept any more."""

    name: str
    of_reports: Values | None = None
    measurement: str | None = None
    rolled: str | None = None
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The declaration of a chart; `check`: the check whose limits are drawn in it."""

    name: str
    title: str
    unit: str
    lines: tuple[Source, ...]
    check: str | None = None
    stacked: bool = False


def _of(read: Callable[[Progress], float | None]) -> Values:
    return lambda _, reports: [read(each) for each in reports]


def _phase(*names: str) -> Values:
    return _of(lambda report: sum(report.durations_ms.get(name, 0) for name in names) / 1000)


def _state_commit(spec: StreamSpec, reports: Sequence[Progress]) -> list[float]:
    return wall_times(spec, reports, "commit_ms")


def _processing(spec: StreamSpec, reports: Sequence[Progress]) -> list[float]:
    commits = _state_commit(spec, reports)
    return [each.durations_ms.get("addBatch", 0) / 1000 - commit for each, commit in zip(reports, commits, strict=True)]


def _latency(report: Progress) -> float | None:
    found = [each.update_ms / each.rows_updated / 1000 for each in report.operators if each.rows_updated]
    return max(found, default=None)


def _lag(report: Progress) -> float | None:
    return None if report.watermark is None else report.at - report.watermark


CHARTS: Final = (
    Chart(
        name="state_size",
        title="State size",
        unit="bytes",
        check="state_size",
        lines=(
            Source(
                name="state",
                of_reports=lambda _, reports: [float(size) for _, size in state_bytes(reports)],
                rolled=STATE_BYTES,
            ),
        ),
    ),
    Chart(
        name="state_partitions",
        title="State by partition",
        unit="bytes",
        lines=(
            Source(name="largest", measurement=LARGEST, rolled=LARGEST),
            Source(name="median", measurement=MEDIAN, rolled=MEDIAN),
            Source(name="smallest", measurement=SMALLEST, rolled=SMALLEST),
        ),
    ),
    Chart(
        name="checkpoint_duration",
        title="Checkpoint duration",
        unit="seconds",
        check="checkpoint_duration",
        lines=(Source(name="checkpoint", of_reports=checkpoint_seconds),),
    ),
    Chart(
        name="state_update_latency",
        title="State update latency",
        unit="seconds",
        check="state_update_latency",
        lines=(Source(name="per updated row", of_reports=_of(_latency)),),
    ),
    Chart(
        name="state_cleanup_time",
        title="State cleanup time",
        unit="seconds",
        check="state_cleanup_time",
        lines=(Source(name="cleanup", of_reports=lambda spec, reports: wall_times(spec, reports, "removal_ms")),),
    ),
    Chart(
        name="memory_usage",
        title="Memory without state",
        unit="bytes",
        check="memory_usage",
        lines=(Source(name="memory", measurement=MEMORY_BYTES, rolled=MEMORY_BYTES),),
    ),
    Chart(
        name="rates",
        title="Rows a second",
        unit="rows/s",
        lines=(
            Source(name="in", of_reports=_of(lambda report: report.input_rows_per_second)),
            Source(name="processed", of_reports=_of(lambda report: report.processed_rows_per_second)),
        ),
    ),
    Chart(
        name="backlog",
        title="Backlog",
        unit="seconds",
        check="backlog",
        lines=(Source(name="work that waits", measurement=BACKLOG_SECONDS, rolled=BACKLOG_SECONDS),),
    ),
    Chart(
        name="watermark_lag",
        title="Watermark behind the clock",
        unit="seconds",
        lines=(Source(name="lag", of_reports=_of(_lag)),),
    ),
    Chart(
        name="batch_time",
        title="Where a batch spends its time",
        unit="seconds",
        stacked=True,
        lines=(
            Source(name="planning", of_reports=_phase("latestOffset", "getBatch", "queryPlanning")),
            Source(name="processing and sink", of_reports=_processing),
            Source(name="state commit", of_reports=_state_commit),
            Source(name="logs", of_reports=_phase("walCommit", "commitOffsets")),
        ),
    ),
    Chart(
        name="batch_duration",
        title="Batch duration",
        unit="seconds",
        lines=(
            Source(
                name="batch",
                of_reports=_of(lambda report: report.duration_ms / 1000),
                rolled=Rolled.DURATION,
                scale=0.001,
            ),
        ),
    ),
    Chart(
        name="state_rows",
        title="Rows of state",
        unit="rows",
        lines=(
            Source(
                name="rows",
                of_reports=_of(lambda report: float(sum(each.rows_total for each in report.operators))),
                rolled=Rolled.STATE_ROWS,
            ),
        ),
    ),
)


_SHOWS: Final = {
    **{chart.check: chart.name for chart in CHARTS if chart.check},
    "batch_longer_than_trigger": "batch_time",
    "topic_lag": "backlog",
    "watermark_stalled": "watermark_lag",
    "late_rows": "watermark_lag",
    "state_growth": "state_size",
    "replay_debt": "checkpoint_duration",
    "partition_skew": "state_partitions",
}


def chart_for(check: str) -> str:
    """Name of the chart that shows a problem best; of one without numbers, the rows that the stream processed."""
    return _SHOWS.get(check, "rates")


def chart_data(
    store: Store, spec: StreamSpec, thresholds: Thresholds, since: float, until: float, *, kept_since: float
) -> tuple[ChartData, ...]:
    """Every chart of a stream or query from `since` to `until` (Unix seconds). Raises StoreError.

    Args:
        kept_since: before this time only the roll-ups are kept.
    """
    if since < kept_since:
        return tuple(_rolled(store, spec, thresholds, since, until))
    batches = store.batches.sampled(spec.name, since, until, POINTS)
    reports = [each.progress for each in batches if each.progress is not None]
    limits = thresholds.with_overrides(spec.health.thresholds)
    return tuple(
        _chart(each, limits, [_line(line, store, spec, reports, since, until) for line in each.lines], hourly=False)
        for each in CHARTS
    )


def _line(
    line: Source, store: Store, spec: StreamSpec, reports: Sequence[Progress], since: float, until: float
) -> Line:
    if line.of_reports is not None:
        values = line.of_reports(spec, reports)
        return Line(name=line.name, at=tuple(each.at for each in reports), values=tuple(values))
    assert line.measurement is not None
    points = store.measurements.sampled([spec.name], line.measurement, since, until, POINTS)[spec.name]
    return Line(name=line.name, at=tuple(at for at, _ in points), values=tuple(value for _, value in points))


def _rolled(store: Store, spec: StreamSpec, thresholds: Thresholds, since: float, until: float) -> Sequence[ChartData]:
    found = store.measurements.hourly(spec.name, since, Statistic.MEAN)
    limits = thresholds.with_overrides(spec.health.thresholds)
    charts = []
    for chart in CHARTS:
        lines = [
            Line(name=line.name, at=tuple(at for at, _ in points), values=tuple(v * line.scale for _, v in points))
            for line in chart.lines
            if line.rolled is not None
            and (points := [(each.at, each.value) for each in found if each.name == line.rolled and each.at <= until])
        ]
        charts.append(_chart(chart, limits, lines, hourly=True))
    return charts


def _chart(chart: Chart, limits: Thresholds, lines: Sequence[Line], *, hourly: bool) -> ChartData:
    own = limits.of(chart.check) if chart.check else {}
    return ChartData(
        name=chart.name,
        title=chart.title,
        unit=chart.unit,
        stacked=chart.stacked,
        lines=tuple(lines),
        warning=own.get("warning"),
        critical=own.get("critical"),
        hourly=hourly,
    )
