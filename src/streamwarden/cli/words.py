"""Numbers and states as people read them."""

from __future__ import annotations

from streamwarden.health.verdict import Status
from streamwarden.units import format_duration, format_size

NONE = "[dim]-[/]"
"""A cell with nothing in it."""

_COLOURS = {Status.OK: "green", Status.WARNING: "yellow", Status.CRITICAL: "bold red", Status.UNKNOWN: "dim"}


def status_word(status: Status | str | None) -> str:
    """A status in its colour."""
    if status is None:
        return NONE
    return f"[{_COLOURS[Status(status)]}]{Status(status).value}[/]"


def ago(at: float | None, now: float) -> str:
    """`12.3 s ago`; 0 if `at` is in the future, because another clock runs ahead."""
    return NONE if at is None else f"{format_duration(max(0.0, now - at))} ago"


def age(at: float | None, now: float) -> str:
    """`1h 5m`: how long since `at`."""
    return NONE if at is None else format_duration(max(0.0, now - at))


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
