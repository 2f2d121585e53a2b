"""The repository of incident actions: who acknowledged which incident, or commented on it, when and why."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from streamwarden.adapters.store.database import Repository
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import incident_actions, incidents
from streamwarden.health.incidents.incident_actions import ActionKind, IncidentAction
from streamwarden.health.verdict import Status


class SqlIncidentActionRepository(Repository):
    """The log of all actions: entries are only ever added. Each method raises StoreError."""

    def add(self, action: IncidentAction) -> None:
        """Add one entry to the log of its incident."""
        row = to_columns(incident_actions, action, kind=action.kind.value, status=action.status.value)
        self._execute(incident_actions.insert().values(row))

    def of(self, incident_id: str) -> Sequence[IncidentAction]:
        """The log of one incident, oldest first."""
        wanted = incident_actions.select().where(incident_actions.c.incident_id == incident_id)
        return self._read(wanted).get(incident_id, ())

    def current(self, since: float) -> Mapping[str, Sequence[IncidentAction]]:
        """Incident id -> its log, of the incidents that are open or were resolved at or after `since` (Unix seconds).

        One query, however many incidents there are.
        """
        same = incidents.c.incident_id == incident_actions.c.incident_id
        recent = sa.or_(incidents.c.resolved_at.is_(None), incidents.c.resolved_at >= since)
        return self._read(sa.select(incident_actions).join(incidents, same).where(recent))

    def _read(self, wanted: sa.Select[Any]) -> dict[str, tuple[IncidentAction, ...]]:
        """In the order in which they were added: the clocks of two hosts may differ."""
        ordered = wanted.order_by(incident_actions.c.id)
        actions: dict[str, tuple[IncidentAction, ...]] = {}
        for row in self._rows(ordered):
            actions[row.incident_id] = (*actions.get(row.incident_id, ()), _action(row))
        return actions


def _action(row: Row[Any]) -> IncidentAction:
    return to_record(IncidentAction, row, kind=ActionKind(row.kind), status=Status(row.status))
