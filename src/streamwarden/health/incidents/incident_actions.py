"""Actions of people on one incident: acknowledge it, withdraw that, or comment. Each action is kept. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from streamwarden.health.verdict import Status


class ActionKind(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    WITHDRAWN = "withdrawn"  # the acknowledgement before it no longer counts
    COMMENTED = "commented"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAction:
    """One entry of the log of an incident. It is never changed.

    Args:
        who: the person, as commands and pages record them.
        at: Unix seconds.
        status: the status of the incident with its consequences at that time: an acknowledgement covers this status
            and every better one.
        text: the comment; empty if none was given.
    """

    incident_id: str
    kind: ActionKind
    who: str
    at: float
    status: Status
    text: str = ""

    def covers(self, status: Status) -> bool:
        """Whether this acknowledgement counts for an incident that has `status` now."""
        return status.rank <= self.status.rank


def acknowledged(actions: Iterable[IncidentAction]) -> IncidentAction | None:
    """The acknowledgement that counts: the newest one, unless it was withdrawn. `actions`: of one incident, oldest
    first."""
    decisions = [action for action in actions if action.kind is not ActionKind.COMMENTED]
    return decisions[-1] if decisions and decisions[-1].kind is ActionKind.ACKNOWLEDGED else None
