"""Incidents about a stream as a whole, opened and ended by the code that notices the problem, not by a health check."""

from dataclasses import replace
from uuid import uuid4

from streamwarden.health.check_relations import SUPERVISION, is_of_the_run
from streamwarden.health.incidents.incident import Incident, IncidentRepository, opened_by
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.queries import owner


def open_incident(
    repository: IncidentRepository,
    stream: str,
    reason: str,
    advice: str,
    now: float,
    *,
    check: str = SUPERVISION,
    status: Status = Status.CRITICAL,
) -> Incident:
    """Open the stream's incident, or update the open one. Raises StoreError."""
    current = _open(repository, stream, check)
    if current is None:
        verdict = Verdict(stream=stream, check=check, status=status, at=now, reason=reason, advice=advice)
        incident = opened_by(verdict, now, uuid4().hex)
    else:
        incident = replace(current, updated_at=now, reason=reason, advice=advice)
    repository.save(incident)
    return incident


def close_incident(
    repository: IncidentRepository, stream: str, now: float, reason: str = "a driver runs again"
) -> None:
    """Resolve the incident of the stream that was down, if it is open. Raises StoreError."""
    current = _open(repository, stream, SUPERVISION)
    if current is not None:
        repository.save(resolve(current, reason, now))


def silence(repository: IncidentRepository, stream: str, reason: str, now: float) -> tuple[Incident, ...]:
    """Resolve every open incident of the stream and its queries, because the stream was stopped on purpose.

    Returns them. Incidents that say nothing about the running stream stay. Raises StoreError.
    """
    ended = tuple(
        resolve(incident, reason, now)
        for incident in repository.open()
        if owner(incident.stream) == stream and is_of_the_run(incident.check)
    )
    for incident in ended:
        repository.save(incident)
    return ended


def resolve(incident: Incident, reason: str, now: float) -> Incident:
    """`incident`, resolved now (Unix seconds) for `reason`."""
    return replace(incident, status=Status.OK, updated_at=now, resolved_at=now, reason=reason)


def _open(repository: IncidentRepository, stream: str, check: str) -> Incident | None:
    return next((incident for incident in repository.open(stream) if incident.check == check), None)
