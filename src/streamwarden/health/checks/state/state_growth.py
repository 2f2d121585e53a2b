"""State growth: the time until the state reaches each threshold of its size, with the forecast's confidence."""

from collections.abc import Mapping
from dataclasses import replace

from streamwarden.health.check import Check, Threshold, Thresholds, ValueUnit, limits
from streamwarden.health.signals.forecast import Trend, seconds_until, spread_evenly, theil_sen
from streamwarden.health.signals.freshness import is_recent
from streamwarden.health.signals.growth import (
    CLEAR,
    POINTS,
    SLOWED,
    Doubt,
    Growth,
    ceiling_of,
    clear_growths,
    doubt_of,
    since_resets,
)
from streamwarden.health.signals.series import STATE_BYTES, reports, sample, state_bytes
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.units import format_duration, format_size

SAMPLED = 16
"""Reports of the window that are read."""


def check(window: Window, thresholds: Thresholds) -> Verdict:
    """Time left until the state's size is critical."""
    limits_in_force, size = thresholds.of(CHECK.name), thresholds.of("state_size")
    newest = reports(window, 1)
    if newest and not newest[-1].operators:
        return CHECK.not_applicable(window, "the query keeps no state, so it cannot grow")
    points = _points(window)
    span = points[-1][0] - points[0][0] if points else 0.0
    overall = theil_sen(spread_evenly(since_resets(points)[-1])) if points else None
    if overall is None or len(points) < POINTS or span < limits_in_force["least_history"]:
        reason = f"too little history for a forecast: {_missing(len(points), span, limits_in_force['least_history'])}"
        return CHECK.verdict(window, Status.UNKNOWN, reason, evidence={"points": len(points)})
    if overall.level >= size["critical"]:
        reason = f"the state has reached {format_size(size['critical'])}"
        return CHECK.verdict(window, Status.CRITICAL, reason, 0.0, _evidence(overall, size))
    ceiling = max(ceiling_of(points), _remembered_ceiling(window))
    slope = (size["critical"] - overall.level) / limits_in_force["warning"]
    growths = list(clear_growths(points, least=limits_in_force["least_history"], ceiling=ceiling, slope=slope))
    old = _as_of(window, thresholds)
    if growths:
        soonest = min(growths, key=lambda growth: _seconds_left(growth.trend, size))
        verdict = _growing(window, soonest, span, limits_in_force, size, old)
    else:
        doubt = doubt_of(points, least=limits_in_force["least_history"], ceiling=ceiling)
        verdict = _no_clear_growth(window, overall, doubt, limits_in_force, size, old)
    return replace(verdict, evidence={**verdict.evidence, "ceiling": ceiling, "query_id": _query(window)})


def _missing(points: int, span: float, least: float) -> str:
    """`9m 41s of the 15m needed`; the points if the time is long enough, but they are too few."""
    if span < least:
        return f"{format_duration(span)} of the {format_duration(least)} needed"
    return f"{points} points of the {POINTS} needed"


def _remembered_ceiling(window: Window) -> float:
    """The ceiling that earlier evaluations of the same query found: they saw points that are left out by now."""
    before = window.previous.get(CHECK.name)
    if before is None or before.evidence.get("query_id") != _query(window):
        return 0.0
    return float(before.evidence.get("ceiling", 0.0))  # type: ignore[arg-type]


def _query(window: Window) -> str:
    newest = reports(window, 1)
    return newest[-1].query_id if newest else ""


def _seconds_left(trend: Trend, size: Mapping[str, float]) -> float:
    left = seconds_until(size["critical"], trend.level, trend.slope)
    return float("inf") if left is None else left


def _no_clear_growth(
    window: Window,
    trend: Trend,
    doubt: Doubt | None,
    mine: Mapping[str, float],
    size: Mapping[str, float],
    old: str,
) -> Verdict:
    evidence = _evidence(trend, size)
    soonest = seconds_until(size["critical"], trend.level, trend.high)
    if soonest is None or CHECK.grade(soonest, mine) is Status.OK:
        when = "never" if soonest is None else f"not before {format_duration(soonest)}"
        reason = f"state reaches {format_size(size['critical'])} {when}, even at the steepest plausible growth{old}"
        return CHECK.verdict(window, Status.OK, reason, soonest, evidence)
    why = doubt or Doubt.SCATTER
    reason = (
        f"there is no clear trend: {why}; over all, growth is between {format_size(abs(trend.low) * 3600)}/h "
        f"{'down' if trend.low < 0 else 'up'} and {format_size(trend.high * 3600)}/h up"
    )
    return CHECK.verdict(window, Status.UNKNOWN, reason, None, evidence)


