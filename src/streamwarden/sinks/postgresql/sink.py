"""The kind of sink `postgresql`: a table of a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from streamwarden.lifecycle.forks.places import Places
from streamwarden.problems import Problem, show
from streamwarden.sinks.base import Sink, missing_key, refused_mode, repeated
from streamwarden.stream import OutputMode
from streamwarden.units import Seconds

RETRY_FOR: Final = 120.0
"""Seconds for which a database may be unavailable before a driver ends over it: a failover takes a minute."""

_TABLE: Final = re.compile(r"([a-z_][a-z0-9_]{0,62}\.)?[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresqlSink(Sink):
    """A table; exactly once for every reader, because a batch's rows and its id are one transaction.

    `options` must be empty: settings such as sslmode are in the connection's extra.
    """

    SERVICE: ClassVar[str | None] = "database"

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

    def forked(self, places: Places) -> PostgresqlSink:
        return replace(self, table=f"{places.schema}.{self.table.rpartition('.')[2]}")
