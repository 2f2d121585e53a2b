"""Writes a stream's batches into a table, each exactly once: rows and entry in the batch table are one transaction.

    lock the query's row of the batch table -> was this driver replaced? (LeaseLost) -> is the batch there? (skip)
    -> COPY, or COPY aside and upsert -> note the batch -> notify its listeners -> COMMIT

A driver that is killed before the commit leaves nothing. One that is killed after it, and before Spark's own
`commits/N`, runs the batch again, and the batch table has it. The same holds if the commit's answer was lost.
"""

import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import psycopg
from psycopg import sql

from streamwarden.adapters.postgresql.access import DatabaseAccess, explain, passes
from streamwarden.errors import ConfigError, JobError, SinkError, SinkInterrupted, StreamwardenError
from streamwarden.sinks.postgresql import batch_table
from streamwarden.sinks.postgresql.copy import copy_rows
from streamwarden.sinks.postgresql.table import BATCH, Table, Target, ensure

T = TypeVar("T")

FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 10.0
"""Seconds before the second attempt of a transaction, and between two attempts at most."""

LOOKS_EVERY: Final = 0.25
"""Seconds between two looks whether the driver has to end, while an attempt is waited for."""

_ASIDE: Final = "streamwarden_batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch to be written.

    Args:
        plan: digest of what the checkpoint says that the batch reads: it distinguishes two batches of one number.
        rows: gives the rows, from the first, each time that it is called; each in the order of the target's columns.
        count: how many rows there are.
    """

    query_id: str
    batch_id: int
    plan: str
    rows: Callable[[], Iterable[Sequence[object]]] = field(repr=False)
    count: int


def waits_for(patience: float) -> tuple[float, ...]:
    """Seconds before each further attempt: twice as long each time up to LONGEST_WAIT, `patience` in all."""
    waits: list[float] = []
    left, wait = patience, FIRST_WAIT
    while left > 0:
        waits.append(min(wait, left))
        left -= waits[-1]
        wait = min(2 * wait, LONGEST_WAIT)
    return tuple(waits)


class TableSink:
    """Writes one stream's batches.

    Args:
        token: fencing token of the driver's lease.
        waits: seconds before each further attempt of a transaction that failed for a reason that passes.
        patience: seconds after the first failed attempt in which further ones begin; None: as long as `waits` lasts.
        ending: whether the driver has to end: then no further attempt is made.
    """

    def __init__(
        self,
        target: Target,
        access: DatabaseAccess,
        *,
        stream: str,
        token: int,
        waits: Sequence[float] = (),
        patience: float | None = None,
        ending: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._access = access
        self._stream = stream
        self._token = token
        self._waits = waits
        self._patience = patience
        self._ending = ending
        self._sleep = sleep or _unless(ending)
        self._clock = clock
        self._table: Table | None = None
        self._took_over = False

    def prepare(self, query_id: str | None) -> Table:
        """Create the table and the batch table, or check that they fit; before the query starts.

        Args:
            query_id: None: the query has no checkpoint yet.

        Raises ConfigError if the table does not fit or the database refuses the user, SinkError if it is unreachable.
        """

        def work(cursor: psycopg.Cursor[Any]) -> Table:
            table = ensure(cursor, self._target)
            batch_table.make(cursor, table.schema)
            batch_table.require_own(cursor, table, query_id)
            return table

        self._table = self._transaction("the table is prepared", work)
        return self._table

    def write(self, batch: Batch) -> bool:
        """Write the batch; False: it was there already.

        Raises:
            LeaseLost: a newer driver of the stream has written.
            CheckpointError: the checkpoint and the table do not belong together.
            JobError: the table does not take the rows.
            SinkError: the database could not be reached, or refused, in each of the attempts.
            ConfigError: it refuses the user, or the table is not what it was.
        """
        table = self._table or self.prepare(batch.query_id)
        if not self._took_over:
            self._take_over(table, batch.query_id)

        def work(cursor: psycopg.Cursor[Any]) -> bool:
            # A commit that a crash of the server could take back would be lost: Spark does not write it again.
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', true)"
                " WHERE current_setting('synchronous_commit') = 'off'"
            )
            position = batch_table.claim(cursor, table, batch.query_id, stream=self._stream, token=self._token)
            if self.is_there(position, batch, table):
                return False
            self._put(cursor, table, batch)
            batch_table.note(cursor, table, batch.query_id, batch=batch.batch_id, plan=batch.plan, rows=batch.count)
            return True

        return self._transaction(f"batch {batch.batch_id}", work)

    def _take_over(self, table: Table, query_id: str) -> None:
        """Before the first batch: write our token into the batch table, and end the sessions of a replaced driver."""

        def work(cursor: psycopg.Cursor[Any]) -> None:
            batch_table.evict(cursor, table, query_id, stream=self._stream, token=self._token)
            batch_table.claim(cursor, table, query_id, stream=self._stream, token=self._token)

        self._transaction("the driver takes over", work)
        self._took_over = True

    def is_there(self, position: batch_table.Position, batch: Batch, table: Table) -> bool:
        """The guard: whether the batch table has the batch."""
        return batch_table.is_there(position, batch.batch_id, batch.plan, table)

    def _put(self, cursor: psycopg.Cursor[Any], table: Table, batch: Batch) -> None:
        """The batch's rows into the table, all of them."""
        names = [column.name for column in self._target.columns]
        columns = sql.SQL(", ").join(map(sql.Identifier, (*names, BATCH)))
        into: sql.Identifier = table.identifier
        if self._target.replaces:
            into = sql.Identifier("pg_temp", _ASIDE)
            cursor.execute(
                sql.SQL("CREATE TEMPORARY TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA").format(
                    sql.Identifier(_ASIDE), columns, table.identifier
                )
            )
        rows = ((*row, batch.batch_id) for row in batch.rows())
        try:
            sent = copy_rows(cursor, into, (*names, BATCH), table.oids, rows)
        except (OverflowError, UnicodeError, struct.error) as error:
            raise JobError(
                f"a row of batch {batch.batch_id} cannot be written: {error}",
                expected="values that the column's type can hold",
                where=str(table),
                next_step="correct or filter such rows in the job",
            ) from error
        if sent != batch.count:
            raise SinkError(
                f"{sent} rows of batch {batch.batch_id} arrived of {batch.count}",
                expected="all of them",
                where=str(table),
                next_step="start the stream again: nothing of the batch was committed",
            )
        if self._target.replaces:
            cursor.execute(self._upsert(table, into, columns, names))
        if cursor.rowcount != sent:
            raise ConfigError(
                f"the table took {cursor.rowcount} of the {sent} rows of batch {batch.batch_id}",
                expected="a table that takes every row",
                where=str(table),
                next_step="find the trigger or the rule of the table that leaves rows out",
            )

    def _upsert(
        self, table: Table, source: sql.Identifier, columns: sql.Composed, names: Sequence[str]
    ) -> sql.Composed:
        changes = [
            sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name))
            for name in (*names, BATCH)
            if name not in self._target.key
        ]
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO UPDATE SET {}").format(
            table.identifier,
            columns,
            columns,
            source,
            sql.SQL(", ").join(map(sql.Identifier, self._target.key)),
            sql.SQL(", ").join(changes),
        )

    def _transaction(self, what: str, work: Callable[[psycopg.Cursor[Any]], T]) -> T:
        """`work` in a transaction of its own session; again, after a wait, if it failed for a reason that
        passes. That is safe after a commit with no answer too: the batch table shows whether it was one."""
        where = f"{self._name()} (connection {self._access.connection}), {what}"
        failed_at: float | None = None
        for wait in (*self._waits, None):
            try:
                with self._access.open(self._stream) as session, session.cursor() as cursor:
                    return work(cursor)
            except psycopg.Error as error:
                explained = explain(error, connection=self._access.connection, where=where)
                now = self._clock()
                failed_at = now if failed_at is None else failed_at
                late = self._patience is not None and now - failed_at >= self._patience
                if wait is None or late or not passes(error):
                    raise explained from error
                print(f"streamwarden: {explained.observed}; again in {wait:g} s", file=sys.stderr, flush=True)
                self._sleep(wait)
                if self._ending():
                    raise _interrupted(explained) from error
        raise AssertionError("unreachable")

    def _name(self) -> str:
        return f"{self._target.schema}.{self._target.table}" if self._target.schema else self._target.table


def _unless(ending: Callable[[], bool]) -> Callable[[float], None]:
    """A sleep that is over as soon as `ending` says so."""

    def sleep(seconds: float) -> None:
        end = time.monotonic() + seconds
        while not ending() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOKS_EVERY))

    return sleep


def _interrupted(explained: StreamwardenError) -> SinkInterrupted:
    return SinkInterrupted(
        f"the driver has to end: {explained.observed}",
        expected="a database that answers until then",
        where=explained.where,
        next_step="nothing is lost: the batch is written when the stream starts again",
    )
