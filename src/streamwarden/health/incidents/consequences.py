"""One dead stream is one incident: which open incident is the root, and which are its consequences. Pure.

Each check declares what it may be a consequence of. While an incident of such a cause is open for the same stream, the
incident of the check is a consequence of it: it is listed in the root incident, and it neither notifies nor counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.health.check_relations import AIRFLOW, EVERYWHERE, FAILING, SUPERVISION
from streamwarden.health.checks import CHECKS
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status, worst_of
from streamwarden.lifecycle.queries import owner

AFTERMATH: Final = 900.0
"""Seconds for which a consequence stays one after its cause was resolved: the stream catches up, then ten evaluations
without an alarm lower a status (`sampled_hysteresis.LOWER_AFTER`), and three more resolve the incident."""

CAUSES: Final[Mapping[str, tuple[str, ...]]] = {
    **{check.name: check.consequence_of for check in CHECKS},
    SUPERVISION: (*FAILING, AIRFLOW),
}
"""Name of a check or other problem -> the problems that it may be a consequence of, the likeliest first."""


@dataclass(frozen=True, slots=True)
class IncidentGroup:
    """A root incident and its consequences, oldest first."""

    root: Incident
    consequences: tuple[Incident, ...] = ()

    @property
    def status(self) -> Status:
        """The worst status of the group: a consequence may be worse than its cause."""
        if self.root.resolved_at is not None:
            return self.root.status
        return worst_of(incident.status for incident in (self.root, *self.consequences) if incident.resolved_at is None)


class Roots:
    """Finds the incident that explains another one.

    Args:
        open_incidents: of all streams, or at least those of the stream in question and of `EVERYWHERE`. There is at
            most one for a stream and a check.
        ended: incidents that were resolved within the last `AFTERMATH` seconds: they still explain the consequences
            that they had.
    """

    def __init__(self, open_incidents: Iterable[Incident], ended: Iterable[Incident] = ()) -> None:
        self._open = {(incident.check, incident.stream): incident for incident in open_incidents}
        self._ended = {incident.incident_id: incident for incident in ended}

    def of(self, incident: Incident) -> Incident:
        """The incident that explains `incident`; itself if none does."""
        for name in CAUSES.get(incident.check, ()):
            for stream in (incident.stream, owner(incident.stream), EVERYWHERE):
                cause = self._open.get((name, stream), incident)
                if cause is not incident:
                    return self.of(cause)
        return self._ended.get(str(incident.consequence_of), incident)


def relinked(open_incidents: Sequence[Incident], ended: Iterable[Incident] = ()) -> tuple[Incident, ...]:
    """Those of `open_incidents` whose root has changed, each with its new root. For `ended` see `Roots`."""
    roots, changed = Roots(open_incidents, ended), []
    for incident in open_incidents:
        cause = roots.of(incident)
        of = None if cause is incident else cause.incident_id
        if of != incident.consequence_of:
            changed.append(replace(incident, consequence_of=of))
    return tuple(changed)


def resolved_with(causes: Iterable[Incident], open_incidents: Iterable[Incident]) -> tuple[Incident, ...]:
    """The consequences of these resolved causes whose last verdict was good: they are resolved with their cause."""
    ids = {cause.incident_id for cause in causes}
    return tuple(incident for incident in open_incidents if incident.consequence_of in ids and incident.good)


def folded(checks: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The causes among these alarming checks of one stream -> their consequences among them, in the given order."""
    given = tuple(dict.fromkeys(checks))

    def root(name: str) -> str:
        cause = next((cause for cause in CAUSES.get(name, ()) if cause in given), None)
        return name if cause is None else root(cause)

    roots = {name: root(name) for name in given}
    return {
        cause: tuple(name for name in given if roots[name] == cause != name) for cause in given if roots[cause] == cause
    }


def grouped(incidents: Iterable[Incident]) -> tuple[IncidentGroup, ...]:
    """Each root incident with its consequences among `incidents`, in the given order.

    A consequence whose root is not among them has a group to itself.
    """
    given = tuple(incidents)
    ids = {incident.incident_id for incident in given}
    inside: dict[str, list[Incident]] = {}
    for incident in given:
        if incident.consequence_of in ids:
            inside.setdefault(str(incident.consequence_of), []).append(incident)
    return tuple(
        IncidentGroup(incident, tuple(inside.get(incident.incident_id, ())))
        for incident in given
        if incident.consequence_of not in ids
    )
