"""The table of a fork: a copy of the origin's, as of one of its batches, in a schema of the fork's own.

psycopg is imported when a fork has a table: a fork of files needs no database.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.forks.places import SCHEMA
from streamwarden.stream.spec import OutputMode, StreamSpec

if TYPE_CHECKING:
    from psycopg import Cursor

    from streamwarden.sinks.postgresql.table import Table


def make_empty(origin: StreamSpec, forked: StreamSpec) -> None:
    """The fork's schema, with an empty table like the origin's (if there is one; else the fork's driver makes it).

    Raises CheckpointError if the database does not allow it.
    """
    with _session(forked) as cursor:
        _make(cursor, _table(cursor, origin), _table(cursor, forked))


def copy(origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None) -> int:
    """Creates the fork's schema with the origin's rows up to `rewind` batches before its newest, and a batch table.

    Args:
        query_id: the fork's.
        upto: the batch that counts as the newest; None: the newest in the table.

    Returns the batch that counts as the newest: the checkpoint has it, or will have it in a moment.

    Raises CheckpointError if there is no such batch, or its rows are gone: in update mode each was replaced by a later
    one. Also if the database does not allow it.
    """
    from streamwarden.adapters.storage.files import checkpoint_of
    from streamwarden.sinks.postgresql import batch_table

    with _session(forked) as cursor:
        source, target = _table(cursor, origin), _table(cursor, forked)
        position = batch_table.read(cursor, source, read_query_id(checkpoint_of(origin)) or "")
        written = None if position is None else position.batch
        newest = written if upto is None else upto
        if written is None or newest is None or not rewind <= newest <= written:
            beyond = f"none {rewind} before that" if upto is None else f"not yet batch {upto}"
            raise CheckpointError(
                "the query has written no batch to the table yet"
                if written is None
                else f"the table has batches 0 to {written}, and {beyond}",
                expected="a batch to fork at",
                where=str(source),
                next_step="wait for the next batches, or fork from the beginning (`rewind: all`)",
            )
        batch = newest - rewind
        if batch < written and origin.sink.mode is OutputMode.UPDATE:
            raise _replaced(origin, written - batch)
        _make(cursor, source, target)
        _copy_rows(cursor, source, target, batch)
        batch_table.make(cursor, target.schema)
        batch_table.claim(cursor, target, query_id, stream=forked.name, token=0)
        batch_table.note(cursor, target, query_id, batch=batch, plan="", rows=0)
    return newest


def _replaced(origin: StreamSpec, ago: int) -> CheckpointError:
    return CheckpointError(
        f"the table of {ago} batches ago cannot be restored: in update mode a row replaces the earlier one",
        expected="rewind: 0, or rewind: all",
        where=origin.file or origin.name,
        next_step="fork at the newest batch (`rewind: 0`), or from the beginning (`rewind: all`)",
    )


def drop(forked: StreamSpec) -> str | None:
    """Drop the fork's schema with all that is in it; returns its name, None if it was not there.

    Raises CheckpointError if the database does not allow it, or the table is not in the schema of a fork.
    """
    from psycopg import sql

    with _session(forked) as cursor:
        schema = _table(cursor, forked).schema
        if not schema.startswith(SCHEMA):
            raise CheckpointError(f"{schema} is not the schema of a fork", expected=f"{SCHEMA}…", where=forked.name)
        if cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
            return None
        cursor.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        return schema


def keep(forked: StreamSpec) -> None:
    """Keep a copy of the fork's table in its schema. Raises CheckpointError if the database does not allow it."""
    from psycopg import sql

    with _session(forked) as cursor:
        table = _table(cursor, forked)
        cursor.execute(sql.SQL("CREATE TABLE {} AS TABLE {}").format(_kept(table).identifier, table.identifier))


def set_back(forked: StreamSpec, batch: int | None, plan: bytes) -> None:
    """Set the table and the batch table back to their content after `batch`, from the rows that were kept.

    Args:
        plan: content of `offsets/BATCH`, of which the batch table holds a digest.

    Raises CheckpointError if the database does not allow it.
    """
    from psycopg import sql

    from streamwarden.adapters.storage.files import open_path
    from streamwarden.sinks.postgresql import batch_table

    with _session(forked) as cursor:
        table = _table(cursor, forked)
        cursor.execute(sql.SQL("DELETE FROM {}").format(table.identifier))
        batch_table.clear(cursor, table)
        if batch is not None:
            query_id = read_query_id(open_path(forked.checkpoint)) or ""
            _copy_rows(cursor, _kept(table), table, batch)
            batch_table.claim(cursor, table, query_id, stream=forked.name, token=0)
            digest = hashlib.sha256(plan).hexdigest()
            batch_table.note(cursor, table, query_id, batch=batch, plan=digest, rows=0)


def _kept(table: Table) -> Table:
    return replace(table, name=f"{table.name[:58]}_kept")


@contextmanager
def _session(forked: StreamSpec) -> Iterator[Cursor[Any]]:
    """A transaction that sees the database as of one moment; a refusal is a CheckpointError."""
    import psycopg

    from streamwarden.adapters.postgresql.access import access, explain

    connection = forked.sink.connection or ""
    try:
        with access(connection).open(f"fork {forked.name}") as session, session.cursor() as cursor:
            session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield cursor
    except psycopg.Error as error:
        explained = explain(error, connection=connection, where=f"{forked.sink.table} (connection {connection})")
        raise CheckpointError(
            f"the fork's table cannot be made: {explained.observed}",
            expected="a user that may create a schema in the database, and read the stream's table",
            where=explained.where,
            next_step=f"grant it (GRANT CREATE ON DATABASE …), or {explained.next_step}",
        ) from error


def _table(cursor: Cursor[Any], spec: StreamSpec) -> Table:
    from streamwarden.sinks.postgresql.table import Table, find_schema, split

    schema, name = split(spec.sink.table or "")
    return Table(schema=find_schema(cursor, schema), name=name, oids=())


def _make(cursor: Cursor[Any], source: Table, target: Table) -> None:
    from psycopg import sql

    cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(target.schema)))
    if cursor.execute("SELECT to_regclass(%s)", (source.identifier.as_string(cursor),)).fetchone() != (None,):
        cursor.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(target.identifier, source.identifier))


def _copy_rows(cursor: Cursor[Any], source: Table, target: Table, batch: int) -> None:
    """All columns but those that the table computes itself."""
    from psycopg import sql

    from streamwarden.sinks.postgresql.table import BATCH

    names = cursor.execute(
        sql.SQL(
            "SELECT attname FROM pg_attribute WHERE attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attgenerated = '' ORDER BY attnum"
        ).format(sql.Literal(source.identifier.as_string(cursor)))
    ).fetchall()
    columns = sql.SQL(", ").join(sql.Identifier(name) for (name,) in names)
    cursor.execute(
        sql.SQL("INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {} WHERE {} <= {}").format(
            target.identifier, columns, columns, source.identifier, sql.Identifier(BATCH), sql.Literal(batch)
        )
    )
