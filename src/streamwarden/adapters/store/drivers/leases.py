"""The lease repository: which driver may run a stream and write to its checkpoints, decided in one serialised
transaction.

A row is one claim of a lease. It is current until a later one supersedes it; a unique index allows one current row for
each resource. A transaction locks the current rows while it judges a claim, always in the order of their keys, so that
two transactions never wait for each other. A claimant that lost a race for the lock violates the index and judges
again.

Callers pass times by their host's clock. A store that several hosts share keeps them by its own clock, so that hosts
whose clocks differ judge a lease alike.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.process_columns import process_columns, read_process, to_columns, to_record
from streamwarden.adapters.store.sanitize import storable
from streamwarden.adapters.store.tables import leases
from streamwarden.errors import LeaseHeld, LeaseLost
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.lease import Claim, Lease, Liveness, is_held, resource_of, stream_resource, whereabouts

SAME_TIME: Final = 2.0
"""Seconds by which a host's clock may differ from the store's before the difference is corrected. A lease lasts 30."""


class SqlLeaseRepository:
    """Where leases are kept. Each call is one transaction."""

    def __init__(self, database: Database, alive: Liveness, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._alive = alive
        self._clock = clock

    def clock_offset(self) -> float:
        """Seconds by which the store's clock is ahead of this host's; 0 if that is less than `SAME_TIME`, or the store
        is a file."""
        return self._database.read(self._offset)

    def acquire(self, *checkpoints: str, stream: str, holder: str, ttl: float, now: float) -> Lease:
        """Claim the stream's name and all checkpoints, or none. Raises LeaseHeld if one has a living holder.

        A living holder that asks again gets its own lease, so that a claim whose answer was lost can be repeated.
        """
        resources = (stream_resource(stream), *self._spellings(checkpoints))

        def claim(connection: Connection) -> Lease:
            offset = self._offset(connection)
            at = now + offset
            current = _current(connection, resources, lock=True)
            lease = Lease(
                stream=stream,
                holder=holder,
                claims=(),
                process=None,
                acquired_at=at,
                renewed_at=at,
                expires_at=at + ttl,
                revision=at,
            )
            self._refuse_if_held(connection, resources, current, lease, at)
            own = [held for held in current.values() if held.holder == holder and self._is_held(held, at)]
            if own:
                lease = replace(own[0], renewed_at=at, expires_at=at + ttl, revision=at)
            kept = {claim.resource: claim for held in own for claim in held.claims}
            return _shifted(_claim(connection, resources, current, lease, kept, at), -offset)

        return self._database.write(claim)

    def add(self, lease: Lease, *checkpoints: str, ttl: float, now: float) -> Lease:
        """Claim more checkpoints for a living driver, and renew its other claims.

        Raises:
            LeaseHeld: another driver has one of them; `lease` stays as it is.
            LeaseLost: `lease` is no longer the current one.
        """
        wanted = tuple(sorted({*lease.checkpoints, *self._spellings(checkpoints)}))
        resources = (stream_resource(lease.stream), *wanted)

        def more(connection: Connection) -> Lease:
            offset = self._offset(connection)
            at = now + offset
            current = _current(connection, resources, lock=True)
            renewed = _renew(connection, _shifted(lease, offset), current, ttl=ttl, now=at)
            self._refuse_if_held(connection, wanted, current, lease, at)
            kept = {claim.resource: claim for claim in lease.claims}
            for name, held in current.items():  # a repetition of a call whose answer was lost
                if held.holder == lease.holder and held.released_at is None:
                    kept.setdefault(name, held.claims[0])
            return _shifted(_claim(connection, resources, current, renewed, kept, at), -offset)

        return self._database.write(more)

    def bind(self, lease: Lease, process: ProcessIdentity, *, ttl: float, now: float) -> Lease:
        """Name the process that holds the lease. Raises LeaseLost if `lease` is no longer the current one."""
        return self.renew(replace(lease, process=process), ttl=ttl, now=now)

    def renew(self, lease: Lease, *, ttl: float, now: float) -> Lease:
        """Extend the lease to `now + ttl`. Raises LeaseLost if a claim was replaced or released; StoreError if the
        store is down.

        If the store has no token as high as a claim's, it was replaced or restored from a backup. Then the claim is
        written again, and a driver that was granted a lower token meanwhile is fenced.
        """

        def push(connection: Connection) -> Lease:
            offset = self._offset(connection)
            current = _current(connection, lease.resources, lock=True)
            renewed = _renew(connection, _shifted(lease, offset), current, ttl=ttl, now=now + offset)
            return _shifted(renewed, -offset)

        return self._database.write(push)

    def release(self, lease: Lease, *, now: float) -> None:
        """Release every claim of the holder, also those that it added later. Claims that it lost are not affected."""
        held = leases.c.holder == lease.holder, leases.c.released_at.is_(None), leases.c.superseded_at.is_(None)

        def give_back(connection: Connection) -> None:
            rows = sa.select(leases.c.checkpoint_key).where(*held).order_by(leases.c.checkpoint_key)
            if connection.execute(rows.with_for_update()).all():
                connection.execute(leases.update().where(*held).values(released_at=now + self._offset(connection)))

        self._database.write(give_back)

    def current(self, resource: str) -> Lease | None:
        """The newest lease on `resource`, live or not, with every claim that its holder has.

        A driver of an earlier version may hold a checkpoint as its file spells it, so that spelling is looked up, too.
        """

        def find(connection: Connection) -> Lease | None:
            found = _current(connection, {resource, resource_of(resource)}, lock=False).values()
            if not found:
                return None
            lease = max(found, key=lambda lease: (lease.released_at is None, lease.acquired_at))
            return _shifted(_whole(connection, lease), -self._offset(connection))

        return self._database.read(find)

    def history(self, resource: str) -> tuple[Lease, ...]:
        """Every lease that was ever granted on `resource`, oldest first, each with this one claim."""
        key = _key(resource_of(resource))
        query = leases.select().where(leases.c.checkpoint_key == key).order_by(leases.c.token)

        def find(connection: Connection) -> tuple[Lease, ...]:
            offset = self._offset(connection)
            return tuple(_shifted(_read(row), -offset) for row in connection.execute(query))

        return self._database.read(find)

    def _spellings(self, checkpoints: Iterable[str]) -> list[str]:
        """The resources of `checkpoints`, and every other spelling of them that a lease holds.

        Earlier versions claimed a checkpoint as its file spelled it. A claim covers such a spelling, too: a driver that
        still runs with it excludes the claimant, and a driver that comes back after its lease was replaced finds a
        higher token. Links are resolved outside of the transaction, because storage that hangs must block this claim
        alone.
        """
        wanted = {resource_of(checkpoint) for checkpoint in checkpoints}
        query = sa.select(leases.c.checkpoint).where(leases.c.superseded_at.is_(None), leases.c.released_at.is_(None))
        held = self._database.read(lambda connection: connection.execute(query).scalars().all())
        return sorted(wanted | {resource for resource in held if resource_of(resource) in wanted})

    def _offset(self, connection: Connection) -> float:
        """Seconds by which the store's clock is ahead of this host's. A file has its host's clock."""
        if connection.dialect.name != "postgresql":
            return 0.0
        theirs = connection.execute(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))).scalar_one()
        offset = float(theirs) - self._clock()
        return offset if abs(offset) > SAME_TIME else 0.0

    def _is_held(self, lease: Lease, now: float) -> bool:
        return is_held(lease, now=now, alive=self._alive)

    def _refuse_if_held(
        self, connection: Connection, resources: Sequence[str], current: dict[str, Lease], lease: Lease, now: float
    ) -> None:
        """Raise LeaseHeld if another driver has one of `resources`."""
        for resource in resources:
            found = current.get(resource)
            if found is not None and found.holder != lease.holder and self._is_held(found, now):
                raise _held(_whole(connection, found), resource)
        # A driver of a version that claimed no names is still found by the stream of its checkpoint's claim.
        for found in _of_stream(connection, lease.stream):
            if found.holder != lease.holder and self._is_held(found, now):
                raise _held(found, stream_resource(lease.stream))


