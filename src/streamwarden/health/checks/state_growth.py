"""State growth: the time until the state reaches each threshold of its size, with the forecast's confidence."""

from __future__ import annotations

from collections.abc import Mapping

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.forecast import MOST, Trend, coarse, seconds_until, since_reset, theil_sen
from streamwarden.health.freshness import is_recent
from streamwarden.health.series import reports, sample, state_bytes
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_duration, format_size

POINTS = 8
"""Fewer points than this give no reliable trend."""
HALF = MOST // 2
"""Points that come from the reports; the rest are medians of the hourly numbers."""
HOURLY = "state_bytes"
"""The measurement that the health monitor writes with each evaluation; the store rolls it up by the hour."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Time left until the state's size is critical."""
    mine, size = thresholds.of(CHECK.name), thresholds.of("state_size")
    found = reports(window, 1)
    if found and not found[-1].operators:
        return CHECK.verdict(window, Status.OK, "the query keeps no state, so it cannot grow")
    points = _points(window)
    trend = theil_sen(points)
    if trend is None or trend.points < POINTS or trend.span < mine["least_history"]:
        span = format_duration(trend.span) if trend else "no time"
        reason = (
            f"{len(points)} points over {span} are too little history for a forecast "
            f"({POINTS} over {format_duration(mine['least_history'])} are needed)"
        )
        return CHECK.verdict(window, Status.UNKNOWN, reason, evidence={"points": len(points)})
    evidence = _evidence(trend, size)
    old = _as_of(window, thresholds)
    critical, now = size["critical"], trend.level
    soonest, expected = seconds_until(critical, now, trend.high), seconds_until(critical, now, trend.slope)
    if soonest is None or CHECK.grade(soonest, mine) is Status.OK:
        when = "never" if soonest is None else f"not before {format_duration(soonest)}"
        reason = f"state reaches {format_size(critical)} {when}, even at the steepest plausible growth{old}"
        return CHECK.verdict(window, Status.OK, reason, soonest, evidence)
    if expected is None or (trend.low <= 0 and now < critical):
        reason = (
            f"there is no clear trend: growth is between {format_size(abs(trend.low) * 3600)}/h "
            f"{'down' if trend.low < 0 else 'up'} and {format_size(trend.high * 3600)}/h up"
        )
        return CHECK.verdict(window, Status.UNKNOWN, reason, None, evidence)
    status = CHECK.grade(expected, mine)
    latest = seconds_until(critical, now, trend.low)
    between = f"{format_duration(soonest)} to {format_duration(latest) if latest is not None else 'never'}"
    reason = (
        f"state grows by {format_size(trend.slope * 3600)}/h and reaches {format_size(critical)} in "
        f"{format_duration(expected)} (95 %: {between}; {CHECK.limits_text(mine)}){old}"
    )
    return CHECK.verdict(window, status, reason, round(expected, 6), evidence)


def _as_of(window: Window, thresholds: Thresholds) -> str:
    """The time from which the trend counts, if no batch has run for a while: state grows only while batches run."""
    newest = reports(window, 1)
    if not newest or is_recent(window, thresholds, newest[-1].at + newest[-1].duration_ms / 1000):
        return ""
    return f", counted from the newest batch {format_duration(window.now - newest[-1].at)} ago"


def _points(window: Window) -> list[tuple[float, float]]:
    """State bytes over time since the last reset: medians of the hourly roll-ups, then a sample of the reports."""
    found = sample(window, HALF)
    at = {each.batch_id: each.at for each in found}
    recent = [(at[batch], float(size)) for batch, size in state_bytes(found)]
    start = recent[0][0] if recent else window.now
    hourly = [(each.at, each.value) for each in window.hourly if each.name == HOURLY and each.at < start]
    begin = since_reset(hourly + recent)[0][0] if hourly or recent else start
    if not hourly or begin > hourly[0][0]:
        hourly = [each for each in hourly if each[0] >= begin]
        recent = [each for each in recent if each[0] >= begin]
    return coarse(hourly, MOST - len(recent)) + recent


def _evidence(trend: Trend, size: Mapping[str, float]) -> dict[str, object]:
    def until(limit: float) -> dict[str, object]:
        slopes = {"expected": trend.slope, "earliest": trend.high, "latest": trend.low}
        return {name: seconds_until(limit, trend.level, slope) for name, slope in slopes.items()}

    return {
        "bytes_now": trend.level,
        "bytes_per_hour": trend.slope * 3600,
        "bytes_per_hour_low": trend.low * 3600,
        "bytes_per_hour_high": trend.high * 3600,
        "points": trend.points,
        "history_s": trend.span,
        "seconds_until_warning": until(size["warning"]),
        "seconds_until_critical": until(size["critical"]),
    }


CHECK = Check(
    name="state_growth",
    title="State growth forecast",
    unit=ValueUnit.SECONDS,
    target="> 7 days until the state is critical",
    more_is_worse=False,
    thresholds=(
        *limits(7 * 86400.0, 86400.0, ValueUnit.SECONDS, "time left until `state_size.critical`"),
        Threshold(
            name="least_history",
            default=3600.0,
            unit=ValueUnit.SECONDS,
            meaning="history below which there is no forecast: new state first fills up to its steady size",
        ),
    ),
    judge=check,
    consequence_of=("state_size",),
    raise_after=1,
    reads=(
        "State bytes as in `state_size`, at the batches' `timestamp`, after the hourly means of older history, thinned "
        "to 16 medians. The trend is Theil-Sen's slope (median over all pairs) with its distribution-free 95 % "
        "interval, and the current level of the line. A fall to less than half is a new baseline. The evidence has "
        "the expected, earliest and latest time until both thresholds of `state_size`. The verdict grades the expected "
        "time until the critical one. If no batch has run for more than two minutes and a batch, the reason says so: "
        "the times count from the newest batch."
    ),
    unknown=(
        "There is less than `least_history`, there are fewer than eight points, or the interval includes both no "
        "growth and growth that would alarm, so there is no clear trend."
    ),
    advice=(
        "State grows without end: tighten the watermark, set a TTL or a timeout, and look for keys that never expire. "
        "Before the time is up, give the state store more room."
    ),
    source="Sen (1968), Estimates of the regression coefficient based on Kendall's tau.",
)
