"""Watermark stalled: event time does not advance, goes backwards, or never catches up while data arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import STANDING_STILL, WATERMARK_AHEAD
from streamwarden.health.signals.freshness import HISTORY, still_holds
from streamwarden.health.signals.hysteresis import RECENT
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Probed, Window
from streamwarden.progress import Progress
from streamwarden.units import format_count, format_duration, format_list

IDLE = 2.0
"""A pause between batches with rows counts up to this many times the longer of trigger and batch: the rest was idle."""


IDLE_SOURCE = (
    "{source} holds the watermark back: until it brings an event, no window closes and no row leaves the state of the "
    "join. See whether its producer runs. If it may be silent for long, send a heartbeat event through it, or give the "
    "stream the source on its own."
)
"""What to do about a silent source of several."""


@dataclass(frozen=True, slots=True)
class _Event:
    """Event time after one more batch with rows; it goes from verdict to verdict in the evidence.

    Args:
        query_id: a new query starts a new baseline.
        at: Unix seconds of the batch; batch_s: its duration.
        watermark: Unix seconds; 0 before there was one. highest: the highest so far.
        stalled_s: busy time in which the watermark did not move.
        behind_s: busy time minus event time gained: what is still to be caught up. A negative value is what one event
            from the future has gained too early; the watermark will not move for that long.
        ahead: the newest event of the batch is later than the batch.
        batches: how many were counted.
    """

    query_id: str
    at: float
    batch_s: float
    watermark: float
    highest: float
    stalled_s: float = 0.0
    behind_s: float = 0.0
    batches: int = 1
    ahead: bool = False

    def evidence(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}

    def after(self, report: Progress, trigger: float) -> _Event:
        mark = report.watermark or 0.0
        gained = mark - self.watermark
        busy = max(0.0, min(report.at - self.at, IDLE * max(trigger, self.batch_s)))
        lowest = float("-inf") if self.ahead else min(0.0, self.behind_s)
        return _Event(
            query_id=self.query_id,
            at=report.at,
            batch_s=report.duration_ms / 1000,
            watermark=mark,
            highest=max(self.highest, mark),
            stalled_s=self.stalled_s + busy if gained == 0 else 0.0,
            behind_s=max(lowest, self.behind_s + busy - gained) if gained >= 0 else 0.0,
            batches=self.batches + 1,
            ahead=_is_ahead(report),
        )


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long event time has not moved or has fallen behind while rows arrived."""
    newest = reports(window, 1)
    if not newest:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report shows the watermark")
    if newest[-1].watermark is None and not newest[-1].has_watermark:
        return CHECK.not_applicable(window, "the query has no watermark", 0.0)
    event = _event_time(window, newest[-1].query_id)
    if event is None or event.batches < RECENT:
        batches = 0 if event is None else event.batches
        evidence = None if event is None else event.evidence()
        reason = f"{format_count(batches, 'batch')} with rows; a verdict needs {RECENT}"
        return CHECK.verdict(window, Status.UNKNOWN, reason, None, evidence)
    return still_holds(window, thresholds, _judged(window, event, thresholds.of(CHECK.name)))


def _judged(window: Window, event: _Event, limits_in_force: Mapping[str, float]) -> Verdict:
    value = round(max(event.stalled_s, event.behind_s, 0.0), 6)
    status = CHECK.grade(value, limits_in_force)
    if not value:
        reason = "event time advances"
    elif event.stalled_s >= event.behind_s:
        reason = f"the watermark has not moved for {format_duration(event.stalled_s)} while rows arrived"
    else:
        reason = f"event time has fallen behind by {format_duration(event.behind_s)} and does not catch up"
    back = event.highest - event.watermark
    if back > 0:
        status = max(status, Status.WARNING, key=lambda grade: grade.rank)
        reason = f"the watermark went back by {format_duration(back)}: old data is processed again; {reason}"
    idle = _idle_sources(window, event) if value else []
    if idle:
        reason = f"{reason}; {_named(idle)} no row since then, and the slowest source decides (policy `min`)"
    reason = f"{reason} ({CHECK.limits_text(limits_in_force)})"
    advice = IDLE_SOURCE.format(source=format_list(idle)) if idle and not back else None
    return CHECK.verdict(window, status, reason, value, event.evidence(), advice)


