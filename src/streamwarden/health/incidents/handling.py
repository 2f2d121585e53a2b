"""Decisions of people about incidents, as everything that shows or sends incidents reads them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.incident_actions import IncidentAction, acknowledged
from streamwarden.health.incidents.mutes import Mute, muted


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """Read in one query each, for all incidents and streams.

    Args:
        actions: incident id -> its log, oldest first.
        mutes: those in force, those planned, and those that ended lately.
    """

    actions: Mapping[str, Sequence[IncidentAction]] = field(default_factory=dict)
    mutes: Sequence[Mute] = ()

    def acknowledged(self, incident: Incident) -> IncidentAction | None:
        """The acknowledgement of the incident that counts, whatever its status is now."""
        return acknowledged(self.actions.get(incident.incident_id, ()))

    def muted(self, incident: Incident, at: float) -> Mute | None:
        """The mute of the incident that is in force at `at`. A resolved incident is muted as an open one is."""
        return muted(incident, self.mutes, at)


UNHANDLED: Final = Handling()
"""No person has done anything."""
