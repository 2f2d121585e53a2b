"""An incident: an open problem of one stream and one check; opened once, updated, resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from streamwarden.health.verdict import OPENING, Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Times are Unix seconds. At most one incident of a stream and a check is open (resolved_at is None).

    Args:
        updated_at: when a verdict last changed or confirmed it.
        evidence: of the newest verdict that was not good: it stays when the incident is resolved.
        good: good verdicts in a row since the last bad one; enough of them resolve the incident.
        notified_at, notified_status: when one channel was sent the last message, and the status in it: OK once the end
            was sent. The store keeps them for each channel, see `health.delivery`.
        consequence_of: the id of the root incident that caused this one; None for a root incident. Only root incidents
            alarm: they notify, and commands count them. See `health.consequences`.
    """

    incident_id: str
    stream: str
    check: str
    status: Status
    opened_at: float
    updated_at: float
    reason: str
    advice: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)
    peak: Status = Status.WARNING
    good: int = 0
    resolved_at: float | None = None
    notified_at: float | None = None
    notified_status: Status | None = None
    consequence_of: str | None = None

    @property
    def is_root(self) -> bool:
        """Whether the incident alarms: it is not a consequence of another one."""
        return self.consequence_of is None


class IncidentRepository(Protocol):
    """Stores incidents. `save` inserts or replaces by id; two open ones of one stream and check: StoreError."""

    def open(self, stream: str | None = None) -> Sequence[Incident]: ...
    def alarming(self) -> Sequence[Incident]:
        """The open incidents of the streams that should not be stopped, without mere advice."""

    def ended(self, since: float) -> Sequence[Incident]: ...
    def consequences(self, incident_id: str) -> Sequence[Incident]: ...
    def save(self, incident: Incident) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentPolicy:
    """When incidents end and are sent again.

    Args:
        resolve_after: good verdicts in a row that resolve an incident.
        resend_interval: seconds after which an incident that is still open is sent again.
    """

    resolve_after: int = 3
    resend_interval: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes of incidents by one evaluation. Each incident is in one of the three."""

    opened: tuple[Incident, ...] = ()
    updated: tuple[Incident, ...] = ()
    resolved: tuple[Incident, ...] = ()

    @property
    def all(self) -> tuple[Incident, ...]:
        return (*self.opened, *self.updated, *self.resolved)

    def __add__(self, other: Changes) -> Changes:
        return Changes(
            opened=self.opened + other.opened,
            updated=self.updated + other.updated,
            resolved=self.resolved + other.resolved,
        )


def advance(
    open_incidents: Iterable[Incident],
    verdicts: Iterable[Verdict],
    now: float,
    policy: IncidentPolicy,
    new_id: Callable[[], str],
) -> Changes:
    """Open, update or resolve incidents after `verdicts`, at most one a stream and check.

    WARNING, CRITICAL and ADVICE open an incident or update the open one; OK `policy.resolve_after` times in a row
    resolves it. UNKNOWN opens nothing and resolves nothing. It restarts the count of good verdicts, because it does not
    show that all is well. Incidents of other checks do not change.
    """
    by_check = {(current.stream, current.check): current for current in open_incidents if current.resolved_at is None}
    opened: list[Incident] = []
    updated: list[Incident] = []
    resolved: list[Incident] = []
    for verdict in verdicts:
        incident = by_check.get((verdict.stream, verdict.check))
        if verdict.status in OPENING:
            if incident is None:
                opened.append(opened_by(verdict, now, new_id()))
            else:
                updated.append(_worsened(incident, verdict, now))
        elif incident is None:
            continue
        elif verdict.status is Status.UNKNOWN:
            if incident.good:
                updated.append(replace(incident, good=0))
        elif incident.good + 1 >= policy.resolve_after:
            end = replace(incident, status=Status.OK, good=incident.good + 1, updated_at=now, resolved_at=now)
            resolved.append(replace(end, reason=verdict.reason))
        else:
            updated.append(replace(incident, good=incident.good + 1))
    return Changes(opened=tuple(opened), updated=tuple(updated), resolved=tuple(resolved))


def opened_by(verdict: Verdict, now: float, incident_id: str) -> Incident:
    """A new incident."""
    return Incident(
        incident_id=incident_id,
        stream=verdict.stream,
        check=verdict.check,
        status=verdict.status,
        opened_at=now,
        updated_at=now,
        reason=verdict.reason,
        advice=verdict.advice,
        evidence=verdict.evidence,
        peak=verdict.status,
    )


def _worsened(incident: Incident, verdict: Verdict, now: float) -> Incident:
    return replace(
        incident,
        status=verdict.status,
        peak=max(incident.peak, verdict.status, key=lambda status: status.rank),
        good=0,
        updated_at=now,
        reason=verdict.reason,
        advice=verdict.advice,
        evidence=verdict.evidence,
    )
