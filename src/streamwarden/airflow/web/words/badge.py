"""The one word that a row begins with, its colour, and since when it is so. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from streamwarden.health.verdict import ALARMS, Status
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.standing import LACKING


class Tone(StrEnum):
    """How a badge looks: its colour and its sign."""

    GOOD = "good"
    WARNING = "warning"
    CRITICAL = "critical"
    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Badge:
    """A word, and how it looks."""

    word: str
    tone: Tone


_OF_HEALTH = {
    Status.OK: Tone.GOOD,
    Status.WARNING: Tone.WARNING,
    Status.CRITICAL: Tone.CRITICAL,
    Status.UNKNOWN: Tone.UNKNOWN,
}


def of_incident(status: Status) -> Badge:
    """That of an open incident."""
    return Badge(status, _OF_HEALTH.get(status, Tone.QUIET))


def badge(row: StreamRow) -> Badge:
    """What matters first: that the driver is missing, then that something alarms, then what it does."""
    if row.state in LACKING:
        return Badge(row.state, Tone.CRITICAL)
    if row.health in ALARMS and row.shows_health:
        return Badge(row.health, _OF_HEALTH[row.health])
    if row.state == "starting":
        return Badge(row.state, Tone.ACTIVE)
    if row.state == "running":
        return Badge(row.state, _OF_HEALTH.get(row.health, Tone.UNKNOWN))
    return Badge(row.state, Tone.QUIET)


def since(row: StreamRow) -> float | None:
    """When its state began, Unix seconds: the query started, or the driver ended. None: not known."""
    if row.since is not None:
        return row.since
    return row.last_exit.ended_at if row.state in ("down", "completed") and row.last_exit is not None else None
