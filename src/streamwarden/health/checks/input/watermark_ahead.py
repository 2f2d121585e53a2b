"""Watermark ahead: an event from the future moved the watermark, so every right row is dropped as late."""

from streamwarden.health.check import Check, Thresholds, ValueUnit, limits
from streamwarden.health.check_relations import WATERMARK_AHEAD
from streamwarden.health.signals.event_time import Leap, ahead_since, jump
from streamwarden.health.signals.series import reports
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_duration, format_instant

WAY_OUT = (
    "Do not lengthen the watermark delay: the rows are right, and one event is wrong. A watermark never goes back by "
    "itself, so stop the stream now: each further batch drops its rows. Then give `read_rows` a `not_after` for the "
    "column of the watermark (or filter such rows in the job), so that the event goes to the quarantine. Then either "
    "start from a copy of the checkpoint from before {batch} (`checkpoint` names the copy), or begin again with a new "
    "checkpoint path; both need a new place for the output (`sink.path`, `sink.table` or `sink.topic`), because the "
    "present one already has rows of those batches."
)
"""What to do; `{batch}` is the batch that read the event."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """How far the watermark lies ahead of the clock."""
    limits_in_force = thresholds.of(CHECK.name)
    newest = reports(window, 1)
    if not newest:
        return CHECK.verdict(window, Status.UNKNOWN, "no progress report shows the watermark")
    mark = newest[-1].watermark
    if mark is None and not newest[-1].has_watermark:
        return CHECK.not_applicable(window, "the query has no watermark", 0.0)
    if mark is None:
        return CHECK.verdict(window, Status.OK, "the query has no watermark yet", 0.0)
    value = round(max(0.0, mark - window.now), 3)
    status, shown = CHECK.grade(value, limits_in_force), CHECK.limits_text(limits_in_force)
    if status is not Status.OK and (leap := ahead_since(window, limits_in_force["warning"])) is not None:
        reason = f"the watermark is {format_duration(value)} ahead of the clock, {_since(leap)} ({shown})"
        return CHECK.verdict(window, status, reason, value, leap.evidence(), advice(leap))
    if (leap := jump(window)) is not None:
        gained = format_duration(leap.after_at - (leap.before_at or leap.after_at))
        reason = f"the watermark jumped by {gained} and stands, while rows are dropped as late, {_since(leap)}"
        return CHECK.verdict(window, Status.WARNING, reason, value, leap.evidence(), advice(leap))
    reason = f"the watermark is {_where(mark - window.now)} the clock ({shown})"
    return CHECK.verdict(window, status, reason, value)


def advice(leap: Leap) -> str:
    """The way out for this leap."""
    return WAY_OUT.format(batch="the leap" if leap.batch is None else f"batch {leap.batch}")


def _since(leap: Leap) -> str:
    mark = f"at {format_instant(leap.after_at)}"
    if leap.batch is None:
        return f"{mark}, since before the oldest batch that is known"
    event = "" if leap.event_at is None else f", which read an event of {format_instant(leap.event_at)}"
    return f"{mark}, since batch {leap.batch}{event}"


def _where(ahead: float) -> str:
    return f"{format_duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"


CHECK = Check(
    name=WATERMARK_AHEAD,
    title="Watermark ahead of the clock",
    unit=ValueUnit.SECONDS,
    target="no event from the future",
    thresholds=limits(600.0, 3600.0, ValueUnit.SECONDS, "time by which the watermark is ahead of the clock"),
    judge=check,
    raise_after=1,
    reads=(
        "`eventTime.watermark` of the newest report of a batch that ran, compared with the clock of the host that runs "
        "the check. The batch before the first one with such a watermark read the event: `eventTime.max` of its report "
        "is the event's time. The verdict remembers both when the batch leaves the window. Also a WARNING: a watermark "
        "that gained more than three hours on the clock in one batch, and ten times more than in any batch before it "
        "in the window (at least five), while it stands there and `numRowsDroppedByWatermark` counts late rows. A "
        "wrong time zone or unit does that to input whose times are behind the clock."
    ),
    unknown="No report of a batch that ran is known.",
    advice=WAY_OUT.format(batch="the leap"),
    source="Design of Streamwarden: one event of the year 2099 makes every other row late until then.",
)
