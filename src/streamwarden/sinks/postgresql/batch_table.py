"""The sink's batch table: which batch of which query is in a table, and the token of its newest writer.

One row for each query and table, in the table's own schema, changed in the transaction that writes the batch's rows:
either both are there or neither. The row's lock makes two drivers wait for each other; the token shows which of them
was replaced.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import psycopg
from psycopg import sql

from streamwarden.errors import CheckpointError, ConfigError, LeaseLost
from streamwarden.sinks.postgresql.table import BATCH_TABLE, Table

CHANNEL: Final = BATCH_TABLE
"""Each committed batch is reported on this channel (LISTEN): a JSON object of query_id, table and batch_id."""

_NONE: Final = -1

_SELECT: Final = "SELECT batch_id, plan, token FROM {relation} WHERE query_id = {query} AND table_name = {table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The row of a query in the batch table: its newest batch in the table (None: none yet), the digest of that batch's
    plan, and the token of its newest writer."""

    batch: int | None
    plan: str
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A batch as it is reported to the listeners of CHANNEL."""

    query_id: str
    table: str
    batch_id: int

    @classmethod
    def parse(cls, payload: str) -> Note | None:
        """None for a message that no sink sent."""
        try:
            body = json.loads(payload)
            return cls(query_id=str(body["query_id"]), table=str(body["table"]), batch_id=int(body["batch_id"]))
        except (ValueError, KeyError, TypeError):
            return None


def make(cursor: psycopg.Cursor[Any], schema: str) -> None:
    """Create the batch table of a schema if it does not exist."""
    relation = sql.Identifier(schema, BATCH_TABLE)
    if _exists(cursor, relation):  # checked first: a user that may not create tables may still write to this one
        return
    cursor.execute(
        sql.SQL(
            "CREATE TABLE {} (query_id text, table_name text, stream text NOT NULL,"
            " batch_id bigint NOT NULL, plan text NOT NULL, token bigint NOT NULL, rows bigint NOT NULL,"
            " written_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (query_id, table_name))"
        ).format(relation)
    )


def _exists(cursor: psycopg.Cursor[Any], relation: sql.Identifier) -> bool:
    return cursor.execute("SELECT to_regclass(%s)", (relation.as_string(cursor),)).fetchone() != (None,)


def others(cursor: psycopg.Cursor[Any], table: Table, query_id: str | None) -> list[tuple[str, str, int]]:
    """(query, stream, newest batch) of the other queries that have written the table."""
    return cursor.execute(
        sql.SQL(
            "SELECT query_id, stream, batch_id FROM {} WHERE table_name = {} AND query_id IS DISTINCT FROM {}"
            " ORDER BY written_at DESC"
        ).format(sql.Identifier(table.schema, BATCH_TABLE), sql.Literal(table.name), sql.Literal(query_id))
    ).fetchall()


def newest(cursor: psycopg.Cursor[Any], table: Table, query_ids: Sequence[str]) -> int | None:
    """The newest batch in the table, of these queries; if it has rows, of any query. None: it has none."""
    if not _exists(cursor, sql.Identifier(table.schema, BATCH_TABLE)) or not _exists(cursor, table.identifier):
        return None
    own = [position.batch for query_id in query_ids if (position := read(cursor, table, query_id)) is not None]
    filled = cursor.execute(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table.identifier)).fetchone()
    foreign = [batch for _, _, batch in others(cursor, table, None)] if filled == (True,) else []
    return max((batch for batch in (*own, *foreign) if batch is not None and batch != _NONE), default=None)


def require_own(cursor: psycopg.Cursor[Any], table: Table, query_id: str | None) -> None:
    """Raises ConfigError if the table holds rows of another query: a query that begins again would write them again."""
    strangers = others(cursor, table, query_id)
    if not strangers:
        return
    filled = cursor.execute(sql.SQL("SELECT EXISTS (SELECT 1 FROM {})").format(table.identifier)).fetchone()
    if filled is not None and filled[0]:
        query, stream, batch = strangers[0]
        raise ConfigError(
            f"the table holds what another query wrote: {query} of the stream {stream}, up to batch {batch}",
            expected="a table for each query; one with a new checkpoint begins again, and would write all rows again",
            where=str(table),
            next_step=f"name another table, or empty this one (TRUNCATE {table}); if both are meant to be in it: "
            f"take the row of query_id {query} and table_name {table.name} out of {table.schema}.{BATCH_TABLE}",
        )


def evict(cursor: psycopg.Cursor[Any], table: Table, query_id: str, *, stream: str, token: int) -> None:
    """End the sessions of drivers that this one replaced: one that hangs in mid-batch would keep the lock.

    Each driver that has written, or only tried to, has left its token in the batch table: if that token is not older,
    no driver was replaced.
    """
    position = read(cursor, table, query_id)
    if position is None or position.token >= token:
        return
    cursor.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        " AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid()",
        (stream,),
    )


def claim(cursor: psycopg.Cursor[Any], table: Table, query_id: str, *, stream: str, token: int) -> Position:
    """The batch table's row of the query, created if need be, with our token, and locked until the transaction ends.

    Raises LeaseLost if a driver with a newer token was there: this one was replaced and must not write.
    """
    relation = sql.Identifier(table.schema, BATCH_TABLE)
    key = {"query": sql.Literal(query_id), "table": sql.Literal(table.name)}
    token_literal = sql.Literal(token)
    cursor.execute(
        sql.SQL(
            "INSERT INTO {relation} (query_id, table_name, stream, batch_id, plan, token, rows)"
            " VALUES ({query}, {table}, {stream}, {none}, '', {mine}, 0) ON CONFLICT DO NOTHING"
        ).format(relation=relation, stream=sql.Literal(stream), none=sql.Literal(_NONE), mine=token_literal, **key)
    )
    row = cursor.execute(sql.SQL(f"{_SELECT} FOR UPDATE").format(relation=relation, **key)).fetchone()
    assert row is not None  # inserted above, or there before
    position = _position(row)
    if position.token > token:
        raise LeaseLost(
            f"a driver with the fencing token {position.token} has been at the table; this one has {token}",
            expected="the newest driver of the stream alone to write",
            where=str(table),
            next_step="nothing to do if the new driver runs; if Streamwarden's store was replaced by an empty one, its "
            f"tokens began again: set token to 0 in {table.schema}.{BATCH_TABLE} where table_name is {table.name}",
        )
    if position.token < token:
        cursor.execute(
            sql.SQL("UPDATE {relation} SET token = {mine} WHERE query_id = {query} AND table_name = {table}").format(
                relation=relation, mine=token_literal, **key
            )
        )
    return position


def clear(cursor: psycopg.Cursor[Any], table: Table) -> None:
    """Forget every query that has written the table."""
    relation = sql.Identifier(table.schema, BATCH_TABLE)
    cursor.execute(sql.SQL("DELETE FROM {} WHERE table_name = {}").format(relation, sql.Literal(table.name)))


def read(cursor: psycopg.Cursor[Any], table: Table, query_id: str) -> Position | None:
    """The batch table's row of the query; None if there is none, or no batch table."""
    relation = sql.Identifier(table.schema, BATCH_TABLE)
    if not _exists(cursor, relation):
        return None
    key = {"query": sql.Literal(query_id), "table": sql.Literal(table.name)}
    row = cursor.execute(sql.SQL(_SELECT).format(relation=relation, **key)).fetchone()
    return None if row is None else _position(row)