def _claim(
    connection: Connection,
    resources: Sequence[str],
    current: dict[str, Lease],
    lease: Lease,
    kept: dict[str, Claim],
    now: float,
) -> Lease:
    """`lease` with all of `resources`. Those that are not in `kept` are installed, all under one new token."""
    token = max((held.token for held in current.values()), default=0) + 1
    claims = tuple(kept.get(name) or Claim(name, token) for name in resources)
    for claim in sorted(claims, key=_order):
        if claim.resource not in kept:
            _install(connection, lease, claim, instead_of=current.get(claim.resource), now=now)
    whole = replace(lease, claims=claims)
    _extend(connection, whole)
    return whole


def _shifted(lease: Lease, seconds: float) -> Lease:
    """`lease` with its times by a clock that is `seconds` ahead; `revision` stays what the store has."""
    if seconds == 0.0:
        return lease
    return replace(
        lease,
        acquired_at=lease.acquired_at + seconds,
        renewed_at=lease.renewed_at + seconds,
        expires_at=lease.expires_at + seconds,
        released_at=None if lease.released_at is None else lease.released_at + seconds,
    )


def _order(claim: Claim) -> str:
    return _key(claim.resource)


def _current(connection: Connection, resources: Iterable[str], *, lock: bool) -> dict[str, Lease]:
    """The current row of each resource that has one, as a lease of one claim; locked in the order of the keys."""
    of = {_key(resource): resource for resource in resources}
    query = leases.select().where(leases.c.checkpoint_key.in_(of), leases.c.superseded_at.is_(None))
    query = query.order_by(leases.c.checkpoint_key)
    rows = connection.execute(query.with_for_update() if lock else query)
    return {of[row.checkpoint_key]: _read(row) for row in rows}