def _named(idle: Sequence[str]) -> str:
    return f"{format_list(idle)} {'has' if len(idle) == 1 else 'have'} brought"


def _idle_sources(window: Window, event: _Event) -> list[str]:
    """The sources of several that brought no row while the watermark stood, as Spark describes them; empty if all did,
    or none."""
    marked = [report for report in reports(window, len(window.batches)) if (report.watermark or 0.0) == event.watermark]
    stood = [report.sources for report in marked if report.rows > 0][1:]  # the first may have moved it
    if len(stood) < RECENT - 1 or len(stood[-1]) < 2:
        return []
    names = [source.description for source in stood[-1]]
    fed = {index for sources in stood for index, source in enumerate(sources) if source.rows > 0}
    return [name for index, name in enumerate(names) if index not in fed] if fed else []


def _event_time(window: Window, query_id: str) -> _Event | None:
    """Event time after the window's newest batch with rows, carried on from the last verdict if it is of this query."""
    event = _remembered(window, query_id)
    fed: list[Progress] = []
    for batch in reversed(window.batches):
        report = batch.progress
        if report is None or report.query_id != query_id or not report.has_run:
            continue
        if event is not None and report.at <= event.at:
            break
        if report.rows > 0:
            fed.append(report)
    trigger = window.spec.trigger.interval or 0.0
    for report in reversed(fed):
        if event is None:
            mark = report.watermark or 0.0
            event = _Event(query_id, report.at, report.duration_ms / 1000, mark, mark, ahead=_is_ahead(report))
        else:
            event = event.after(report, trigger)
    return event


def _is_ahead(report: Progress) -> bool:
    """Whether an event is later than the batch that read it: the watermark jumps and then stays until that time."""
    return (report.event_time_max or 0.0) > report.at + report.duration_ms / 1000


def _remembered(window: Window, query_id: str) -> _Event | None:
    before = window.previous.get(CHECK.name)
    if before is None or before.evidence.get("query_id") != query_id:
        return None
    try:
        return _Event(**before.evidence)  # type: ignore[arg-type]
    except TypeError:  # written by another version of this check
        return None


CHECK = Check(
    name="watermark_stalled",
    title="Watermark stalled",
    unit=ValueUnit.SECONDS,
    target="event time advances while rows arrive",
    thresholds=limits(600.0, 3600.0, ValueUnit.SECONDS, "time without event-time progress"),
    judge=check,
    probes=frozenset({Probed.WAITING}),
    consequence_of=(*STANDING_STILL, WATERMARK_AHEAD),
    while_running=True,
    reads=(
        "`eventTime.watermark`, `timestamp` and `batchDuration` of the reports with `numInputRows` > 0, in order. The "
        "result passes from verdict to verdict in the evidence, so it may cover more than the window. Stalled: busy "
        "time since the watermark last changed. Never catching up: busy time minus event time gained, not below 0, "
        "since the query started. An event from the future (`eventTime.max` after the batch) gains too early; that is "
        "subtracted from the time in which the watermark then does not move. Rewinding: the watermark is below its "
        "highest value; that is always at least a WARNING, and the fall is a new baseline for the other two. Busy time "
        "is the time between two batches with rows, each pause counted up to twice the longer of trigger and batch, "
        "because the watermark of an idle stream has no reason to move. Of several sources (`sources[].numInputRows`), "
        "those are named that brought no row while the watermark stood."
    ),
    unknown=f"Fewer than five reports have rows. {HISTORY}",
    advice=(
        "Find the input whose event time does not advance: an idle partition or source holds the watermark back "
        "(policy `min`), and one event from the future makes it jump and then stay. A rewind means a restored "
        "checkpoint or a rewritten source."
    ),
    source="Design of Streamwarden.",
)
