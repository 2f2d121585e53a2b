"""The Airflow installations whose tasks use this store, so that a shell finds their API server."""

import sqlalchemy as sa

from streamwarden.adapters.store.database import Repository, upsert
from streamwarden.adapters.store.tables import airflow_servers


class SqlAirflowServerRepository(Repository):
    """Each method is one transaction, and raises StoreError."""

    def seen(self, url: str, now: float) -> None:
        """Record that a task of the installation with this API server ran at `now` (Unix seconds)."""
        row = {"url": url, "seen_at": now}
        self._database.write(lambda connection: upsert(connection, airflow_servers, [row]))

    def newest(self, since: float) -> str | None:
        """The URL that was recorded last; None if none was at or after `since`."""
        query = (
            sa.select(airflow_servers.c.url)
            .where(airflow_servers.c.seen_at >= since)
            .order_by(airflow_servers.c.seen_at.desc())
            .limit(1)
        )
        return self._database.read(lambda connection: connection.execute(query).scalar_one_or_none())

    def forget(self, url: str) -> None:
        """Record that this API server was ended on purpose, so that no command asks it."""
        self._execute(airflow_servers.delete().where(airflow_servers.c.url == url))
