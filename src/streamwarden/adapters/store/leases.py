"""The lease book: who may write to a checkpoint, decided in one serialised transaction.

A lease is current until a later one supersedes it; a unique index allows one current lease a checkpoint. The current
row is locked while a claim is judged, and a claimant that lost a race against it breaks the index and judges again.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.rows import process_columns, read_process
from streamwarden.adapters.store.tables import leases
from streamwarden.errors import LeaseHeld, LeaseLost
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Lease, Liveness, is_held


class Leases:
    """Implements `lifecycle.lease.LeaseBook`."""

    def __init__(self, database: Database, alive: Liveness) -> None:
        self._database = database
        self._alive = alive

    def acquire(self, checkpoint: str, *, stream: str, holder: str, ttl: float, now: float) -> Lease:
        """Claim the checkpoint. Raises LeaseHeld if it has a living holder.

        A living holder that asks again gets its own lease, so that a claim whose answer was lost can be repeated.
        """

        def claim(connection: Connection) -> Lease:
            current = _current(connection, checkpoint, lock=True)
            if current is not None and is_held(current, now=now, alive=self._alive):
                if current.holder != holder:
                    raise _held(current)
                return _extend(connection, current, ttl=ttl, now=now)
            lease = Lease(
                checkpoint=checkpoint,
                stream=stream,
                holder=holder,
                token=_newest_token(connection, checkpoint) + 1,
                process=None,
                acquired_at=now,
                renewed_at=now,
                expires_at=now + ttl,
            )
            _install(connection, lease, instead_of=current, now=now)
            return lease

        return self._database.write(claim)

    def bind(self, lease: Lease, process: ProcessIdentity, *, ttl: float, now: float) -> Lease:
        """Name the process that holds the lease. Raises LeaseLost if `lease` is no longer the current one."""
        return self.renew(replace(lease, process=process), ttl=ttl, now=now)

    def renew(self, lease: Lease, *, ttl: float, now: float) -> Lease:
        """Push the expiry to `now + ttl`. Raises LeaseLost if replaced or given back; StoreError if the store is down.

        A store that knows no token as high as this one was replaced or restored from a backup: the lease is written
        again, and whoever was granted a lower token meanwhile is fenced.
        """

        def push(connection: Connection) -> Lease:
            current = _current(connection, lease.checkpoint, lock=True)
            if current is None or current.token < lease.token:
                again = replace(lease, renewed_at=now, expires_at=now + ttl, released_at=None)
                _install(connection, again, instead_of=current, now=now)
                return again
            if current.token != lease.token or current.holder != lease.holder or current.released_at is not None:
                raise _lost(lease, current)
            return _extend(connection, replace(current, process=lease.process or current.process), ttl=ttl, now=now)

        return self._database.write(push)

    def release(self, lease: Lease, *, now: float) -> None:
        """Give the lease back; no effect if it is not the current one."""

        def give_back(connection: Connection) -> None:
            connection.execute(
                leases.update()
                .where(*_is(lease), leases.c.released_at.is_(None), leases.c.superseded_at.is_(None))
                .values(released_at=now)
            )

        self._database.write(give_back)

    def current(self, checkpoint: str) -> Lease | None:
        """The newest lease, live or not."""
        return self._database.read(lambda connection: _current(connection, checkpoint, lock=False))

    def history(self, checkpoint: str) -> tuple[Lease, ...]:
        """Every lease that was ever granted on `checkpoint`, oldest first."""
        query = leases.select().where(leases.c.checkpoint_key == _key(checkpoint)).order_by(leases.c.token)
        return self._database.read(lambda connection: tuple(map(_read, connection.execute(query))))


def _current(connection: Connection, checkpoint: str, *, lock: bool) -> Lease | None:
    query = leases.select().where(leases.c.checkpoint_key == _key(checkpoint), leases.c.superseded_at.is_(None))
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    return None if row is None else _read(row)


def _newest_token(connection: Connection, checkpoint: str) -> int:
    query = sa.select(sa.func.max(leases.c.token)).where(leases.c.checkpoint_key == _key(checkpoint))
    return connection.execute(query).scalar() or 0


def _install(connection: Connection, lease: Lease, *, instead_of: Lease | None, now: float) -> None:
    """Make `lease` the current one of its checkpoint; `instead_of`, the one that was judged, is kept as history.

    Only that one is superseded. If another became current meanwhile (PostgreSQL shows a claimant that waited for the
    row no row at all), the insert breaks the unique index, and the whole claim is judged again.
    """
    if instead_of is not None:
        connection.execute(leases.update().where(*_is(instead_of)).values(superseded_at=now))
    connection.execute(
        leases.insert().values(
            checkpoint_key=_key(lease.checkpoint),
            token=lease.token,
            checkpoint=lease.checkpoint,
            stream=lease.stream,
            holder=lease.holder,
            acquired_at=lease.acquired_at,
            renewed_at=lease.renewed_at,
            expires_at=lease.expires_at,
            released_at=lease.released_at,
            **process_columns(lease.process),
        )
    )


def _extend(connection: Connection, lease: Lease, *, ttl: float, now: float) -> Lease:
    extended = replace(lease, renewed_at=now, expires_at=now + ttl)
    connection.execute(
        leases.update()
        .where(*_is(lease))
        .values(renewed_at=extended.renewed_at, expires_at=extended.expires_at, **process_columns(lease.process))
    )
    return extended


def _is(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        leases.c.checkpoint_key == _key(lease.checkpoint),
        leases.c.token == lease.token,
        leases.c.holder == lease.holder,
    )


def _key(checkpoint: str) -> str:
    return hashlib.sha256(checkpoint.encode()).hexdigest()


def _read(row: Row[Any]) -> Lease:
    return Lease(
        checkpoint=row.checkpoint,
        stream=row.stream,
        holder=row.holder,
        token=row.token,
        process=read_process(row),
        acquired_at=row.acquired_at,
        renewed_at=row.renewed_at,
        expires_at=row.expires_at,
        released_at=row.released_at,
    )


def _held(lease: Lease) -> LeaseHeld:
    return LeaseHeld(
        f"driver {lease.holder} of stream {lease.stream} holds the lease {_whereabouts(lease)} "
        f"since {_moment(lease.acquired_at)}, token {lease.token}",
        expected="no living holder: a checkpoint has exactly one writer",
        where=f"checkpoint {lease.checkpoint}",
        next_step=f"reattach to that driver, or stop it first with `streamwarden stop {lease.stream}`; "
        f"if its host is gone for good, the lease ends by itself at {_moment(lease.expires_at)}",
    )


def _lost(mine: Lease, current: Lease) -> LeaseLost:
    if current.token == mine.token and current.holder == mine.holder:
        observed = f"driver {mine.holder} gave its lease back at {_moment(current.released_at or 0)}"
    else:
        observed = (
            f"driver {mine.holder} with token {mine.token} was replaced by driver {current.holder} "
            f"with token {current.token} {_whereabouts(current)} at {_moment(current.acquired_at)}"
        )
    return LeaseLost(
        observed,
        expected="to be the current holder",
        where=f"checkpoint {mine.checkpoint}",
        next_step="stop this query now, without writing another batch",
    )


def _whereabouts(lease: Lease) -> str:
    if lease.process is None:
        return "(not launched yet)"
    return f"on host {lease.process.host} as pid {lease.process.pid}"


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds")