def _growing(
    window: Window, growth: Growth, history: float, mine: Mapping[str, float], size: Mapping[str, float], old: str
) -> Verdict:
    trend = growth.trend
    left = _seconds_left(trend, size)
    earliest = seconds_until(size["critical"], trend.level, trend.high)
    latest = seconds_until(size["critical"], trend.level, trend.low)
    status = CHECK.grade(left, mine)
    filling = history < mine["filling"] and status is Status.CRITICAL
    reason = (
        f"state grows by {format_size(trend.slope * 3600)}/h, measured over {format_duration(growth.span)}, and "
        f"reaches {format_size(size['critical'])} in {format_duration(left)} (95 %: "
        f"{format_duration(earliest) if earliest is not None else 'never'} to "
        f"{format_duration(latest) if latest is not None else 'never'}; {CHECK.limits_text(mine)}){old}"
    )
    if filling:
        status = Status.WARNING
        reason += f"; a WARNING, because new state may still fill up for {format_duration(mine['filling'])}"
    evidence = {**_evidence(trend, size), "growth_span_s": growth.span}
    return CHECK.verdict(window, status, reason, round(left, 6), evidence)


def _as_of(window: Window, thresholds: Thresholds) -> str:
    """The time from which the trend counts, if no batch has run for a while: state grows only while batches run."""
    newest = reports(window, 1)
    if not newest or is_recent(window, thresholds, newest[-1].at + newest[-1].duration_ms / 1000):
        return ""
    return f", counted from the newest batch {format_duration(window.now - newest[-1].at)} ago"


def _points(window: Window) -> list[tuple[float, float]]:
    """State bytes over time: hourly roll-ups, then older batches, the reports and the newest measurements."""
    progress = [batch.progress for batch in window.older if batch.progress is not None and batch.progress.has_run]
    query = reports(window, 1)
    progress = [report for report in progress if not query or report.query_id == query[-1].query_id]
    progress += sample(window, SAMPLED)
    at = {report.batch_id: report.at for report in progress}
    own = [(at[batch], float(size)) for batch, size in state_bytes(progress)]
    start = own[0][0] if own else window.now
    hourly = [
        (measurement.at, measurement.value)
        for measurement in window.hourly
        if measurement.name == STATE_BYTES and measurement.at < start
    ]
    measured = [
        (measurement.at, measurement.value)
        for measurement in window.measurements
        if measurement.name == STATE_BYTES and measurement.at >= start
    ]
    return hourly + sorted(own + measured)


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
        Threshold("least_history", 900.0, ValueUnit.SECONDS, "history below which there is no forecast"),
        Threshold(
            "filling",
            3600.0,
            ValueUnit.SECONDS,
            "history below which growth is at most a WARNING: new state first fills up to its steady size",
        ),
    ),
    judge=check,
    consequence_of=("state_size",),
    raise_after=3,
    rests=True,
    reads=(
        "State bytes as in `state_size`, at the batches' `timestamp`: of the newest 100 batches, of batches before "
        "them at growing distances, and, before those, the hourly means; and what each evaluation of the last 15 "
        "minutes measured. Growth is judged over the last 15 minutes, hour, 6 hours, day and week, as far as there is "
        "history. The trend is Theil-Sen's slope (median over all pairs of 16 medians) with its distribution-free 95 % "
        "interval. Growth over a span is clear if the interval is above 0 for the span and for its newer half, the "
        f"rise is at least {CLEAR:g} times the scatter around the trend, the older half rises too, and the newer half "
        f"rises at least {SLOWED:.0%} as fast as the whole (if it is slower than the whole, its slope counts). The "
        "state must also be a tenth larger than any size that it rose to and fell from before. So noise, a plateau and "
        "a sawtooth are not growth. A fall to less than half is a new baseline. The verdict grades the shortest time "
        "until `state_size.critical` that clear growth predicts. The evidence has the expected, earliest and latest "
        "time until both thresholds of `state_size`. If no batch has run for more than two minutes and a batch, the "
        "reason says so: the times count from the newest batch."
    ),
    unknown=(
        "There is less than `least_history`, there are fewer than eight points, or growth is not clear, but growth "
        "that would alarm is plausible."
    ),
    advice=(
        "State grows without end: tighten the watermark, set a TTL or a timeout, and look for keys that never expire. "
        "Before the time is up, give the state store more room."
    ),
    source="Sen (1968), Estimates of the regression coefficient based on Kendall's tau.",
)
