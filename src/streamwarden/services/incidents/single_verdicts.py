"""Incidents from verdicts of other origin than the health checks: open from the first alarm to the first OK."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from streamwarden.health.incidents.incident import IncidentPolicy
from streamwarden.services.incidents.incident_keeper import IncidentKeeper

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.health.verdict import Verdict

_AT_ONCE: Final = IncidentPolicy(resolve_after=1)
"""These verdicts do not flap: they rest on facts, and not on a measurement near a threshold."""


def keep(store: Store, verdicts: Iterable[Verdict], now: float) -> None:
    """Open, update and resolve the incidents of `verdicts`. Raises StoreError."""
    IncidentKeeper(store, _AT_ONCE).advance(tuple(verdicts), now)
