"""The journal repository: drill runs, and the observations of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Row

from streamwarden.adapters.store.database import Database, upsert
from streamwarden.adapters.store.tables import drills, journal_entries
from streamwarden.drills.journal import DrillRun, DrillStatus, DrillStep, JournalEntry


class SqlJournalRepository:
    """Implements `drills.journal.JournalRepository`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, run: DrillRun) -> None:
        """Insert the run or replace it."""
        row = {
            "run_id": run.run_id,
            "drill": run.drill,
            "stream": run.stream,
            "started_at": run.started_at,
            "ended_at": run.ended_at,
            "status": run.status.value,
            "deviated": run.deviated,
            "reason": run.reason,
            "facts": run.facts,
        }
        self._database.write(lambda connection: upsert(connection, drills, [row]))

    def append(self, run_id: str, entry: JournalEntry) -> None:
        """Add a line to the journal; a line is never changed or removed."""
        row = {
            "run_id": run_id,
            "step": entry.step.value,
            "at": entry.at,
            "kind": entry.kind,
            "message": entry.message,
            "data": entry.data,
        }
        self._database.write(lambda connection: connection.execute(journal_entries.insert().values(row)))

    def get(self, run_id: str) -> DrillRun | None:
        query = drills.select().where(drills.c.run_id == run_id)
        row = self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _run(row)

    def entries(self, run_id: str) -> Sequence[JournalEntry]:
        """The lines in the order in which they were appended."""
        query = journal_entries.select().where(journal_entries.c.run_id == run_id).order_by(journal_entries.c.id)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return tuple(
            JournalEntry(step=DrillStep(row.step), at=row.at, kind=row.kind, message=row.message, data=row.data)
            for row in rows
        )

    def recent(self, drill: str | None = None, stream: str | None = None, limit: int = 50) -> Sequence[DrillRun]:
        """The newest runs, newest first."""
        query = drills.select().order_by(drills.c.started_at.desc(), drills.c.run_id).limit(limit)
        if drill is not None:
            query = query.where(drills.c.drill == drill)
        if stream is not None:
            query = query.where(drills.c.stream == stream)
        return tuple(_run(row) for row in self._database.read(lambda connection: connection.execute(query).all()))

    def newest(self) -> dict[str, DrillRun]:
        """Stream -> its newest run."""
        last = sa.select(drills.c.stream, sa.func.max(drills.c.started_at).label("at")).group_by(drills.c.stream)
        newest = last.subquery()
        query = drills.select().join(
            newest, (newest.c.stream == drills.c.stream) & (newest.c.at == drills.c.started_at)
        )
        rows = self._database.read(lambda connection: connection.execute(query.order_by(drills.c.run_id)).all())
        return {row.stream: _run(row) for row in rows}

    def running(self) -> Sequence[DrillRun]:
        """Every run that has not ended, newest first."""
        query = drills.select().where(drills.c.ended_at.is_(None)).order_by(drills.c.started_at.desc(), drills.c.run_id)
        return tuple(_run(row) for row in self._database.read(lambda connection: connection.execute(query).all()))


def _run(row: Row[Any]) -> DrillRun:
    return DrillRun(
        run_id=row.run_id,
        drill=row.drill,
        stream=row.stream,
        started_at=row.started_at,
        status=DrillStatus(row.status),
        deviated=row.deviated,
        reason=row.reason,
        ended_at=row.ended_at,
        facts=row.facts,
    )
