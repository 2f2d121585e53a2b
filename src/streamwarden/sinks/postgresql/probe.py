"""The probe with which a drill queries the database that a fork's sink writes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import DrillError
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

    from streamwarden.drills.ports import Arrivals, HeldTable

_LOCKED_FOR: Final = "2s"
"""For how long a launch waits for a lock on the table."""


@contextmanager
def listen(spec: StreamSpec) -> Iterator[Arrivals]:
    """Hear of every batch of the stream's from here on."""
    from streamwarden.sinks.postgresql.batch_table import CHANNEL

    with _session(spec) as session:
        session.execute(f"LISTEN {CHANNEL}")
        yield _Notes(session, spec.sink.table or "")


def newest(spec: StreamSpec) -> int | None:
    """Newest batch that the batch table of the stream's table has."""
    from streamwarden.sinks.postgresql import batch_table
    from streamwarden.sinks.postgresql.table import Table, split

    schema, name = split(spec.sink.table or "")
    table = Table(schema=schema or "", name=name, oids=())
    checkpoint = checkpoint_of(spec)
    with _session(spec) as session, session.cursor() as cursor:
        position = batch_table.read(cursor, table, read_query_id(checkpoint) or "")
    return None if position is None else position.batch


def newest_of(spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Newest batch of these queries in the stream's table, before a launch; see `batch_table.newest`.

    Raises DrillError if the database does not answer, or a lock on the table is not free soon.
    """
    from streamwarden.sinks.postgresql import batch_table
    from streamwarden.sinks.postgresql.table import Table, find_schema, split

    schema, name = split(spec.sink.table or "")
    with _session(spec, environ) as session, session.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{_LOCKED_FOR}'")
        table = Table(schema=find_schema(cursor, schema), name=name, oids=())
        return batch_table.newest(cursor, table, queries)


@contextmanager
def hold(spec: StreamSpec) -> Iterator[HeldTable]:
    """Lock the stream's table until the end of the block, or of this session."""
    from psycopg import sql

    from streamwarden.sinks.postgresql.table import split

    schema, name = split(spec.sink.table or "")
    relation = sql.Identifier(schema, name) if schema else sql.Identifier(name)
    with _session(spec) as session, session.transaction():
        session.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(relation))
        yield _Held(session, relation, spec.name)


@contextmanager
def _session(spec: StreamSpec, environ: Mapping[str, str] | None = None) -> Iterator[psycopg.Connection[Any]]:
    import psycopg

    from streamwarden.adapters.postgresql.access import access, explain

    sink = spec.sink
    try:
        with access(sink.connection or "", environ).open(f"drill {spec.name}") as session:
            session.autocommit = True
            yield session
    except psycopg.Error as error:
        explained = explain(error, connection=sink.connection or "", where=f"{sink.table}")
        raise DrillError(
            explained.observed, expected=explained.expected, where=explained.where, next_step=explained.next_step
        ) from error


class _Held:
    """The lock of a session on a table, and the sessions of a stream's drivers that wait for it."""

    def __init__(self, session: psycopg.Connection[Any], relation: sql.Identifier, stream: str) -> None:
        self._session = session
        self._relation = relation.as_string(session)
        self._stream = stream

    def waiting(self) -> Sequence[int]:
        self._session.execute("SELECT pg_stat_clear_snapshot()")  # a transaction sees the sessions of its first look
        rows = self._session.execute(
            "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE relation = %s::regclass AND NOT granted AND application_name = %s",
            (self._relation, self._stream[:63]),
        )
        return [pid for (pid,) in rows]

    def is_held(self) -> bool:
        row = self._session.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = %s::regclass AND granted AND pid = pg_backend_pid()"
            " AND mode = 'AccessExclusiveLock'",
            (self._relation,),
        ).fetchone()
        return row is not None and row[0] > 0


class _Notes:
    """The sink's notifications, of one table: a fork's schema is its own, so are its notes."""

    def __init__(self, session: psycopg.Connection[Any], table: str) -> None:
        self._session = session
        self._table = table

    def next(self, timeout: Seconds) -> int | None:
        from streamwarden.sinks.postgresql.batch_table import Note

        for notification in self._session.notifies(timeout=timeout, stop_after=1):
            note = Note.parse(notification.payload)
            if note is not None and note.table == self._table:
                return note.batch_id
        return None
