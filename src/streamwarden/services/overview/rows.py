"""One row for each stream and query, with everything that the fleet page, the API and the metrics show of it.

The models are the API's: a field that is renamed or removed needs a new version of the API. Times are Unix seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from pydantic import ConfigDict, computed_field
from pydantic.dataclasses import dataclass as validated

from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.health.check import Check, ValueUnit
from streamwarden.health.checks import CHECKS
from streamwarden.health.shown_verdicts import current_health
from streamwarden.health.thresholds import Thresholds
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.queries import SEPARATOR, Part, owner, stream_parts
from streamwarden.lifecycle.supervision.after_exit import FollowUp, follow_up
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import Desired
from streamwarden.services.overview.facts import FleetFacts
from streamwarden.services.overview.models import Model, Text, attributes, derived
from streamwarden.services.overview.order import rank
from streamwarden.services.overview.status import StreamStatus
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_duration, format_size

_CHECKS: Final = {check.name: check for check in CHECKS}
_UNITS: Final = frozenset(ValueUnit)
Trend = tuple[tuple[float, float], ...]

_GROWING: Final = "growth_span_s"
"""Only the evidence of clear growth has it."""


class Judgement(StrEnum):
    """The status of a check of one stream."""

    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"
    NOT_APPLICABLE = "NOT_APPLICABLE"  # there is nothing that it could judge, as the state of a query that keeps none

    @classmethod
    def of(cls, verdict: Verdict) -> "Judgement":
        return cls.NOT_APPLICABLE if verdict.status is Status.OK and not verdict.applies else cls(verdict.status.value)

    @property
    def alarms(self) -> bool:
        return self in (Judgement.WARNING, Judgement.CRITICAL)

    @property
    def rank(self) -> int:
        """As that of `Status`."""
        return 0 if self is Judgement.NOT_APPLICABLE else Status(self.value).rank


class Metric(Model):
    """The newest verdict of one check."""

    check: str
    title: str
    status: Judgement
    value: float | None
    """in `unit`; None if there is none, and if the check does not apply"""
    unit: str
    shown: str
    """`value` for a person"""
    limits: str
    """the two thresholds in force"""
    share: float | None = None
    """`value` by the critical threshold: 1 at the threshold. None without a value, and for a check to which less is
    worse"""
    reason: Text
    advice: Text
    at: float
    """when the check judged the stream"""


MadeMetrics = dict[int, tuple["Verdict", Mapping[str, float], Metric]]
"""Identity of a verdict -> the verdict, the thresholds, and the metric that was made of them. Verdicts are read again
once a minute, rows once a second."""


class Growth(StrEnum):
    """How the state of a stream grows."""

    GROWING = "GROWING"
    REACHED = "REACHED"  # it is as large as the limit, or larger
    STEADY = "STEADY"  # it does not grow, or too slowly to matter
    UNKNOWN = "UNKNOWN"  # it was not judged lately, has too little history, or no clear trend
    NOT_APPLICABLE = "NOT_APPLICABLE"  # the query keeps no state


class Forecast(Model):
    """Growth of the state."""

    sentence: Text
    status: Growth
    seconds: float | None
    """until the state reaches `limit_bytes` at the present growth; None unless it grows clearly or has reached it"""
    limit_bytes: float
    """`state_size.critical`, as it is in force for the stream"""
    bytes_per_hour: float | None = None
    """the present growth; None unless it grows clearly"""


class DrillResult(Model):
    """The newest drill of a stream."""

    run_id: str
    drill: str
    verdict: str
    """PASSED, DEVIATED, ABORTED, FAILED or RUNNING"""
    started_at: float
    ended_at: float | None


@derived(FollowUp)
class AfterExit(Model):
    """Follow-up of a stream that is down."""

    reason: Text
    """why"""
    next_step: Text
    """what a person should do, empty if nothing"""


_SHOWN: Final = ConfigDict(use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)


@validated(frozen=True, kw_only=True, config=_SHOWN)
class StreamRow(StreamStatus):
    """One stream, or one query of several (`STREAM/QUERY`)."""

    dag_id: str
    owner: Text = ""
    tags: tuple[Text, ...] = ()
    description: Text = ""
    sentence: Text = ""
    """the state in words: who stopped it, why it ended"""
    after_exit: AfterExit | None = None
    """None unless it is down"""
    rows_processed_per_second: float | None = None
    """input rows divided by the time that their batches took: what the stream could process"""
    batch_seconds: float | None = None
    trigger_seconds: float | None = None
    """None: each batch starts when the one before is done"""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """check -> its newest verdict"""
    forecast: Forecast
    last_drill: DrillResult | None = None
    """also while it runs"""
    ended_drill: DrillResult | None = None
    """the newest that has ended, and so has a verdict"""
    last_crash: Text = ""
    """how the driver ended whose crash a restart cured last, in those 24 hours"""
    restarted_at: float | None = None
    """when its driver was launched again"""
    state_trend: Trend = ()
    """(time, bytes of state), evenly over the last 24 hours; of a stream that is hours old over the last hour"""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorator above a property
    @cached_property
    def in_trouble(self) -> bool:
        return super().in_trouble

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorator above a property
    @cached_property
    def trouble(self) -> int:
        """Place in the order of trouble; 0 is the worst."""
        return rank(self)

    @property
    def is_query(self) -> bool:
        return SEPARATOR in self.stream

    def value(self, check: str) -> float | None:
        metric = self.metrics.get(check)
        return None if metric is None else metric.value


def stream_rows(
    statuses: Sequence[StreamStatus],
    facts: FleetFacts,
    *,
    thresholds: Thresholds,
    paused: Mapping[str, bool],
    trends: Mapping[str, Trend],
    made: MadeMetrics | None = None,
) -> tuple[StreamRow, ...]:
    """One row for each status, in the same order.

    Args:
        paused: id of a DAG -> whether it is paused, as far as that is known.
        trends: stream or query -> its state size over time, see `StreamRow.state_trend`.
        made: the metrics of earlier calls, of which those of the same verdicts are taken again.
    """
    specs, made = _specs(facts), {} if made is None else made
    return tuple(_row(status, facts, specs.get(status.stream), thresholds, paused, trends, made) for status in statuses)


def _specs(facts: FleetFacts) -> dict[str, StreamSpec]:
    """Stream or query -> its spec, with the trigger that its query has."""
    return {
        part.spec.name: part.spec
        for name, spec in facts.catalog.streams.items()
        if name in facts.queries
        for part in stream_parts(spec, facts.queries[name], facts.now)
        if part.part is not Part.DRIVER or part.spec.name == name
    }


def _row(
    status: StreamStatus,
    facts: FleetFacts,
    spec: StreamSpec | None,
    thresholds: Thresholds,
    paused: Mapping[str, bool],
    trends: Mapping[str, Trend],
    made: MadeMetrics,
) -> StreamRow:
    name, stream = status.stream, owner(status.stream)
    newest, flow = facts.newest.get(name), facts.flows.get(name)
    limits = thresholds if spec is None else thresholds.with_overrides(spec.health.thresholds)
    stopped = stream in facts.wanted and facts.wanted[stream].desired is Desired.STOPPED
    health = current_health(facts.verdicts.get(name, ()), facts.now, stopped=stopped)
    metrics = {verdict.check: metric(verdict, limits, made) for verdict in health.verdicts}
    dag_id = f"stream_{stream}"
    return StreamRow(
        **attributes(status),
        dag_id=dag_id,
        owner=spec.owner if spec else "",
        tags=spec.tags if spec else (),
        description=spec.description if spec else "",
        sentence=_sentence(status, facts),
        after_exit=_after_exit(status, facts, spec, paused.get(dag_id)) if status.state == "down" else None,
        rows_processed_per_second=flow.rows / flow.busy if flow and flow.busy else None,
        batch_seconds=newest.seconds if newest else None,
        trigger_seconds=spec.trigger.interval if spec else None,
        metrics=metrics,
        forecast=forecast(health.verdicts, limits),
        last_drill=_result(facts.drills.get(stream)),
        ended_drill=_result(facts.ended_drills.get(stream)),
        last_crash=describe(status.cured.exit) if status.cured else "",
        restarted_at=status.cured.restarted_at if status.cured else None,
        state_trend=trends.get(name, ()),
    )


def _result(run: DrillRun | None) -> DrillResult | None:
    return None if run is None else DrillResult(**attributes(run), verdict=verdict_word(run))


def _sentence(status: StreamStatus, facts: FleetFacts) -> str:
    wanted = facts.wanted.get(owner(status.stream))
    if status.state == "stopped" and wanted is not None:
        return f"stopped by {wanted.changed_by}: {wanted.reason}"
    return status.problem


def _after_exit(
    status: StreamStatus, facts: FleetFacts, spec: StreamSpec | None, paused: bool | None
) -> AfterExit | None:
    """The driver may have ended after the facts were read: then only the status has its exit."""
    if spec is None:
        return None
    stream = owner(status.stream)
    *earlier, last = facts.drivers[stream] or [facts.latest[stream]]
    history = [*earlier, replace(last, exit=last.exit or status.last_exit)]
    after = follow_up(
        history,
        facts.events,
        state=facts.wanted.get(stream),
        policy=spec.restart,
        paused=paused,
        now=facts.now,
    )
    return None if after is None else AfterExit.model_validate(after)


def metric(verdict: Verdict, thresholds: Thresholds, made: MadeMetrics) -> Metric:
    """The verdict with the thresholds in force; the same one as before if neither has changed."""
    check = _CHECKS.get(verdict.check)
    limits = thresholds.of(check.name) if check else {}
    cached = made.get(id(verdict))
    if cached is None or cached[0] is not verdict or cached[1] != limits:
        cached = made[id(verdict)] = verdict, limits, _made(verdict, check, limits)
    return cached[2]


def _made(verdict: Verdict, check: Check | None, limits: Mapping[str, float]) -> Metric:
    near = [limits[name] for name in ("warning", "critical") if name in limits]
    status = Judgement.of(verdict)
    value = None if status is Judgement.NOT_APPLICABLE else verdict.value
    return Metric(
        check=verdict.check,
        title=check.title if check else verdict.check,
        status=status,
        value=value,
        unit=verdict.unit,
        shown=ValueUnit(verdict.unit).show_beside(near, value) if value is not None and verdict.unit in _UNITS else "",
        limits=check.limits_text(limits) if check else "",
        share=_share(value, check, limits),
        reason=verdict.reason,
        advice=verdict.advice,
        at=verdict.at,
    )


def _share(value: float | None, check: Check | None, limits: Mapping[str, float]) -> float | None:
    if value is None or check is None or not check.more_is_worse or limits["critical"] <= 0:
        return None
    return value / limits["critical"]


def forecast(verdicts: Sequence[Verdict], thresholds: Thresholds) -> Forecast:
    """The forecast from the verdict on the growth of the state."""
    verdict = next((candidate for candidate in verdicts if candidate.check == "state_growth"), None)
    limit = thresholds.of("state_size")["critical"]
    growth, sentence = _growth(verdict), "" if verdict is None else _growth_words(verdict, format_size(limit))
    known = verdict is not None and growth in (Growth.GROWING, Growth.REACHED)
    return Forecast(
        sentence=sentence,
        status=growth,
        seconds=verdict.value if verdict is not None and known else None,
        limit_bytes=limit,
        bytes_per_hour=_number(verdict, "bytes_per_hour") if growth is Growth.GROWING else None,
    )


def _growth(verdict: Verdict | None) -> Growth:
    if verdict is None or verdict.status is Status.UNKNOWN:
        return Growth.UNKNOWN
    if not verdict.applies:
        return Growth.NOT_APPLICABLE
    if verdict.value == 0:
        return Growth.REACHED
    return Growth.STEADY if verdict.value is None or _GROWING not in verdict.evidence else Growth.GROWING


def _growth_words(verdict: Verdict, limit: str) -> str:
    growth = _growth(verdict)
    if growth is Growth.UNKNOWN:
        return verdict.reason
    if growth is Growth.REACHED:
        return f"has reached {limit}"
    return (
        f"reaches {limit} in {format_duration(verdict.value or 0.0)}" if growth is Growth.GROWING else "does not grow"
    )


def _number(verdict: Verdict | None, name: str) -> float | None:
    value = None if verdict is None else verdict.evidence.get(name)
    return float(value) if isinstance(value, int | float) else None
