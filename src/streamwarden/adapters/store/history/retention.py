"""Retention: raw rows are kept for days, roll-ups for more than a year."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Database, upsert
from streamwarden.adapters.store.history.rollup import roll_up
from streamwarden.adapters.store.history.rollup_hours import RAW, horizon, hour_of
from streamwarden.adapters.store.tables import (
    batches,
    hourly,
    measurements,
    mutes,
    retention,
    state_operators,
    verdict_changes,
)
from streamwarden.units import DAY

KEEP: Final = 7 * DAY
KEEP_HOURLY: Final = 400 * DAY

_CHUNK: Final = 500
"""Rows in one transaction, so that a driver's write never waits long for the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Rows that were removed, and hours that were rolled up first."""

    rolled_up: int
    batches: int
    measurements: int
    verdict_changes: int
    hourly: int
    mutes: int


def prune(database: Database, now: float, *, keep: float = KEEP, keep_hourly: float = KEEP_HOURLY) -> Pruned:
    """Remove raw rows older than `keep` seconds (whole hours), and roll-ups older than `keep_hourly`.

    Mutes go `keep_hourly` after their time. Incidents stay, with the actions of people on them.

    First the horizon moves, so that no row can be added behind it; then every hour behind it is rolled up; then the raw
    rows are deleted. If a call is interrupted, the next one continues from there.
    """
    before = database.write(lambda connection: _move_horizon(connection, float(hour_of(now - keep))))
    rolled = roll_up(database, now)
    return Pruned(
        rolled_up=rolled,
        batches=_delete_old(database, batches, batches.c.at < before, also=state_operators),
        measurements=_delete_old(database, measurements, measurements.c.at < before),
        verdict_changes=_delete_old(database, verdict_changes, verdict_changes.c.at < before),
        hourly=_delete_old(database, hourly, hourly.c.hour < hour_of(now - keep_hourly)),
        mutes=_delete_mutes(database, now - keep_hourly),
    )


def _delete_mutes(database: Database, before: float) -> int:
    """Delete the mutes whose time was over before `before`, also of those that a person ended earlier."""
    gone = mutes.delete().where(mutes.c.until < before)
    return database.write(lambda connection: connection.execute(gone).rowcount)


def _move_horizon(connection: Connection, wanted: float) -> float:
    """The horizon only moves forward, because deleted rows do not come back."""
    before = max(wanted, horizon(connection))
    upsert(connection, retention, [{"what": RAW, "before": before}])
    return before


def _delete_old(
    database: Database, table: sa.Table, old: sa.ColumnElement[bool], *, also: sa.Table | None = None
) -> int:
    """Delete the old rows of each stream (every index starts with the stream), and those of `also` with their keys."""
    keys = [column.name for column in table.primary_key]
    gone = 0
    for stream in _streams(database, table):
        some = sa.select(*(table.c[key] for key in keys)).where(table.c.stream == stream, old).limit(_CHUNK)

        def delete(connection: Connection, some: sa.Select[tuple[object, ...]] = some) -> int:
            doomed = [
                {f"this_{key}": value for key, value in row.items()} for row in connection.execute(some).mappings()
            ]
            for part in (also, table):
                if doomed and part is not None:
                    # One key at a time: SQLite searches no index for a list of several columns.
                    this = (part.c[key] == sa.bindparam(f"this_{key}") for key in keys)
                    connection.execute(part.delete().where(*this), doomed)
            return len(doomed)

        gone += database.write_in_turns(delete)
    return gone


def _streams(database: Database, table: sa.Table) -> Iterator[str]:
    """The streams in `table`, each found by one step in the index instead of a scan of all rows."""
    last = ""
    while True:
        query = sa.select(sa.func.min(table.c.stream)).where(table.c.stream > last)
        found = database.read(lambda connection, query=query: connection.execute(query).scalar())  # type: ignore[misc]
        if found is None:
            return
        last = str(found)
        yield last
