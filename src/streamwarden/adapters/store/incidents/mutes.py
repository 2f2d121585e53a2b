"""The repository of mutes and maintenance windows: what is not sent, until when, who wanted that and why."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Repository
from streamwarden.adapters.store.tables import mutes
from streamwarden.health.incidents.mutes import Mute


class SqlMuteRepository(Repository):
    """Keeps mutes. Each method raises StoreError."""

    def add(self, mute: Mute) -> None:
        """Record a new mute. It counts from its `starts_at` on."""
        row = {**asdict(mute), "ended_by": mute.ended_by or None, "ended_reason": mute.ended_reason or None}
        self._execute(mutes.insert().values(row))

    def get(self, mute_id: str) -> Mute | None:
        """The mute with this id; None if there is none."""
        rows = self._read(mutes.select().where(mutes.c.mute_id == mute_id))
        return rows[0] if rows else None

    def since(self, at: float) -> Sequence[Mute]:
        """The mutes that were not over before `at` (Unix seconds), those that begin first at the top.

        Those in force and those that are planned are among them.
        """
        ended = sa.func.coalesce(mutes.c.ended_at, mutes.c.until)
        wanted = mutes.select().where(mutes.c.until >= at, ended >= at)
        return self._read(wanted.order_by(mutes.c.starts_at, mutes.c.created_at, mutes.c.mute_id))

    def end(self, mute_id: str, *, at: float, by: str, reason: str) -> bool:
        """End it at `at` (Unix seconds), before its time. False if it was over already: the first end counts."""
        active = mutes.c.mute_id == mute_id, mutes.c.ended_at.is_(None), mutes.c.until > at
        change = mutes.update().where(*active).values(ended_at=at, ended_by=by, ended_reason=reason)

        def put(connection: Connection) -> bool:
            return connection.execute(change).rowcount == 1

        return self._database.write(put)

    def _read(self, wanted: sa.Select[Any]) -> tuple[Mute, ...]:
        return tuple(_mute(row) for row in self._rows(wanted))


def _mute(row: Row[Any]) -> Mute:
    texts = {"streams": tuple(row.streams), "checks": tuple(row.checks)}
    return Mute(
        **{**row._mapping, **texts, "ended_by": row.ended_by or "", "ended_reason": row.ended_reason or ""},
    )
