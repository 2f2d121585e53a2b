"""The journal repository: drill runs, and the observations of each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.drills import trials
from streamwarden.adapters.store.process_columns import to_columns, to_record
from streamwarden.adapters.store.tables import drills, journal_entries
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalEntry
from streamwarden.drills.reporting.listing import DrillVerdict, RunFilter
from streamwarden.errors import DrillError

_LISTED: Final = [column for column in drills.c if column.name != "facts"]
"""The columns that a list shows of a run: the facts of one are tens of kilobytes."""

_DEVIATED: Final[Mapping[DrillVerdict, sa.ColumnElement[bool]]] = {
    DrillVerdict.PASSED: drills.c.deviated.is_(sa.false()),
    DrillVerdict.DEVIATED: drills.c.deviated.is_(None) | drills.c.deviated.is_(sa.true()),
}
"""The verdict that the second axis of a completed run stands for."""


class SqlJournalRepository(Repository):
    """Implements `drills.journal.JournalRepository`."""

    def save(self, run: DrillRun) -> None:
        """Insert the run or replace it, and the trials of one that has ended."""
        row = to_columns(drills, run, status=run.status.value)

        def put(connection: Connection) -> None:
            upsert(connection, drills, [row])
            if run.status is not DrillStatus.RUNNING:
                trials.put(connection, run)

        self._database.write(put)

    def append(self, run_id: str, entry: JournalEntry) -> None:
        """Add a line to the journal; a line is never changed or removed."""
        row = to_columns(journal_entries, entry, run_id=run_id, step=entry.step.value)
        self._execute(journal_entries.insert().values(row))

    def get(self, run_id: str) -> DrillRun | None:
        query = drills.select().where(drills.c.run_id == run_id)
        row = self._row(query)
        return None if row is None else _run(row)

    def entries(self, run_id: str) -> Sequence[JournalEntry]:
        """The lines in the order in which they were appended. Raises DrillError if another version wrote some of a
        step that this one does not know."""
        query = journal_entries.select().where(journal_entries.c.run_id == run_id).order_by(journal_entries.c.id)
        rows = self._rows(query)
        return tuple(_entry(row) for row in rows)

    def recent(self, drill: str | None = None, stream: str | None = None, limit: int = 50) -> Sequence[DrillRun]:
        """The newest runs, newest first."""
        query = drills.select().order_by(drills.c.started_at.desc(), drills.c.run_id).limit(limit)
        if drill is not None:
            query = query.where(drills.c.drill == drill)
        if stream is not None:
            query = query.where(drills.c.stream == stream)
        return tuple(_run(row) for row in self._rows(query))

    def newest(self, *, ended: bool = False) -> dict[str, DrillRun]:
        """Stream -> its newest run, or the newest of those that have ended.

        Only a run that was aborted has its facts, which say whether a person declined it: those of all the others would
        be megabytes, and the pages read them each second.
        """
        last = sa.select(drills.c.stream, sa.func.max(drills.c.started_at).label("at")).group_by(drills.c.stream)
        if ended:
            last = last.where(drills.c.status != DrillStatus.RUNNING.value)
        newest = last.subquery()
        same = (newest.c.stream == drills.c.stream) & (newest.c.at == drills.c.started_at)
        facts = sa.case((drills.c.status == DrillStatus.ABORTED.value, drills.c.facts), else_=None).label("facts")
        rows = self._rows(sa.select(*_LISTED, facts).join(newest, same).order_by(drills.c.run_id))
        return {row.stream: replace(_listed(row), facts=row.facts or {}) for row in rows}

    def listed(self, chosen: RunFilter) -> tuple[Sequence[DrillRun], int]:
        """The page of runs that was chosen, newest first and without their facts, and how many fit on all pages."""
        fitting = sa.and_(*_conditions(chosen))
        page = sa.select(*_LISTED).where(fitting).order_by(drills.c.started_at.desc(), drills.c.run_id)
        page = page.offset(chosen.offset).limit(chosen.limit)
        count = sa.select(sa.func.count()).select_from(drills).where(fitting)
        return self._database.read(
            lambda connection: (
                tuple(_listed(row) for row in connection.execute(page)),
                int(connection.execute(count).scalar_one()),
            )
        )

    def drilled(self) -> Sequence[tuple[str, str]]:
        """The name and the stream of each drill that ever ran, sorted."""
        query = sa.select(drills.c.drill, drills.c.stream).distinct().order_by(drills.c.drill, drills.c.stream)
        rows = self._rows(query)
        return tuple((row.drill, row.stream) for row in rows)

    def newest_of_drills(self, *, ended: bool = False) -> dict[str, DrillRun]:
        """Drill -> its newest run, or the newest of those that have ended, without its facts."""
        last = sa.select(drills.c.drill, sa.func.max(drills.c.started_at).label("at")).group_by(drills.c.drill)
        if ended:
            last = last.where(drills.c.status != DrillStatus.RUNNING.value)
        newest = last.subquery()
        same = (newest.c.drill == drills.c.drill) & (newest.c.at == drills.c.started_at)
        query = sa.select(*_LISTED).join(newest, same).order_by(drills.c.run_id)
        rows = self._rows(query)
        return {row.drill: _listed(row) for row in rows}

    def running(self) -> Sequence[DrillRun]:
        """Every run that has not ended, newest first."""
        query = drills.select().where(drills.c.ended_at.is_(None)).order_by(drills.c.started_at.desc(), drills.c.run_id)
        return tuple(_run(row) for row in self._rows(query))


def _conditions(chosen: RunFilter) -> list[sa.ColumnElement[bool]]:
    conditions: list[sa.ColumnElement[bool]] = [drills.c.drill.in_(sorted(chosen.drills))]
    if chosen.stream:
        conditions.append(drills.c.stream == chosen.stream)
    if chosen.before is not None:
        conditions.append(drills.c.started_at < chosen.before)
    if chosen.verdict is not None:
        conditions.append(drills.c.status == chosen.verdict.status.value)
        conditions.append(_DEVIATED.get(chosen.verdict, sa.true()))
    return conditions


def _entry(row: Row[Any]) -> JournalEntry:
    try:
        step = DrillStep(row.step)
    except ValueError as error:
        raise DrillError(
            f"the journal of the run cannot be read: it has a step {row.step!r}",
            expected=f"one of: {', '.join(DrillStep)}",
            where=f"drill run {row.run_id}",
            next_step="read it with the version of Streamwarden that wrote it",
        ) from error
    return JournalEntry(step=step, at=row.at, kind=row.kind, message=row.message, data=row.data)


def _listed(row: Row[Any]) -> DrillRun:
    return DrillRun(**{**row._mapping, "status": DrillStatus(row.status)})


def _run(row: Row[Any]) -> DrillRun:
    return to_record(DrillRun, row, status=DrillStatus(row.status))
