"""The incident of a stream that stays down: opened when supervision gave up, resolved when a driver runs again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import uuid4

from streamwarden.health.incident import Incident, IncidentBook
from streamwarden.health.verdict import Status

CHECK: Final = "supervision"
"""Not one of the health checks: their tick neither opens nor resolves it."""


def open_incident(book: IncidentBook, stream: str, reason: str, advice: str, now: float) -> Incident:
    """Open the stream's incident, or bring the open one up to date. Raises StoreError."""
    current = _open(book, stream)
    if current is None:
        incident = Incident(
            incident_id=uuid4().hex,
            stream=stream,
            check=CHECK,
            status=Status.CRITICAL,
            opened_at=now,
            updated_at=now,
            reason=reason,
            advice=advice,
            peak=Status.CRITICAL,
        )
    else:
        incident = replace(current, updated_at=now, reason=reason, advice=advice)
    book.save(incident)
    return incident


def close_incident(book: IncidentBook, stream: str, now: float) -> None:
    """Resolve the stream's incident if it is open. Raises StoreError."""
    current = _open(book, stream)
    if current is not None:
        book.save(ended(current, "a driver runs again", now))


def ended(incident: Incident, reason: str, now: float) -> Incident:
    """`incident`, resolved now (Unix seconds) for `reason`."""
    return replace(incident, status=Status.OK, updated_at=now, resolved_at=now, reason=reason)


def _open(book: IncidentBook, stream: str) -> Incident | None:
    return next((incident for incident in book.open(stream) if incident.check == CHECK), None)
