"""An incident: an open problem of one stream and one check; opened once, updated, resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streamwarden.health.verdict import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Times are Unix seconds. At most one incident of a stream and a check is open (resolved_at is None)."""

    incident_id: str
    stream: str
    check: str
    status: Status
    opened_at: float
    updated_at: float
    reason: str
    advice: str = ""
    peak: Status = Status.WARNING
    resolved_at: float | None = None
    notified_at: float | None = None
    notified_status: Status | None = None


class IncidentBook(Protocol):
    """Where incidents are kept. `save` inserts or replaces by id; two open ones of one stream and check: StoreError."""

    def open(self, stream: str | None = None) -> Sequence[Incident]: ...
    def save(self, incident: Incident) -> None: ...
    def recent(self, stream: str | None = None, limit: int = 100) -> Sequence[Incident]: ...
    def claim_notification(self, incident: Incident, *, before: float | None, now: float) -> bool:
        """Atomically set notified_at and notified_status if nobody notified since `before`; True: you may send."""
