"""The kind of sink `postgresql`: a table of a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.lifecycle.exchanges.exchange import Exchange, OutputPlan
from streamwarden.lifecycle.forks.places import Places
from streamwarden.lifecycle.launch_check import OutputEnd
from streamwarden.problems import Problem, show
from streamwarden.sinks.base import BatchWriter, Sink, missing_key, refused_mode, repeated
from streamwarden.sinks.output import Output
from streamwarden.sinks.postgresql import forks
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.balance import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamwarden.drills.ports import Arrivals, HeldTable

RETRY_FOR: Final = 120.0
"""Seconds for which a database may be unavailable before a driver ends over it: a failover takes a minute."""

_TABLE: Final = re.compile(r"([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlSink(Sink):
    """A table; exactly once for every reader, because a batch's rows and its id are one transaction.

    `options` must be empty: settings such as sslmode are in the connection's extra.
    """

    SERVICE: ClassVar[str | None] = "database"
    PLACE: ClassVar[str | None] = "table"
    PACKAGE: ClassVar[str | None] = "psycopg"

    kind: str = "postgresql"
    connection: str = field()
    """name of the connection to the database (see [connections](connections.md))"""
    table: str = field()
    """`schema.table` or `table`; it is created if it does not exist"""
    key: tuple[str, ...] = ()
    """columns that identify a row; `mode: update` needs them, and replaces the row of the same key"""
    retry_for: Seconds = RETRY_FOR
    """how long a batch is retried while the database is unavailable; then the driver fails and the restart policy
    applies"""

    @property
    def address(self) -> str:
        return self.table if "." in self.table else f"public.{self.table}"

    def problems(self) -> Iterator[Problem]:
        if not _TABLE.fullmatch(self.table):
            allowed = "`table` or `schema.table`, each of lower-case letters, digits and _, at most 63"
            yield Problem(key=("sink", "table"), observed=show(self.table), allowed=allowed)
        yield from repeated(self.key)
        if self.retry_for < 0:
            yield Problem(key=("sink", "retry_for"), observed=show(self.retry_for), allowed="a duration of 0 or more")
        if self.options:
            allowed = "nothing: settings such as sslmode are in the connection's extra"
            yield Problem(key=("sink", "options"), observed=show(self.options), allowed=allowed)
        if self.mode is OutputMode.COMPLETE:
            allowed = "append or update: a table that each batch rewrites is never whole for its readers"
            yield refused_mode(self.mode, allowed)
        if self.mode is OutputMode.UPDATE and not self.key:
            yield missing_key("the columns by which a row replaces an earlier one")

    def end(
        self, spec: StreamSpec, queries: Sequence[str], environ: Mapping[str, str], since: float
    ) -> OutputEnd | None:
        from streamwarden.sinks.postgresql import probe

        batch = probe.newest_of(spec, queries, environ)
        if batch is None:
            return None
        return OutputEnd(
            batch=batch,
            where=f"the batch table of {self.table}",
            consequence="the table would refuse these batches, or have their rows twice",
            give_way=f"empty {self.table} (TRUNCATE) and take its row out of its schema's batch table",
        )

    def forked(self, places: Places) -> PostgresqlSink:
        return replace(self, table=f"{places.schema}.{self.table.rpartition('.')[2]}")

    def make_empty(self, origin: StreamSpec, forked: StreamSpec) -> None:
        forks.make_empty(origin, forked)

    def copy(
        self, origin: StreamSpec, forked: StreamSpec, *, rewind: int, query_id: str, upto: int | None = None
    ) -> int | None:
        return forks.copy(origin, forked, rewind=rewind, query_id=query_id, upto=upto)

    def drop(self, forked: StreamSpec) -> str | None:
        schema = forks.drop(forked)
        return None if schema is None else f"the schema {schema}"

    @property
    def can_be_set_back(self) -> bool:
        return self.mode is OutputMode.APPEND

    def keep(self, forked: StreamSpec) -> None:
        forks.keep(forked)

    def set_back(self, forked: StreamSpec, batch: int | None, plan: bytes) -> None:
        forks.set_back(forked, batch, plan)

    def plan_restore(self, spec: StreamSpec, restore: Exchange, manifest: Location) -> OutputPlan:
        from streamwarden.sinks.postgresql import returning

        return OutputPlan(words=returning.plan_removal(spec, restore))

    def restore_output(self, spec: StreamSpec, restore: Exchange, plan: bytes) -> str:
        from streamwarden.sinks.postgresql import returning

        return returning.remove_later(spec, restore, plan)

    def require_passable(self, spec: StreamSpec, rewrite: Exchange) -> None:
        from streamwarden.sinks.postgresql import returning

        returning.require_reachable(spec)

    def pass_over(self, spec: StreamSpec, rewrite: Exchange, plan: bytes) -> str:
        from streamwarden.sinks.postgresql import returning

        return returning.pass_over(spec, rewrite, plan)

    def batch_writer(self, spec: StreamSpec, token: int, ending: Callable[[], bool]) -> BatchWriter | None:
        from streamwarden.sinks.postgresql.writer import TableWriter

        return TableWriter(spec, token, ending, patience=self.retry_for)

    def read(
        self, spec: StreamSpec, like: Mapping[str, object], *, committed: int | None, first: int, deduplicated: bool
    ) -> Output:
        from streamwarden.sinks.postgresql.output import read_table

        return read_table(spec, committed=committed, first=first)

    def rows_of(
        self, spark: SparkSession, spec: StreamSpec, audited: Range, began: float | None, schema: StructType
    ) -> DataFrame:
        from streamwarden.sinks.postgresql.written import table_rows

        return table_rows(spark, spec, audited.after, schema)

    def listen(self, spec: StreamSpec) -> AbstractContextManager[Arrivals]:
        from streamwarden.sinks.postgresql import probe

        return probe.listen(spec)

    def hold(self, spec: StreamSpec) -> AbstractContextManager[HeldTable]:
        from streamwarden.sinks.postgresql import probe

        return probe.hold(spec)

    def newest(self, spec: StreamSpec) -> int | None:
        from streamwarden.sinks.postgresql import probe

        return probe.newest(spec)
