"""Keeps incidents in step with verdicts: opens, updates, links, resolves and silences them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from streamwarden.errors import StoreError
from streamwarden.health.checks import CHECKS
from streamwarden.health.incidents.consequences import AFTERMATH, relinked, resolved_with
from streamwarden.health.incidents.incident import Changes, Incident, IncidentPolicy, advance
from streamwarden.health.incidents.stream_incidents import resolve, silence
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.queries import owner

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_NAMES: Final = frozenset(check.name for check in CHECKS)
_AT_ONCE: Final = IncidentPolicy(resolve_after=1)
"""Of verdicts that do not flap: they rest on facts, and not on a measurement near a threshold."""


def keep(store: Store, verdicts: Iterable[Verdict], now: float) -> None:
    """Open, update and resolve the incidents of verdicts of other origin than the health checks: open from the first
    alarm to the first OK. Raises StoreError."""
    IncidentKeeper(store, _AT_ONCE).advance(tuple(verdicts), now)


class IncidentKeeper:
    """The incidents in the store. Each method raises StoreError."""

    def __init__(self, store: Store, policy: IncidentPolicy) -> None:
        self._store = store
        self._policy = policy

    def end_those_not_judged(self, streams: Set[str], judged: Set[tuple[str, str]], now: float) -> None:
        """End the incidents of checks and parts of these streams that no longer exist: they would stay forever.
        `judged`: (stream or query, check) of all verdicts of this evaluation."""
        for incident in self._store.incidents.open():
            key = incident.stream, incident.check
            if owner(incident.stream) in streams and incident.check in _NAMES and key not in judged:
                self._store.incidents.save(resolve(incident, "the stream no longer has this query", now))

    def advance(self, verdicts: Sequence[Verdict], now: float) -> Changes:
        """Advance the incidents of the streams that should run, and resolve those of the streams that should not.

        The desired states are read here, after the checks: a stop that was requested meanwhile is respected.
        """
        incidents = self._store.incidents
        stopped = self._store.stops.wanted_stopped()
        judged = [verdict for verdict in verdicts if owner(verdict.stream) not in stopped]
        streams = {verdict.stream for verdict in judged}
        changes = advance(
            [incident for incident in incidents.open() if incident.stream in streams],
            judged,
            now,
            self._policy,
            lambda: uuid4().hex,
        )
        opened = tuple(incident for incident in changes.opened if self._open(incident))
        incidents.update((*changes.updated, *changes.resolved))
        silenced = self._silence(stopped, now)
        with_causes = self._resolve_with(changes.resolved, now)
        changes = Changes(opened=opened, updated=changes.updated, resolved=(*changes.resolved, *silenced, *with_causes))
        return self._relink(changes, now)

    def _silence(self, stopped: Set[str], now: float) -> list[Incident]:
        """Resolve the open incidents of these streams, which were stopped on purpose: also of one without a check."""
        if not stopped:
            return []
        silenced: list[Incident] = []
        for stream in sorted({owner(incident.stream) for incident in self._store.incidents.open()} & stopped):
            state = self._store.stops.desired(stream)
            by = f"{state.changed_by} stopped the stream: {state.reason}" if state else "the stream was stopped"
            silenced += silence(self._store.incidents, stream, by, now)
        return silenced

    def _resolve_with(self, causes: Sequence[Incident], now: float) -> list[Incident]:
        """Resolve the consequences of these resolved incidents that are no longer bad."""
        ended = [
            resolve(incident, f"resolved with its cause: {incident.reason}", now)
            for incident in (resolved_with(causes, self._store.incidents.open()) if causes else ())
        ]
        self._store.incidents.update(ended)
        return ended

    def _relink(self, changes: Changes, now: float) -> Changes:
        """Record which open incidents are consequences of which others."""
        incidents = self._store.incidents
        linked = {
            incident.incident_id: incident for incident in relinked(incidents.open(), incidents.ended(now - AFTERMATH))
        }
        incidents.update(linked.values())
        return Changes(
            opened=tuple(linked.get(incident.incident_id, incident) for incident in changes.opened),
            updated=tuple(linked.get(incident.incident_id, incident) for incident in changes.updated),
            resolved=changes.resolved,
        )

    def _open(self, incident: Incident) -> bool:
        """False if another process opened the incident of this stream and check at the same time: theirs is kept."""
        try:
            self._store.incidents.save(incident)
        except StoreError:
            if any(other.check == incident.check for other in self._store.incidents.open(incident.stream)):
                return False
            raise
        return True
