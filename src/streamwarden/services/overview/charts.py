"""The charts of a stream: each is declared here once, with how its values come from the batches' reports.

As far back as batches are kept (about seven days), a line is drawn from them, evenly sampled. Before that time it is
drawn from the hourly roll-ups. So a line of 90 days ends in fine points.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.adapters.store.history.rollup import Rolled
from streamwarden.health.signals import series
from streamwarden.health.signals.partitions import LARGEST, MEDIAN, SMALLEST
from streamwarden.health.thresholds import Thresholds
from streamwarden.progress import OperatorProgress, Progress
from streamwarden.services.overview import rolled
from streamwarden.services.overview.models import Model, attributes
from streamwarden.services.overview.parts import Parts, by_operator, lag_by_partition, lines_of, rows_written
from streamwarden.services.overview.rolled import Numbers, OfHours
from streamwarden.stream.spec import StreamSpec

POINTS: Final = 240
"""Points of a line at most: more than a chart has room for takes time and shows nothing. A line that
begins in the time whose batches are not kept any more has half of them for that time."""

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
    hourly_until: float | None
    """Unix seconds: values before it are means of an hour or of several, because these batches are not kept any more;
    None: there is no such value"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of one line's values: the reports of batches or else a measurement, and `of_hours` for the time in
    which neither is kept any more."""

    name: str
    of_hours: OfHours
    of_reports: Values | None = None
    measurement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """The declaration of a chart.

    Args:
        check: the check whose limits are drawn in it.
        parts: a line for each part that the reports name, beside `lines`. It ends where batches are not kept any more.
    """

    name: str
    title: str
    unit: str
    lines: tuple[Source, ...] = ()
    check: str | None = None
    stacked: bool = False
    parts: Parts | None = None


def _of(read: Callable[[Progress], float | None]) -> Values:
    return lambda _, reports: [read(report) for report in reports]


def _measurement(name: str, measurement: str) -> Source:
    return Source(name=name, measurement=measurement, of_hours=rolled.mean(measurement))


def _milliseconds(name: str, read: Callable[[Progress], float], total: Rolled) -> Source:
    """The source of a line in seconds whose reports and roll-ups are in milliseconds."""
    return Source(
        name=name, of_reports=_of(lambda report: read(report) / 1000), of_hours=rolled.mean(total, scale=0.001)
    )


def _state_commit(spec: StreamSpec, reports: Sequence[Progress]) -> list[float]:
    return series.wall_times(spec, reports, "commit_ms")


def _processing(spec: StreamSpec, reports: Sequence[Progress]) -> list[float]:
    commits = _state_commit(spec, reports)
    return [report.execution_ms / 1000 - commit for report, commit in zip(reports, commits, strict=True)]


def _latency(report: Progress) -> float | None:
    latencies = [
        operator.update_ms / operator.rows_updated / 1000 for operator in report.operators if operator.rows_updated
    ]
    return max(latencies, default=None)


def _lag(report: Progress) -> float | None:
    return None if report.watermark is None else report.at - report.watermark


def _by_operator(name: str, title: str, unit: str, read: Callable[[OperatorProgress], float]) -> Chart:
    return Chart(name=f"operator_{name}", title=title, unit=unit, parts=by_operator(read))


CHARTS: Final = (
    Chart(
        name="backlog",
        title="Backlog",
        unit="seconds",
        check="backlog",
        lines=(_measurement("work that waits", series.BACKLOG_SECONDS),),
    ),
    Chart(
        name="rates",
        title="Rows a second",
        unit="rows/s",
        lines=(
            Source(name="in", of_reports=_of(lambda report: report.input_rows_per_second), of_hours=rolled.rows_in),
            Source(
                name="processed",
                of_reports=_of(lambda report: report.processed_rows_per_second),
                of_hours=rolled.rows_processed,
            ),
        ),
    ),
    Chart(
        name="state_size",
        title="State size",
        unit="bytes",
        check="state_size",
        lines=(
            Source(
                name="state",
                of_reports=lambda _, reports: [float(size) for _, size in series.state_bytes(reports)],
                of_hours=rolled.mean(series.STATE_BYTES),
            ),
        ),
    ),
    Chart(
        name="batch_time",
        title="Where a batch spends its time",
        unit="seconds",
        stacked=True,
        lines=(
            _milliseconds("planning", lambda report: report.planning_ms, Rolled.PLANNING),
            Source(name="processing and sink", of_reports=_processing, of_hours=rolled.processing),
            Source(name="state commit", of_reports=_state_commit, of_hours=rolled.state_commit),
            _milliseconds("logs", lambda report: report.logs_ms, Rolled.LOGS),
        ),
    ),
    Chart(
        name="state_partitions",
        title="State by partition",
        unit="bytes",
        lines=(
            _measurement("largest", LARGEST),
            _measurement("median", MEDIAN),
            _measurement("smallest", SMALLEST),
        ),
    ),
    Chart(
        name="checkpoint_duration",
        title="Checkpoint duration",
        unit="seconds",
        check="checkpoint_duration",
        lines=(Source(name="checkpoint", of_reports=series.checkpoint_seconds, of_hours=rolled.checkpoint),),
    ),
    Chart(
        name="state_update_latency",
        title="State update latency",
        unit="seconds",
        check="state_update_latency",
        lines=(
            Source(
                name="per updated row", of_reports=_of(_latency), of_hours=rolled.mean(Rolled.STATE_UPDATE, scale=0.001)
            ),
        ),
    ),
    Chart(
        name="state_cleanup_time",
        title="State cleanup time",
        unit="seconds",
        check="state_cleanup_time",
        lines=(
            Source(
                name="cleanup",
                of_reports=lambda spec, reports: series.wall_times(spec, reports, "removal_ms"),
                of_hours=rolled.cleanup,
            ),
        ),
    ),
    Chart(
        name="memory_usage",
        title="Memory without state",
        unit="bytes",
        check="memory_usage",
        lines=(_measurement("memory", series.MEMORY_BYTES),),
    ),
    Chart(
        name="watermark_lag",
        title="Watermark behind the clock",
        unit="seconds",
        lines=(Source(name="lag", of_reports=_of(_lag), of_hours=rolled.mean(Rolled.WATERMARK_LAG)),),
    ),
    Chart(
        name="batch_duration",
        title="Batch duration",
        unit="seconds",
        lines=(_milliseconds("batch", lambda report: report.duration_ms, Rolled.DURATION),),
    ),
    Chart(
        name="state_rows",
        title="Rows of state",
        unit="rows",
        lines=(
            Source(
                name="rows",
                of_reports=_of(lambda report: float(sum(operator.rows_total for operator in report.operators))),
                of_hours=rolled.mean(Rolled.STATE_ROWS),
            ),
        ),
    ),
    _by_operator("rows", "Rows of state by operator", "rows", lambda each: each.rows_total),
    _by_operator("updates", "Rows of state updated in a batch", "rows", lambda each: each.rows_updated),
    _by_operator("removals", "Rows of state removed in a batch", "rows", lambda each: each.rows_removed),
    _by_operator("dropped", "Rows dropped as late in a batch", "rows", lambda each: each.rows_dropped_by_watermark),
    _by_operator("memory", "Memory of the state by operator", "bytes", lambda each: each.memory_used_bytes),
    Chart(name="partition_lag", title="Lag by partition", unit="rows", parts=lag_by_partition),
    Chart(name="rows_written", title="Rows written in a batch", unit="rows", parts=rows_written),
)


FIRST: Final = tuple(chart.name for chart in CHARTS[:4])
"""The charts that say whether a stream keeps up and will hold."""

_MEASURED: Final = tuple(line.measurement for chart in CHARTS for line in chart.lines if line.measurement)
_ROLLED: Final = (*rolled.NAMES, *_MEASURED)

_SHOWS: Final = {
    **{chart.check: chart.name for chart in CHARTS if chart.check},
    "batch_longer_than_trigger": "batch_time",
    "topic_lag": "backlog",
    "watermark_ahead": "watermark_lag",
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
    store: Store, spec: StreamSpec, thresholds: Thresholds, since: float, until: float
) -> tuple[ChartData, ...]:
    """Every chart of a stream or query from `since` to `until` (Unix seconds). Raises StoreError."""
    kept = min(until, max(since, store.measurements.kept_since()))
    points = POINTS if kept in (since, until) else POINTS // 2
    old = store.measurements.condensed(spec.name, _ROLLED, since, kept, points) if since < kept else {}
    reports, measured = _reports(store, spec, kept, until, points), _measured(store, spec, kept, until, points)
    limits = thresholds.with_overrides(spec.health.thresholds)
    charts = []
    for chart in CHARTS:
        at, before = _of_hours(chart, spec, old)
        recent = [_recent(line, spec, reports, measured) for line in chart.lines]
        lines = [
            Line(name=new.name, at=(*at, *new.at), values=(*values, *new.values))
            for values, new in zip(before, recent, strict=True)
        ]
        lines += _of_parts(chart, reports)
        own = limits.of(chart.check) if chart.check else {}
        shown = attributes(chart) | {"lines": tuple(lines), "hourly_until": kept if at else None}
        charts.append(ChartData(**shown, warning=own.get("warning"), critical=own.get("critical")))
    return tuple(charts)


def _of_parts(chart: Chart, reports: Sequence[Progress]) -> list[Line]:
    at = tuple(report.at for report in reports)
    found = lines_of(chart.parts, reports) if chart.parts is not None else ()
    return [Line(name=name, at=at, values=tuple(values)) for name, values in found]


def _reports(store: Store, spec: StreamSpec, since: float, until: float, points: int) -> list[Progress]:
    if since >= until:
        return []
    batches = store.batches.sampled(spec.name, since, until, points)
    return [batch.progress for batch in batches if batch.progress is not None]


def _of_hours(
    chart: Chart, spec: StreamSpec, old: Mapping[float, Numbers]
) -> tuple[list[float], list[list[float | None]]]:
    """The times at which any line of the chart has a value, and the values of each line at these times."""
    rows = [(at, [line.of_hours(spec, numbers) for line in chart.lines]) for at, numbers in old.items()]
    valued = [(at, values) for at, values in rows if any(value is not None for value in values)]
    return [at for at, _ in valued], [[values[index] for _, values in valued] for index in range(len(chart.lines))]


def _measured(
    store: Store, spec: StreamSpec, since: float, until: float, points: int
) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Name of each measurement that has a line -> (Unix time, value)."""
    if since >= until:
        return {}
    sampled = store.measurements.sampled([(spec.name, name) for name in _MEASURED], since, until, points)
    return {name: values for (_, name), values in sampled.items()}


def _recent(
    line: Source,
    spec: StreamSpec,
    reports: Sequence[Progress],
    measured: Mapping[str, Sequence[tuple[float, float]]],
) -> Line:
    if line.of_reports is not None:
        values = line.of_reports(spec, reports)
        return Line(name=line.name, at=tuple(report.at for report in reports), values=tuple(values))
    points = measured.get(line.measurement, ())
    return Line(name=line.name, at=tuple(at for at, _ in points), values=tuple(value for _, value in points))
