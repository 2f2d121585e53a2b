"""Part of the fleet that one user may read: the pages and the API both ask here."""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamwarden.airflow.web.access import HEALTH, Method, allowed, allowed_of, dag_of_stream, dags_of
from streamwarden.airflow.web.readings import Snapshot
from streamwarden.airflow.web.row_cache import board
from streamwarden.health.evaluations import LastRound
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.incidents.mutes import Mute
from streamwarden.lifecycle.queries import owner
from streamwarden.services.hosts.listing import Host
from streamwarden.services.hosts.listing import hosts as all_hosts
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.selection import Selection, Totals, select, totals
from streamwarden.services.workspace import Workspace

HIDDEN = LastRound(at=None, late=False, text="")
"""For a user who may not read the runs of the DAG `health`."""


@dataclass(frozen=True)
class SeenFleet:
    """What one user sees of a snapshot. What takes a look at every row is computed when it is asked for: a page that is
    up to date asks for none of it.

    Args:
        reading: names the reading of the store.
        readable: the rows that the user may read.
    """

    at: float
    reading: str
    last: LastRound
    readable: Sequence[StreamRow]
    chosen: Selection

    @cached_property
    def totals(self) -> Totals:
        return totals(self.readable)

    @cached_property
    def fitting(self) -> Sequence[StreamRow]:
        """All rows that fit."""
        return select(self.readable, self.chosen)

    @property
    def rows(self) -> Sequence[StreamRow]:
        """The page of them that was selected."""
        return self.fitting[self.chosen.offset : self.chosen.offset + self.chosen.limit]

    @property
    def found(self) -> int:
        """How many rows fit in all."""
        return len(self.fitting)

    @property
    def tags(self) -> Sequence[str]:
        return tags_of(self.readable)

    @property
    def evaluation(self) -> LastRound | None:
        """The last evaluation; None if the user may not know it."""
        return None if self.last is HIDDEN else self.last


def fleet(user: Any, chosen: Selection) -> SeenFleet:
    """The rows that `user` may read and that fit. Raises StreamwardenError."""
    snapshot = board().snapshot()
    return SeenFleet(
        at=snapshot.at,
        reading=snapshot.reading,
        last=_last_round(snapshot, user),
        readable=_readable(snapshot, user),
        chosen=chosen,
    )


def newest_reading() -> str:
    """See `Snapshot`. Raises StreamwardenError."""
    return board().snapshot().reading


def snapshot_for(user: Any) -> Snapshot:
    """The snapshot as `user` may read it. Raises StreamwardenError."""
    snapshot = board().snapshot()
    return replace(snapshot, rows=tuple(_readable(snapshot, user)), last=_last_round(snapshot, user))


def rows_of(stream: str) -> tuple[float, list[StreamRow]]:
    """The time, and the rows of a stream and its queries; none if there is no such stream."""
    snapshot = board().snapshot()
    return snapshot.at, [row for row in snapshot.rows if owner(row.stream) == stream]


def tags_of(rows: Iterable[StreamRow]) -> list[str]:
    """Every tag of the rows once."""
    return sorted({tag for row in rows for tag in row.tags})


def _last_round(snapshot: Snapshot, user: Any) -> LastRound:
    return snapshot.last if allowed(HEALTH, user) else HIDDEN


def _readable(snapshot: Snapshot, user: Any) -> list[StreamRow]:
    ids = allowed_of({row.dag_id for row in snapshot.rows}, user)
    return [row for row in snapshot.rows if row.dag_id in ids]


def hosts(space: Workspace, user: Any) -> list[Host]:
    """Every host, with the drivers of streams that `user` may read; none for a user who may not read the runs of the
    DAG `health`. Raises StoreError."""
    if not allowed(HEALTH, user):
        return []
    found = all_hosts(space.store, time.time())
    names = _readable_names({driver.stream for host in found for driver in host.drivers}, user, "")
    return [replace(host, drivers=tuple(driver for driver in host.drivers if driver.stream in names)) for host in found]


def incidents(space: Workspace, user: Any, *, stream: str, past: bool, limit: int) -> list[Incident]:
    """The open incidents that `user` may read, or the newest `limit` with those that are resolved. Raises StoreError.

    Args:
        stream: only those of this stream and its queries; empty: all.
    """
    repository = space.store.incidents
    if past:
        return list(repository.recent_of(_readable_names(repository.streams(), user, stream), limit))
    chosen = repository.open()
    names = _readable_names({incident.stream for incident in chosen}, user, stream)
    return [incident for incident in chosen if incident.stream in names]


def _readable_names(names: Collection[str], user: Any, stream: str) -> frozenset[str]:
    """Those of the streams and queries that `user` may read, of one stream if it is given."""
    fitting = [name for name in names if stream in ("", owner(name))]
    ids = allowed_of({dag_of_stream(name) for name in fitting}, user)
    return frozenset(name for name in fitting if dag_of_stream(name) in ids)


def mutes(user: Any, found: Iterable[Mute], stream: str, method: Method = "GET") -> list[Mute]:
    """Those of the mutes that `user` may read (GET) or end (PUT): with the rights to all their streams.

    Args:
        stream: only those that concern this stream or one of its queries; empty: all.
    """
    fitting = [mute for mute in found if _concerns(mute, stream)]
    ids = allowed_of({dag for mute in fitting for dag in dags_of(mute)}, user, method)
    return [mute for mute in fitting if dags_of(mute) <= ids]


def _concerns(mute: Mute, stream: str) -> bool:
    if not stream or not mute.streams:
        return True
    return any(owner(name) == stream for name in mute.streams)
