"""A table sink on a database of a test's own, without Spark: rows are lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from streamwarden.adapters.postgresql.access import DatabaseAccess, access
from streamwarden.sinks.postgresql.table import Column, Target, split
from streamwarden.sinks.postgresql.transaction import Batch, TableSink
from support.servers.postgres_server import PostgreSQL

QUERY = "5ca1ab1e-0000-4000-8000-000000000001"
COUNTS = (Column("user_id", "bigint"), Column("n", "integer"))
Rows = Sequence[Sequence[object]]


class Base:
    """A database with the stream `counts` in it."""

    def __init__(self, server: PostgreSQL, name: str) -> None:
        server.create(name)
        self.name, self.server = name, server

    def access(self, uri: str | None = None) -> DatabaseAccess:
        """By the connection `warehouse`; `uri`: if it is not the owner's."""
        return access("warehouse", {"AIRFLOW_CONN_WAREHOUSE": uri or self.server.connection(self.name)})

    def sink(
        self,
        table: str = "counts",
        columns: Iterable[Column] = COUNTS,
        *,
        key: Sequence[str] = (),
        replaces: bool = False,
        token: int = 1,
        uri: str | None = None,
        **options: Any,
    ) -> TableSink:
        schema, name = split(table)
        target = Target(schema=schema, table=name, columns=tuple(columns), key=tuple(key), replaces=replaces)
        options.setdefault("waits", ())
        return TableSink(target, self.access(uri), stream="counts", token=token, **options)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """One statement's answer; what it changes is committed."""
        with psycopg.connect(self.server.connection(self.name), autocommit=True) as session:
            cursor = session.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """Take everything out that tests have made."""
        for (schema,) in self.ask("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'"):
            self.ask(f'DROP SCHEMA "{schema}" CASCADE')
        self.ask("CREATE SCHEMA public")

    def drop(self) -> None:
        self.server.run(f'DROP DATABASE "{self.name}" WITH (FORCE)')


def batch(
    number: int, rows: Rows, *, give: Callable[[], Iterable[Sequence[object]]] | None = None, plan: str = ""
) -> Batch:
    """Batch `number`; `give` hands its rows out at each attempt, if that is to be more than to hand them out."""
    return Batch(
        query_id=QUERY, batch_id=number, plan=plan or f"plan {number}", rows=give or (lambda: rows), count=len(rows)
    )
