"""Brings a table to the batch of an exchanged checkpoint. If the stream goes back, the rows of later batches go, in the
transaction that sets the batch table back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import psycopg
from psycopg import sql

from streamwarden.adapters.postgresql.access import access, explain
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import Exchange
from streamwarden.sinks.postgresql import batch_table
from streamwarden.sinks.postgresql.table import BATCH, Table, find_schema, split
from streamwarden.stream.spec import OutputMode, StreamSpec


def plan_removal(spec: StreamSpec, restore: Exchange) -> str:
    """Say which rows are going to be removed. Raises CheckpointError if the table cannot be put back: it lacks the
    batch, holds rows of other queries, or in update mode its rows were replaced by later ones."""
    with _session(spec) as cursor:
        table = _table(cursor, spec)
        _require(cursor, table, spec, restore)
        rows = _count(cursor, table, ">", restore.batch)
    return f"{rows:,} rows of batches after {restore.batch} are removed from {table}"


def remove_later(spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
    """Remove the rows of later batches. Repeated, it removes nothing. Raises CheckpointError.

    Args:
        plan: content of `offsets/BATCH`, of which the batch table holds a digest.
    """
    with _session(spec) as cursor:
        table = _table(cursor, spec)
        token = _require(cursor, table, spec, restore).token
        batch_table.claim(cursor, table, restore.query_id, stream=spec.name, token=token)  # waits for a writer
        column = sql.Identifier(BATCH)
        removed = cursor.execute(
            sql.SQL("DELETE FROM {} WHERE {} > {}").format(table.identifier, column, sql.Literal(restore.batch))
        ).rowcount
        digest = hashlib.sha256(plan).hexdigest()
        rows = _count(cursor, table, "=", restore.batch)
        batch_table.note(cursor, table, restore.query_id, batch=restore.batch, plan=digest, rows=rows)
    return f"{removed:,} rows of batches after {restore.batch} are removed from {table}"


def _count(cursor: psycopg.Cursor[Any], table: Table, comparison: Literal["=", ">"], batch: int) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE {} {} {}")
    parts = table.identifier, sql.Identifier(BATCH), sql.SQL(comparison), sql.Literal(batch)
    row = cursor.execute(query.format(*parts)).fetchone()
    return 0 if row is None else int(row[0])


def require_reachable(spec: StreamSpec) -> None:
    """Raises CheckpointError if the database does not answer."""
    with _session(spec) as cursor:
        _table(cursor, spec)


def pass_over(spec: StreamSpec, rewrite: Exchange, plan: bytes) -> str:
    """Note a batch without rows in the batch table: the next one would be refused without it. Raises CheckpointError.

    Args:
        plan: content of `offsets/BATCH`.
    """
    with _session(spec) as cursor:
        table = _table(cursor, spec)
        position = batch_table.read(cursor, table, rewrite.query_id)
        if position is None or position.batch is None or position.batch >= rewrite.batch:
            return ""
        batch_table.claim(cursor, table, rewrite.query_id, stream=spec.name, token=position.token)
        digest = hashlib.sha256(plan).hexdigest()
        batch_table.note(cursor, table, rewrite.query_id, batch=rewrite.batch, plan=digest, rows=0)
    return f"batch {rewrite.batch}, which has no rows, was noted in the batch table of {table}"


def _require(cursor: psycopg.Cursor[Any], table: Table, spec: StreamSpec, restore: Exchange) -> batch_table.Position:
    position = batch_table.read(cursor, table, restore.query_id)
    if position is None or position.batch is None or position.batch < restore.batch:
        written = "has no batch" if position is None or position.batch is None else f"ends with batch {position.batch}"
        raise _impossible(table, f"it {written} of the savepoint's query, and the savepoint has batch {restore.batch}")
    if batch_table.others(cursor, table, restore.query_id):
        raise _impossible(table, "it holds rows of other queries, which do not say whose they are")
    if spec.sink.mode is OutputMode.UPDATE and position.batch > restore.batch:
        raise _impossible(table, f"in update mode the rows of batch {restore.batch} were replaced by later ones")
    return position


def _impossible(table: Table, what: str) -> CheckpointError:
    return CheckpointError(
        f"the table cannot be put back to the savepoint: {what}",
        expected="a table that only this query has written, in append mode, with the savepoint's batch",
        where=str(table),
        next_step="fork the savepoint (`streamwarden savepoint fork`), or give the stream a new checkpoint path and a "
        "new table, in one change",
    )


def _table(cursor: psycopg.Cursor[Any], spec: StreamSpec) -> Table:
    schema, name = split(spec.sink.table or "")
    return Table(schema=find_schema(cursor, schema), name=name, oids=())


@contextmanager
def _session(spec: StreamSpec) -> Iterator[psycopg.Cursor[Any]]:
    """One transaction; a refusal of the database is a CheckpointError."""
    connection = spec.sink.connection or ""
    try:
        with access(connection).open(f"exchange {spec.name}") as session, session.cursor() as cursor:
            yield cursor
    except psycopg.Error as error:
        explained = explain(error, connection=connection, where=f"{spec.sink.table} (connection {connection})")
        raise CheckpointError(
            f"the table cannot be brought to the batch of the checkpoint: {explained.observed}",
            expected="a user that may change the stream's table and its batch table",
            where=explained.where,
            next_step=explained.next_step,
        ) from error
