"""Incidents that no health check opens: they are about a stream as a whole, and whoever sees it opens and ends them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import uuid4

from streamwarden.health.incident import Incident, IncidentRepository
from streamwarden.health.verdict import Status

SUPERVISION: Final = "supervision"
"""The stream stays down: supervision gave up, no driver runs since, and one is wanted. Like the others here it is not
the name of one of the health checks, whose verdicts neither open nor resolve it."""

CONFIGURATION: Final = "configuration"
"""The stream's file is broken, so nobody judges it."""


def open_incident(
    book: IncidentRepository,
    stream: str,
    reason: str,
    advice: str,
    now: float,
    *,
    check: str = SUPERVISION,
    status: Status = Status.CRITICAL,
) -> Incident:
    """Open the stream's incident, or bring the open one up to date. Raises StoreError."""
    current = _open(book, stream, check)
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
    book.save(incident)
    return incident


def close_incident(book: IncidentRepository, stream: str, now: float, reason: str = "a driver runs again") -> None:
    """Resolve the incident of the stream that was down, if it is open. Raises StoreError."""
    current = _open(book, stream, SUPERVISION)
    if current is not None:
        book.save(ended(current, reason, now))


def ended(incident: Incident, reason: str, now: float) -> Incident:
    """`incident`, resolved now (Unix seconds) for `reason`."""
    return replace(incident, status=Status.OK, updated_at=now, resolved_at=now, reason=reason)


def _open(book: IncidentRepository, stream: str, check: str) -> Incident | None:
    return next((incident for incident in book.open(stream) if incident.check == check), None)
