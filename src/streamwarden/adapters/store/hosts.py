"""The host repository: the newest report of each host that runs drivers, and which hosts are drained."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.process_columns import to_record
from streamwarden.adapters.store.tables import drains, hosts
from streamwarden.lifecycle.hosts.report import Drain, HostReport

_KEEP: Final = 7 * 86400.0
"""Seconds after which the row of a host that reports no more is removed: a new container has a new name."""


class SqlHostRepository(Repository):
    """Keeps the reports of hosts and the drains. Each method is one transaction and raises StoreError."""

    def report(self, report: HostReport) -> None:
        """Keep this report as the newest of its host."""

        def put(connection: Connection) -> None:
            upsert(connection, hosts, [{**asdict(report), "versions": dict(report.versions)}])
            connection.execute(hosts.delete().where(hosts.c.heartbeat_at < report.heartbeat_at - _KEEP))

        self._database.write(put)

    def all(self) -> Sequence[HostReport]:
        """The newest report of each host, by name."""
        return tuple(to_record(HostReport, row) for row in self._rows(hosts.select().order_by(hosts.c.name)))

    def get(self, name: str) -> HostReport | None:
        """The newest report of one host."""
        row = self._row(hosts.select().where(hosts.c.name == name))
        return None if row is None else to_record(HostReport, row)

    def drain(self, drain: Drain) -> None:
        """Let the host start no driver until `resume`. A second drain replaces the first."""
        self._database.write(lambda connection: upsert(connection, drains, [asdict(drain)]))

    def resume(self, host: str) -> bool:
        """Let the host start drivers again; False if it was not drained."""
        gone = drains.delete().where(drains.c.host == host)
        return bool(self._database.write(lambda connection: connection.execute(gone).rowcount))

    def drained(self) -> Mapping[str, Drain]:
        """The hosts that are drained, by name."""
        return {row.host: to_record(Drain, row) for row in self._rows(drains.select().order_by(drains.c.host))}
