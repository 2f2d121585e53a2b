"""Every metric that is exported, declared once: `/metrics`, its reference page, the alert rules and the test of the
dashboard all read these declarations.

Names follow Prometheus: the unit is the suffix, in base units (bytes, seconds, a ratio of 1).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

from streamwarden.drills.records.journal import DrillStatus
from streamwarden.health.check import Check, ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.health.verdict import Status
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.status import State

PREFIX: Final = "streamwarden"
LABELS: Final = ("stream", "query")
"""Labels of every metric of a stream. `query` is empty for the stream itself, and names one query of several."""

_SUFFIX: Final = {ValueUnit.BYTES: "bytes", ValueUnit.SECONDS: "seconds", ValueUnit.SHARE: "ratio"}
"""Unit of a check -> the suffix of its metric; a count, or a multiple of something, has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of each stream.

    Args:
        value: the number of a row at a time (Unix seconds); None leaves the stream out of this metric.
        counter: the number only grows, except that it starts again with a new checkpoint.
        of_queries: a query of several has its own number.
    """

    name: str
    help: str
    value: Callable[[StreamRow, float], float | None]
    counter: bool = False
    of_queries: bool = True

    @property
    def sample(self) -> str:
        """The name in an expression."""
        return f"{self.name}_total" if self.counter else self.name

    @property
    def unit(self) -> str:
        return unit_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSet:
    """A state metric with a few possible words: one series for each word, 1 for the one that is true.

    The label that holds the word has the name of the metric, as OpenMetrics wants it.

    Args:
        word: of a row; None leaves the stream out.
    """

    name: str
    help: str
    words: tuple[str, ...]
    word: Callable[[StreamRow], str | None]
    of_queries: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many things of a stream there are of each kind: one series for each kind, also if there are none.

    Args:
        label: the name of the label that holds the kind; kinds: its values.
        counts: of a row; a kind that is not there counts 0.
    """

    name: str
    help: str
    label: str
    kinds: tuple[str, ...]
    counts: Callable[[StreamRow], Mapping[Status, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """One number without labels."""

    name: str
    help: str

    @property
    def unit(self) -> str:
        return unit_of(self.name)


def unit_of(name: str) -> str:
    """The base unit, which is the suffix of a metric's name; empty: a count or a rate."""
    suffix = name.rpartition("_")[2]
    return suffix if suffix in _SUFFIX.values() else ""


def check_metric(check: Check) -> Metric:
    """The value that the newest verdict of `check` judged, in the base unit of the check."""
    unit = _SUFFIX.get(check.unit, "")
    return Metric(
        name="_".join(part for part in (PREFIX, check.name, unit) if part),
        help=f"What the check {check.name} judged. Target: {check.target}",
        value=partial(_judged, check.name),
    )


def _judged(check: str, row: StreamRow, now: float) -> float | None:
    """A value that no recent evaluation renewed does not describe the stream."""
    return None if row.stale else row.value(check)


def _age(at: float | None, now: float) -> float | None:
    return None if at is None else max(0.0, now - at)


def _drill_age(row: StreamRow, now: float) -> float | None:
    drill = row.last_drill
    return None if drill is None else _age(drill.ended_at or drill.started_at, now)


FORECAST: Final = "state_growth"
"""The check whose value is only a forecast while the state grows clearly: it has a metric of its own."""

CHECK_METRICS: Final = {check.name: check_metric(check) for check in CHECKS if check.name != FORECAST}

METRICS: Final = (
    Metric(
        name="streamwarden_up",
        help="1 while the query runs, 0 otherwise, also if the stream was stopped on purpose",
        value=lambda row, now: float(row.state == "running"),
    ),
    Metric(
        name="streamwarden_input_rows_per_second",
        help="Input rows per second, over the last five minutes",
        value=lambda row, now: row.rows_in_per_second,
    ),
    Metric(
        name="streamwarden_processed_rows_per_second",
        help="Input rows divided by the time that their batches took: what the stream could process",
        value=lambda row, now: row.rows_processed_per_second,
    ),
    Metric(
        name="streamwarden_batches",
        help="Committed batches of the present checkpoint: the id of the newest one plus 1",
        value=lambda row, now: None if row.batch_id is None else row.batch_id + 1.0,
        counter=True,
    ),
    Metric(
        name="streamwarden_batch_id",
        help="Id of the newest committed batch",
        value=lambda row, now: row.batch_id,
    ),
    Metric(
        name="streamwarden_batch_age_seconds",
        help="Time since the newest batch was committed",
        value=lambda row, now: _age(row.batch_at, now),
    ),
    Metric(
        name="streamwarden_batch_duration_seconds",
        help="How long the newest batch took",
        value=lambda row, now: row.batch_seconds,
    ),
    Metric(
        name="streamwarden_trigger_interval_seconds",
        help="Time from the start of a batch to that of the next; left out if each starts when the one before is done",
        value=lambda row, now: row.trigger_seconds,
    ),
    Metric(
        name="streamwarden_state_critical_in_seconds",
        help="Time until the state reaches state_size.critical; left out unless it grows clearly",
        value=lambda row, now: None if row.stale else row.forecast.seconds,
    ),
    Metric(
        name="streamwarden_acknowledged_incidents",
        help="Those of the open incidents that a person takes care of",
        value=lambda row, now: row.acknowledged_incidents,
    ),
    Metric(
        name="streamwarden_muted_incidents",
        help="Those of the open incidents of which nothing is sent",
        value=lambda row, now: row.muted_incidents,
    ),
    Metric(
        name="streamwarden_muted",
        help="1 while the whole stream is muted or in maintenance, 0 otherwise",
        value=lambda row, now: float(bool(row.muted)),
    ),
    Metric(
        name="streamwarden_uptime_seconds",
        help="Time since the query, or else its driver, started; a new start, and so a deployment, resets it",
        value=lambda row, now: _age(row.since, now),
    ),
    Metric(
        name="streamwarden_watermark_lag_seconds",
        help="How far the watermark is behind the clock; negative: it is ahead; left out without a watermark",
        value=lambda row, now: None if row.watermark is None else now - row.watermark,
    ),
    Metric(
        name="streamwarden_restarts_last_day",
        help="Launches of the driver after a crash, in the last 24 hours",
        value=lambda row, now: row.restarts,
        of_queries=False,
    ),
    Metric(
        name="streamwarden_evaluation_age_seconds",
        help="Time since the stream was judged last",
        value=lambda row, now: _age(row.judged_at, now),
    ),
    Metric(
        name="streamwarden_drill_age_seconds",
        help="Time since the newest drill ended, or began if it still runs",
        value=_drill_age,
        of_queries=False,
    ),
    *CHECK_METRICS.values(),
)

STATE_SETS: Final = (
    StateSet(
        name="streamwarden_stream_state",
        help="State of the stream, as `streamwarden status` shows it",
        words=get_args(State),
        word=lambda row: row.state,
    ),
    StateSet(
        name="streamwarden_stream_health",
        help="Worst of the stream's state, its checks, its open incidents and its newest drill",
        words=tuple(status for status in Status if status is not Status.ADVICE),
        word=lambda row: row.health,
    ),
    StateSet(
        name="streamwarden_drill_verdict",
        help="Verdict of the newest drill",
        words=("PASSED", "DEVIATED", *(status.value.upper() for status in DrillStatus if status.value != "completed")),
        word=lambda row: None if row.last_drill is None else row.last_drill.verdict,
        of_queries=False,
    ),
)

COUNTS: Final = (
    Counts(
        name="streamwarden_open_incidents",
        help="Open incidents that are not consequences of others, by their status",
        label="status",
        kinds=(Status.WARNING, Status.CRITICAL),
        counts=lambda row: row.incidents_by_status,
    ),
)

CHECK_STATUS: Final = Single(
    name="streamwarden_check_status",
    help="Newest verdict of each check (label check) that applies: 0 OK, 1 UNKNOWN (no data), 2 WARNING, 3 CRITICAL",
)
STREAM_INFO: Final = Single(
    name="streamwarden_stream_info",
    help="1 for each stream and query, with the id of its DAG and its owner as labels",
)
ROUND_AGE: Final = Single(
    name="streamwarden_round_age_seconds",
    help="Time since all streams were judged last; left out for a user who may not read the DAG health",
)
ROWS_AGE: Final = Single(
    name="streamwarden_rows_age_seconds",
    help="Age of the numbers of this scrape: the API server reads them from the store",
)
FAILURES: Final = Single(
    name="streamwarden_scrape_failures",
    help="1 if the store could not be read for this scrape; the metrics of streams are then left out",
)

SINGLES: Final = (CHECK_STATUS, STREAM_INFO, ROUND_AGE, ROWS_AGE, FAILURES)


def names() -> frozenset[str]:
    """Every name that an expression may use."""
    return frozenset(
        {metric.sample for metric in METRICS} | {metric.name for metric in (*STATE_SETS, *COUNTS, *SINGLES)}
    )
