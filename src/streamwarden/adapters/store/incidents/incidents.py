"""The incident repository: open and past problems, and which process may notify about them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import desired_states, incidents
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.supervision.stop import Desired

_OPEN: Final = incidents.select().where(incidents.c.resolved_at.is_(None)).order_by(incidents.c.opened_at)

_UPDATE: Final = incidents.update().where(
    incidents.c.incident_id == sa.bindparam("this"),
    sa.or_(incidents.c.resolved_at.is_(None), sa.bindparam("ends", type_=sa.Boolean)),
)
_CHUNK: Final = 1000
"""Incidents in one transaction, so that no writer waits long for the lock."""


class SqlIncidentRepository(Repository):
    """Implements `health.incident.IncidentRepository`."""

    def open(self, stream: str | None = None) -> Sequence[Incident]:
        """Unresolved incidents, oldest first."""
        return self._read(_OPEN, stream)

    def alarming(self) -> Sequence[Incident]:
        """Unresolved incidents of the streams that should not be stopped, oldest first. Advice is no alarm.

        Both are read in one transaction, so a stop that was requested before silences every incident of its stream.
        """
        stopped = sa.select(desired_states.c.stream).where(desired_states.c.desired == Desired.STOPPED.value)

        def select(connection: Connection) -> tuple[Incident, ...]:
            silent = frozenset(connection.execute(stopped).scalars())
            opened = map(_incident, connection.execute(_OPEN.where(incidents.c.status != Status.ADVICE.value)))
            return tuple(incident for incident in opened if owner(incident.stream) not in silent)

        return self._database.read(select)

    def ended(self, since: float) -> Sequence[Incident]:
        """Incidents that were resolved at or after `since` (Unix seconds), oldest first."""
        query = incidents.select().where(incidents.c.resolved_at >= since).order_by(incidents.c.resolved_at)
        return self._read(query, None)

    def consequences(self, incident_id: str) -> Sequence[Incident]:
        """The consequences of this incident, open or resolved, oldest first."""
        query = incidents.select().where(incidents.c.consequence_of == incident_id).order_by(incidents.c.opened_at)
        return self._read(query, None)

    def matching(self, beginning: str) -> Sequence[Incident]:
        """The incidents whose ids begin so, at most two, newest first: two are enough to see that it is ambiguous.

        An id that is given whole is the only match, although another one may begin with it.
        """
        whole = self._read(incidents.select().where(incidents.c.incident_id == beginning), None)
        if whole or not beginning:
            return whole
        begins = incidents.c.incident_id.startswith(beginning, autoescape=True)
        return self._read(incidents.select().where(begins).order_by(incidents.c.opened_at.desc()).limit(2), None)

    def save(self, incident: Incident) -> None:
        """Insert or replace by id. Raises StoreError for a second open incident of one stream and check.

        A recorded notification is never overwritten, and a resolved incident is never reopened: another process may
        have notified, or stopped the stream, since this incident was read.
        """
        row = _columns(incident)

        def put(connection: Connection) -> bool:
            this = incidents.c.incident_id == incident.incident_id
            stored = connection.execute(incidents.select().where(this).with_for_update()).one_or_none()
            if incident.resolved_at is None and _another_is_open(connection, incident):
                return False
            if stored is None:
                connection.execute(incidents.insert().values(row))
                return True
            if stored.resolved_at is not None and incident.resolved_at is None:
                return True
            connection.execute(incidents.update().where(this).values(row))
            return True

        if not self._database.write(put):
            raise self._database.failure(
                f"stream {incident.stream} has an open incident of check {incident.check} already",
                expected="at most one open incident of a stream and a check",
                next_step="update the open one, or resolve it first",
            )

    def update(self, known: Iterable[Incident]) -> None:
        """Save incidents that are stored, a thousand in each transaction.

        As with `save`, a recorded notification is never overwritten and a resolved incident is never reopened.
        """
        rows = [
            _columns(incident) | {"this": incident.incident_id, "ends": incident.resolved_at is not None}
            for incident in known
        ]
        for start in range(0, len(rows), _CHUNK):
            self._execute(_UPDATE, rows[start : start + _CHUNK])

    def recent(self, stream: str | None = None, limit: int = 100) -> Sequence[Incident]:
        """The newest incidents, open or resolved, newest first."""
        return self._read(incidents.select().order_by(incidents.c.opened_at.desc()).limit(limit), stream)

    def streams(self) -> Sequence[str]:
        """The streams and queries that ever had an incident."""
        query = sa.select(incidents.c.stream).distinct()
        return self._database.read(lambda connection: connection.execute(query).scalars().all())

    def recent_of(self, streams: Collection[str], limit: int = 100) -> Sequence[Incident]:
        """`recent`, of exactly these streams and queries."""
        query = incidents.select().where(incidents.c.stream.in_(streams))
        return self._read(query.order_by(incidents.c.opened_at.desc()).limit(limit), None)

    def _read(self, query: sa.Select[Any], stream: str | None) -> tuple[Incident, ...]:
        if stream is not None:
            query = query.where(incidents.c.stream == stream)
        return tuple(_incident(row) for row in self._rows(query))


def _columns(incident: Incident) -> dict[str, Any]:
    status, peak, evidence = incident.status.value, incident.peak.value, incident.evidence or None
    return to_columns(incidents, incident, check_name=incident.check, status=status, peak=peak, evidence=evidence)


def _another_is_open(connection: Connection, incident: Incident) -> bool:
    query = incidents.select().where(
        incidents.c.stream == incident.stream,
        incidents.c.check_name == incident.check,
        incidents.c.resolved_at.is_(None),
        incidents.c.incident_id != incident.incident_id,
    )
    return connection.execute(query).first() is not None


def _incident(row: Row[Any]) -> Incident:
    status, peak, evidence = Status(row.status), Status(row.peak), row.evidence or {}
    return to_record(Incident, row, check=row.check_name, status=status, peak=peak, evidence=evidence)
