"""Hours: which ones changed since they were rolled up, and which are behind the horizon of retention."""

from collections.abc import Iterable
from typing import Final

from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import upsert
from streamwarden.adapters.store.tables import retention, unrolled_hours
from streamwarden.units import HOUR

RAW: Final = "raw"
"""The row of `retention` for raw batches and measurements."""


_HORIZON: Final = retention.select().where(retention.c.what == RAW)
_HELD_HORIZON: Final = _HORIZON.with_for_update(read=True)


def hour_of(at: float) -> int:
    """Start of the hour of `at`, Unix seconds."""
    return int(at // HOUR) * HOUR


def horizon(connection: Connection, *, hold: bool = False) -> float:
    """Raw rows older than this were or will be pruned, and late ones are ignored. 0 before the first pruning.

    Args:
        hold: prevent it from moving until this transaction ends.
    """
    row = connection.execute(_HELD_HORIZON if hold else _HORIZON).one_or_none()
    return 0.0 if row is None else float(row.before)


def mark_unrolled(connection: Connection, changed: Iterable[tuple[str, float]]) -> None:
    """Record that rows of these (stream, time) changed, so that their hours are rolled up (again)."""
    rows = [{"stream": stream, "hour": hour} for stream, hour in sorted({(s, hour_of(at)) for s, at in changed})]
    upsert(connection, unrolled_hours, rows)