def _of_stream(connection: Connection, stream: str) -> list[Lease]:
    query = leases.select().where(leases.c.stream == stream, leases.c.superseded_at.is_(None))
    return [_read(row) for row in connection.execute(query)]


def _whole(connection: Connection, lease: Lease) -> Lease:
    """`lease` with every claim that its holder has now, and its own claims, which another driver may have replaced."""
    query = leases.select().where(leases.c.holder == lease.holder, leases.c.superseded_at.is_(None))
    claims = {claim.resource: claim for claim in lease.claims}
    claims |= {row.checkpoint: Claim(row.checkpoint, row.token) for row in connection.execute(query)}
    name = stream_resource(lease.stream)
    resources = sorted(claims, key=lambda resource: (resource != name, resource))
    return replace(lease, claims=tuple(claims[resource] for resource in resources))


def _renew(connection: Connection, lease: Lease, current: dict[str, Lease], *, ttl: float, now: float) -> Lease:
    """Extend every claim of `lease`. Raises LeaseLost, before it writes anything, if another driver has one of them."""
    present = [held for name in lease.resources if (held := current.get(name)) is not None]
    process = lease.process or next((held.process for held in present if held.holder == lease.holder), None)
    renewed = replace(lease, process=process, renewed_at=now, expires_at=now + ttl, released_at=None, revision=now)
    for claim in sorted(lease.claims, key=_order):
        stored = current.get(claim.resource)
        if stored is None or stored.token < claim.token:
            _install(connection, renewed, claim, instead_of=stored, now=now)
        elif stored.token != claim.token or stored.holder != lease.holder or stored.released_at is not None:
            raise _lost(lease, claim, stored)
    _extend(connection, renewed)
    return renewed


def _install(connection: Connection, lease: Lease, claim: Claim, *, instead_of: Lease | None, now: float) -> None:
    """Make `claim` of `lease` the current row of its resource; `instead_of`, the one that was judged, is kept as
    history.

    Only that one is superseded. If another became current meanwhile (PostgreSQL shows a claimant that waited for the
    row no row at all), the insert breaks the unique index, and the whole claim is judged again.
    """
    if instead_of is not None:
        connection.execute(
            leases.update()
            .where(
                leases.c.checkpoint_key == _key(claim.resource),
                leases.c.token == instead_of.token,
                leases.c.holder == instead_of.holder,
            )
            .values(superseded_at=now)
        )
    connection.execute(
        leases.insert().values(
            to_columns(
                leases,
                lease,
                checkpoint_key=_key(claim.resource),
                checkpoint=claim.resource,
                token=claim.token,
                **process_columns(lease.process),
            )
        )
    )


def _extend(connection: Connection, lease: Lease) -> None:
    """Write process and times of `lease` to its current rows, which this transaction has locked or installed."""
    keys = [_key(resource) for resource in lease.resources]
    connection.execute(
        leases.update()
        .where(leases.c.checkpoint_key.in_(keys), leases.c.holder == lease.holder, leases.c.superseded_at.is_(None))
        .values(renewed_at=lease.renewed_at, expires_at=lease.expires_at, **process_columns(lease.process))
    )


def _key(resource: str) -> str:
    return hashlib.sha256(storable(resource).encode()).hexdigest()


def _read(row: Row[Any]) -> Lease:
    claims = (Claim(row.checkpoint, row.token),)
    return to_record(Lease, row, claims=claims, process=read_process(row), revision=row.renewed_at)


def _held(lease: Lease, resource: str) -> LeaseHeld:
    by_name = resource == stream_resource(lease.stream)
    return LeaseHeld(
        f"driver {lease.holder} of stream {lease.stream} holds the lease {whereabouts(lease)} "
        f"since {_moment(lease.acquired_at)}, token {lease.token}",
        expected="no living holder: a stream has exactly one driver, and a checkpoint exactly one writer",
        where=f"stream {lease.stream}" if by_name else f"checkpoint {resource}",
        next_step=f"reattach to that driver, or stop it first with `streamwarden stop {lease.stream}`; "
        f"if its host is gone for good, the lease ends by itself at {_moment(lease.expires_at)}",
    )


def _lost(mine: Lease, claim: Claim, current: Lease) -> LeaseLost:
    if current.token == claim.token and current.holder == mine.holder:
        observed = f"driver {mine.holder} gave its lease back at {_moment(current.released_at or 0)}"
    else:
        observed = (
            f"driver {mine.holder} with token {claim.token} was replaced by driver {current.holder} "
            f"with token {current.token} {whereabouts(current)} at {_moment(current.acquired_at)}"
        )
    return LeaseLost(
        observed,
        expected="to be the current holder",
        where=f"stream {mine.stream}, {claim.resource}",
        next_step="stop this query now, without writing another batch",
    )


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="seconds")
