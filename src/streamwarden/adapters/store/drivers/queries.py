"""The query repository: the queries of a stream, their names, and the newest run of each."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.tables import queries
from streamwarden.lifecycle.queries import QueryRecord
from streamwarden.stream.spec import TriggerSpec


class SqlQueryRepository(Repository):
    """Where queries are recorded. All writes are idempotent."""

    def started(self, record: QueryRecord) -> None:
        """Record that a run of the query started. A newer run, and when the query was first seen, stay as they are."""

        def put(connection: Connection) -> None:
            stored = connection.execute(queries.select().where(*_is(record.stream, record.name))).one_or_none()
            if stored is not None and stored.started_at > record.started_at:
                return
            row = asdict(record)
            if stored is not None and stored.checkpoint == record.checkpoint:
                row["first_at"] = stored.first_at
            if stored is not None and stored.run_id == record.run_id:
                row |= {"ended_at": stored.ended_at, "error": stored.error}
            upsert(connection, queries, [row])

        self._database.write(put)

    def ended(self, stream: str, name: str, run_id: str, at: float, error: str | None) -> None:
        """Record that the run ended. The end of an older run than the recorded one changes nothing."""
        end = queries.update().where(*_is(stream, name), queries.c.run_id == run_id, queries.c.ended_at.is_(None))
        self._execute(end.values(ended_at=at, error=error))

    def forget(self, stream: str, name: str) -> None:
        """Remove the query, because it has another name from now on."""
        gone = queries.delete().where(*_is(stream, name))
        self._execute(gone)

    def of(self, stream: str) -> tuple[QueryRecord, ...]:
        """The queries of `stream`, by name."""
        return self.of_many([stream])[stream]

    def of_many(self, streams: Collection[str]) -> dict[str, tuple[QueryRecord, ...]]:
        """`of` for many streams at once."""
        wanted = queries.select().order_by(queries.c.stream, queries.c.name)
        if len(streams) == 1:
            wanted = wanted.where(queries.c.stream == next(iter(streams)))
        return self._grouped(wanted, streams, _read)


def _is(stream: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return queries.c.stream == stream, queries.c.name == name


def _read(row: Row[Any]) -> QueryRecord:
    return QueryRecord(**{**row._mapping, "trigger": TriggerSpec(**row.trigger)})
