"""Marks of streams: a few numbers of each that change with its status, and not with its batches."""

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa

from streamwarden.adapters.store.database import Database, Repository
from streamwarden.adapters.store.tables import (
    desired_states,
    drills,
    driver_events,
    drivers,
    incident_actions,
    incidents,
    leases,
    mutes,
    queries,
)
from streamwarden.lifecycle.queries import owner

Marks = Mapping[str, tuple[object, ...]]
"""Stream -> its marks."""

_LARGEST: Final[Any] = sa.func.max
_HOW_MANY: Final[Any] = sa.func.count
_OF_STREAMS: Final[tuple[sa.Select[Any], ...]] = (
    sa.select(
        drivers.c.stream,
        _LARGEST(drivers.c.launched_at),
        _HOW_MANY(drivers.c.pid),
        _HOW_MANY(drivers.c.started_at),
        _HOW_MANY(drivers.c.exit_kind),
    ).group_by(drivers.c.stream),
    sa.select(desired_states.c.stream, desired_states.c.desired, desired_states.c.reason, desired_states.c.changed_at),
    sa.select(queries.c.stream, queries.c.name, queries.c.started_at, queries.c.ended_at).order_by(
        queries.c.stream, queries.c.name
    ),
    sa.select(incidents.c.stream, incidents.c.incident_id, incidents.c.status)
    .where(incidents.c.resolved_at.is_(None))
    .order_by(incidents.c.stream, incidents.c.incident_id),
    sa.select(drills.c.stream, _LARGEST(drills.c.started_at), _HOW_MANY(drills.c.ended_at)).group_by(drills.c.stream),
)
"""Rows of (stream, number, …)."""


class SqlMarkRepository(Repository):
    """Reads marks. It remembers the newest event of each driver, so that only newer ones are read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._newest_event = 0
        self._events: dict[str, int] = {}

    def of_streams(self, now: float) -> Marks:
        """The marks of every stream that has any. Those of a stream change if it is launched, starts, exits or is
        stopped, its lease expires, something else happens to its driver, or an incident or a drill begins or ends.
        """
        found: dict[str, list[object]] = {}
        for query in _OF_STREAMS:
            for row in self._rows(query):
                found.setdefault(owner(row.stream), []).extend(row[1:])
        for stream in self._expired(now):
            found.setdefault(stream, []).append("expired")
        for stream, event in self._events_of_streams().items():
            found.setdefault(stream, []).append(event)
        return {stream: tuple(numbers) for stream, numbers in found.items()}

    def of_people(self) -> tuple[object, ...]:
        """Changes with what people do about incidents: acknowledgements and mutes, which concern many streams."""
        action: sa.Select[Any] = sa.select(_LARGEST(incident_actions.c.id))
        mute: sa.Select[Any] = sa.select(
            _HOW_MANY(), _LARGEST(mutes.c.created_at), _LARGEST(mutes.c.ended_at)
        ).select_from(mutes)
        return tuple(tuple(row) for query in (action, mute) for row in self._rows(query))

    def _expired(self, now: float) -> list[str]:
        """The streams whose driver has not renewed its lease."""
        current = leases.c.superseded_at.is_(None) & leases.c.released_at.is_(None)
        rows = self._rows(sa.select(leases.c.stream).distinct().where(current, leases.c.expires_at < now))
        return [row.stream for row in rows]

    def _events_of_streams(self) -> dict[str, int]:
        newer = (
            sa.select(drivers.c.stream, _LARGEST(driver_events.c.id).label("newest"))
            .join(drivers, drivers.c.driver_id == driver_events.c.driver_id)
            .where(driver_events.c.id > self._newest_event)
            .group_by(drivers.c.stream)
        )
        self._events |= {row.stream: row.newest for row in self._rows(newer)}
        self._newest_event = max(self._events.values(), default=self._newest_event)
        return self._events
