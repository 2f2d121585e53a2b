"""Probes the database that a fork's sink writes to. psycopg is imported only for such a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.logs import read_query_id
from streamwarden.drills.ports import Arrivals, ForkView
from streamwarden.errors import DrillError
from streamwarden.stream import SinkSpec
from streamwarden.units import Seconds

if TYPE_CHECKING:
    import psycopg


class ForkDatabase:
    """Implements `drills.ports.SinkProbe`."""

    @contextmanager
    def listen(self, fork: ForkView) -> Iterator[Arrivals]:
        """Report every batch of the fork from now on."""
        from streamwarden.adapters.postgresql.ledger import CHANNEL

        with self._session(fork) as session:
            session.execute(f"LISTEN {CHANNEL}")
            yield _Notes(session, _sink(fork).table or "")

    def newest(self, fork: ForkView) -> int | None:
        """The newest batch in the table of batch ids that belongs to the fork's table."""
        from streamwarden.adapters.postgresql import ledger
        from streamwarden.adapters.postgresql.table import Table, split

        schema, name = split(_sink(fork).table or "")
        table = Table(schema=schema or "", name=name, oids=())
        checkpoint = open_path(fork.checkpoint, fork.spec.storage.connection)
        with self._session(fork) as session, session.cursor() as cursor:
            position = ledger.read(cursor, table, read_query_id(checkpoint) or "")
        return None if position is None else position.batch

    @contextmanager
    def _session(self, fork: ForkView) -> Iterator[psycopg.Connection[Any]]:
        import psycopg

        from streamwarden.adapters.postgresql.access import access, explain

        sink = _sink(fork)
        try:
            with access(sink.connection or "").open(f"drill {fork.stream}") as session:
                session.autocommit = True
                yield session
        except psycopg.Error as error:
            problem = explain(error, connection=sink.connection or "", where=f"{sink.table}")
            raise DrillError(
                problem.observed, expected=problem.expected, where=problem.where, next_step=problem.next_step
            ) from error


class _Notes:
    """The sink's notifications for one table. No other fork uses the same schema, so none sends the same ones."""

    def __init__(self, session: psycopg.Connection[Any], table: str) -> None:
        self._session = session
        self._table = table

    def next(self, timeout: Seconds) -> int | None:
        from streamwarden.adapters.postgresql.ledger import Note

        for each in self._session.notifies(timeout=timeout, stop_after=1):
            note = Note.parse(each.payload)
            if note is not None and note.table == self._table:
                return note.batch_id
        return None


def _sink(fork: ForkView) -> SinkSpec:
    return fork.spec.sink
