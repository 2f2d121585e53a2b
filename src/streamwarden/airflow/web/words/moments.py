"""Moments as a person says them. Pure."""

from datetime import UTC, datetime


def since_words(at: float, now: float) -> str:
    """`12:02` of this day, `26 Nov 12:02` of an earlier one of the last half year, else with the year; UTC."""
    then, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC)
    if then.date() == today.date():
        return then.strftime("%H:%M")
    year = "" if abs((today - then).days) < 183 else " %Y"
    return then.strftime(f"%-d %b{year} %H:%M")


def due_words(at: float) -> str:
    """`Mon 30 Nov 05:00`, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%a %-d %b %H:%M")
