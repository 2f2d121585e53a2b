"""Incidents about a stream as a whole, opened and ended by the code that notices the problem, not by a health check."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import uuid4

from streamwarden.health.incident import Incident, IncidentRepository
from streamwarden.health.verdict import Status

SUPERVISION: Final = "supervision"
"""The stream stays down: supervision gave up, no driver has run since, and the stream should be running. Like the other
names here it is not a health check, so verdicts neither open nor resolve it."""

CONFIGURATION: Final = "configuration"
"""The stream's file is broken, so no check judges the stream."""


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
        incident = Incident(
            incident_id=uuid4().hex,
            stream=stream,
            check=check,
            status=status,
            opened_at=now,
            updated_at=now,
            reason=reason,
            advice=advice,
            peak=status,
        )
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


def resolve(incident: Incident, reason: str, now: float) -> Incident:
    """`incident`, resolved now (Unix seconds) for `reason`."""
    return replace(incident, status=Status.OK, updated_at=now, resolved_at=now, reason=reason)


def _open(repository: IncidentRepository, stream: str, check: str) -> Incident | None:
    return next((incident for incident in repository.open(stream) if incident.check == check), None)
