"""Watermark stalled: event time stands still, runs backwards, or never catches up while data comes in."""

from __future__ import annotations

from collections.abc import Sequence

from streamwarden.health.check import Check, Thresholds, Unit, limits
from streamwarden.health.series import reports
from streamwarden.health.settle import RECENT
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.progress import Progress
from streamwarden.units import format_duration


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How long event time has stood still or lost ground while rows came in."""
    found = reports(window)
    if not found:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report says where the watermark is")
    last = found[-1]
    if "watermark" not in (last.raw.get("eventTime") or {}) and last.watermark is None:
        return CHECK.verdict(window, Status.OK, "the query has no watermark", 0.0)
    fed = [each for each in found if each.rows > 0]
    if len(fed) < RECENT:
        return CHECK.verdict(window, Status.UNKNOWN, f"{len(fed)} batches with rows: {RECENT} are needed to judge")
    marks = [each for each in fed if each.watermark is not None]
    since = _unchanged_since(window, fed)
    still = fed[-1].at - since
    behind = _falling_behind(marks)
    back = _rewound(marks)
    limits_in_force = thresholds.of(CHECK.name)
    value = round(max(still, behind), 6)
    status = CHECK.grade(value, limits_in_force)
    if not still and not behind:
        reason = "event time advances"
    elif still >= behind:
        reason = f"the watermark has stood still for {format_duration(still)} while rows came in"
    else:
        reason = f"event time fell {format_duration(behind)} further behind: it never catches up at this speed"
    if back > 0:
        status = max(status, Status.WARNING, key=lambda each: each.rank)
        reason = f"the watermark ran back by {format_duration(back)}: old data is processed again; {reason}"
    evidence: dict[str, object] = {
        "query_id": last.query_id,
        "watermark": fed[-1].watermark,
        "unchanged_since": since,
        "stalled_s": still,
        "fell_behind_s": behind,
        "rewound_s": back,
        "batches_with_rows": len(fed),
    }
    return CHECK.verdict(window, status, f"{reason} ({CHECK.limits_text(limits_in_force)})", value, evidence)


def _unchanged_since(window: Window, fed: Sequence[Progress]) -> float:
    """When the present watermark was first seen; from the verdict before if that was earlier than the window."""
    mark = fed[-1].watermark
    since = fed[-1].at
    for each in reversed(fed):
        if each.watermark != mark:
            return since
        since = each.at
    before = window.previous.get(CHECK.name)
    if before is not None and before.evidence.get("query_id") == fed[-1].query_id:
        earlier = before.evidence.get("unchanged_since")
        if before.evidence.get("watermark") == mark and isinstance(earlier, int | float):
            return min(since, float(earlier))
    return since


def _since_rewind(marks: Sequence[Progress]) -> Sequence[Progress]:
    """The newest stretch in which the watermark only rose: a fall is a new baseline."""
    for index in range(len(marks) - 1, 0, -1):
        if (marks[index].watermark or 0.0) < (marks[index - 1].watermark or 0.0):
            return marks[index:]
    return marks


def _falling_behind(marks: Sequence[Progress]) -> float:
    """Seconds by which wall clock time gained on the watermark over the window; 0 if it rose as fast or faster."""
    marks = _since_rewind(marks)
    if len(marks) < RECENT:
        return 0.0
    wall = marks[-1].at - marks[0].at
    return max(0.0, wall - ((marks[-1].watermark or 0.0) - (marks[0].watermark or 0.0)))


def _rewound(marks: Sequence[Progress]) -> float:
    """How far the watermark is below the highest of the window."""
    if not marks:
        return 0.0
    return max(each.watermark or 0.0 for each in marks) - (marks[-1].watermark or 0.0)


CHECK = Check(
    name="watermark_stalled",
    title="Watermark stalled",
    unit=Unit.SECONDS,
    target="event time advances while rows come in",
    thresholds=limits(600.0, 3600.0, Unit.SECONDS, "time without event-time progress"),
    judge=check,
    reads=(
        "`eventTime.watermark` and `timestamp` of the reports with `numInputRows` > 0. Stalled: time since the "
        "watermark "
        "last changed while rows came in (remembered from verdict to verdict, so it may be longer than the window). "
        "Never catching up: wall time minus event time gained over the window. Rewinding: the watermark is below the "
        "highest of the window; that is a WARNING by itself, and the fall is a new baseline for the other two. "
        "Batches without "
        "rows are left out: an idle stream's watermark has no reason to move."
    ),
    unknown="Fewer than five reports have rows.",
    advice=(
        "Find the input whose event time stands still: an idle partition or source holds the watermark back (policy "
        "`min`), "
        "one event from the future makes it jump and then stand. A rewind means a restored checkpoint or a rewritten "
        "source."
    ),
    source="Design of Streamwarden.",
)