def _position(row: tuple[int, str, int]) -> Position:
    batch, plan, token = row
    return Position(batch=None if batch == _NONE else batch, plan=plan, token=token)


def is_there(position: Position, batch: int, plan: str, table: Table) -> bool:
    """Whether the batch is in the table already.

    Raises CheckpointError if the checkpoint and the table do not belong together any more: it was set back, its newest
    plan is another one, or the table lacks a batch that it has committed.
    """
    if position.batch is None or batch == position.batch + 1:
        return False
    if batch == position.batch and plan == position.plan:
        return True
    back = f"DELETE the rows of batch_id >= {batch} and set the batch table's batch_id to {batch - 1}"
    if batch > position.batch:
        what = f"the table ends with batch {position.batch}, and the checkpoint goes on with batch {batch}"
        step = f"restore the database; or accept the loss: set the batch table's batch_id to {batch - 1}"
    elif batch < position.batch:
        what = f"the table has batches up to {position.batch}, and the checkpoint goes on with batch {batch}"
        step = f"restore the newer checkpoint; or, where rows are only appended, {back}"
    else:
        what = f"batch {batch} is in the table, and the checkpoint has planned another batch of that number"
        step = f"restore the checkpoint with its offsets/{batch}; or, where rows are only appended, {back}"
    raise CheckpointError(
        what,
        expected="the batch after the table's last, or that one again",
        where=f"{table} ({table.schema}.{BATCH_TABLE})",
        next_step=step,
    )


def note(cursor: psycopg.Cursor[Any], table: Table, query_id: str, *, batch: int, plan: str, rows: int) -> None:
    """Note the batch in the claimed row, and report it on CHANNEL when the transaction commits."""
    values = {"query": query_id, "table": table.name, "batch": batch, "plan": plan, "rows": rows}
    cursor.execute(
        sql.SQL(
            "UPDATE {relation} SET batch_id = {batch}, plan = {plan}, rows = {rows}, written_at = now()"
            " WHERE query_id = {query} AND table_name = {table}"
        ).format(
            relation=sql.Identifier(table.schema, BATCH_TABLE),
            **{name: sql.Literal(value) for name, value in values.items()},
        )
    )
    message = Note(query_id=query_id, table=str(table), batch_id=batch)
    cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, json.dumps(asdict(message))))
