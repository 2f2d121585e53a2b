"""Numbers and states as people read them."""

from datetime import datetime

from streamwarden.health.incidents.mutes import Mute
from streamwarden.health.verdict import Status
from streamwarden.units import format_duration, format_size

NONE = "[dim]-[/]"
"""A cell with nothing in it."""

_COLOURS = {
    Status.OK: "green",
    Status.ADVICE: "cyan",
    Status.WARNING: "yellow",
    Status.CRITICAL: "bold red",
    Status.UNKNOWN: "dim",
}
_OF_DRILLS = {
    "PASSED": "bold green",
    "DEVIATED": "bold red",
    "ABORTED": "yellow",
    "FAILED": "yellow",
    "RUNNING": "cyan",
}


def status_word(status: Status | str | None) -> str:
    """A status in its colour."""
    if status is None:
        return NONE
    return f"[{_COLOURS[Status(status)]}]{Status(status).value}[/]"


def drill_word(verdict: str) -> str:
    """The verdict of a drill's run in its colour."""
    return f"[{_OF_DRILLS[verdict]}]{verdict}[/]"


def ago(at: float | None, now: float) -> str:
    """`12.3 s ago`; 0 if `at` is in the future, because another clock runs ahead."""
    return NONE if at is None else f"{format_duration(max(0.0, now - at))} ago"


def clock(at: float) -> str:
    """`2026-11-24 08:00`, in this host's time zone."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")


def held_back(mute: Mute) -> str:
    """`muted until 2026-11-24 08:00 by ann: a new disk`, as plain text."""
    return f"{mute.word} until {clock(mute.over_at)} by {mute.who}: {mute.reason}"


def age(at: float | None, now: float) -> str:
    """`1h 5m`: how long since `at`."""
    return NONE if at is None else format_duration(max(0.0, now - at))


def short(seconds: float | None) -> str:
    """`34s`, `12m`, `3h`, `2d`: the largest unit alone, for a narrow column."""
    if seconds is None:
        return NONE
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f}{unit}"
    return f"{seconds:.0f}s"


def rate(per_second: float | None) -> str:
    """`12,345`, `3.2`, `0`: rows a second."""
    if per_second is None:
        return NONE
    return f"{per_second:,.0f}" if per_second >= 10 or not per_second else f"{per_second:.1f}"


def size(count: float | None) -> str:
    """`2.0 GB`."""
    return NONE if count is None else format_size(count)


def number(count: int | None) -> str:
    """`336,776`."""
    return NONE if count is None else f"{count:,}"


def measured(value: float | None, unit: str) -> str:
    """A verdict's value in its unit."""
    if value is None:
        return NONE
    from streamwarden.health.check import ValueUnit

    return ValueUnit(unit).show(value) if unit in set(ValueUnit) else f"{value:g} {unit}".strip()
