"""Roll-up: condenses the rows of each stream and hour to one row for each number, so that months of history stay small.

An hour is always computed from all its raw rows, so a roll-up is idempotent: done twice, or again after a late report,
it has the totals of the raw rows.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from streamwarden.adapters.store.database import Database
from streamwarden.adapters.store.tables import batches, hourly, measurements, state_operators, unrolled_hours
from streamwarden.units import HOUR

_CHUNK: Final = 10
"""Hours in one transaction: an hour has up to 3,600 raw rows, and no writer should wait long for the lock."""

_SPARK: Final = "Spark's progress"


class Rolled(StrEnum):
    """Numbers rolled up from batches (of those that ran), each with its unit; a measurement keeps its own name."""

    unit: str

    def __new__(cls, value: str, unit: str) -> Self:
        member = str.__new__(cls, value)
        member._value_, member.unit = value, unit
        return member

    BATCHES = "progress.batches", "batches"  # each counts 1: the total is their number, those of the logs included
    ROWS = "progress.rows", "rows"
    MALFORMED = "progress.malformed", "rows"
    DURATION = "progress.duration_ms", "ms"
    PLANNING = "progress.planning_ms", "ms"
    EXECUTION = "progress.execution_ms", "ms"
    LOGS = "progress.logs_ms", "ms"
    WATERMARK_LAG = "progress.watermark_lag", "seconds"
    STATE_ROWS = "progress.state_rows", "rows"  # per batch, all operators
    STATE_MEMORY = "progress.state_memory_bytes", "bytes"
    STATE_SST = "progress.state_sst_bytes", "bytes"  # batches without a flush report 0 and are left out
    STATE_UPDATE = "progress.state_update_ms_per_row", "ms"  # of the slowest operator
    STATE_REMOVAL = "progress.state_removal_ms", "ms"  # the sum over tasks, all operators; as is the next
    STATE_COMMIT = "progress.state_commit_ms", "ms"
    STATE_PARTITIONS = "progress.state_partitions", "partitions"  # of the operator with most


def roll_up(database: Database, now: float) -> int:
    """Roll up every hour that has ended by `now` and changed since; returns how many."""
    return database.write_in_turns(lambda connection: _roll_some(connection, now))


def _roll_some(connection: Connection, now: float) -> int:
    query = unrolled_hours.select().where(unrolled_hours.c.hour <= now - HOUR).limit(_CHUNK).with_for_update()
    hours = connection.execute(query).all()
    for stream, hour in hours:
        connection.execute(hourly.delete().where(hourly.c.stream == stream, hourly.c.hour == hour))
        rows = _of_batches(connection, stream, hour) + _of_measurements(connection, stream, hour)
        if rows:
            connection.execute(hourly.insert(), [{"stream": stream, "hour": hour, **row} for row in rows])
        connection.execute(
            unrolled_hours.delete().where(unrolled_hours.c.stream == stream, unrolled_hours.c.hour == hour)
        )
    return len(hours)


def _of_batches(connection: Connection, stream: str, hour: int) -> list[dict[str, Any]]:
    rows = []
    for names, query in _batch_queries():
        row = connection.execute(query, _within(stream, hour)).mappings().one()
        for name in names:
            sums = {what: row[f"{name.name}_{what}"] for what in _SUMS}
            if sums["samples"]:
                rows.append({"name": name.value, "source": _SPARK, "unit": name.unit, **sums})
    return rows


def _of_measurements(connection: Connection, stream: str, hour: int) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(_measurement_query(), _within(stream, hour)).mappings()]


def _within(stream: str, hour: int) -> dict[str, Any]:
    return {"of_stream": stream, "from_at": hour, "to_at": hour + HOUR}


def _is_within(table: sa.Table) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        table.c.stream == sa.bindparam("of_stream"),
        table.c.at >= sa.bindparam("from_at"),
        table.c.at < sa.bindparam("to_at"),
    )


@cache
def _batch_queries() -> tuple[tuple[tuple[Rolled, ...], sa.Select[Any]], ...]:
    """One query for each kind of row, with the numbers that it gives. Built once: that takes longer than running it."""
    within = _is_within(batches)
    done = sa.or_(batches.c.executed, batches.c.committed_at.is_not(None))
    same_batch = (batches.c[key] == state_operators.c[key] for key in ("stream", "query_id", "batch_id"))
    per_row = sa.cast(state_operators.c.update_ms, sa.Double) / sa.func.nullif(state_operators.c.rows_updated, 0)
    state = {
        Rolled.STATE_ROWS: sa.func.sum(state_operators.c.rows_total),
        Rolled.STATE_MEMORY: sa.func.sum(state_operators.c.memory_bytes),
        Rolled.STATE_SST: sa.func.sum(state_operators.c.sst_bytes),
        Rolled.STATE_UPDATE: sa.func.max(per_row),
        Rolled.STATE_REMOVAL: sa.func.sum(state_operators.c.removal_ms),
        Rolled.STATE_COMMIT: sa.func.sum(state_operators.c.commit_ms),
        Rolled.STATE_PARTITIONS: sa.func.max(state_operators.c.partitions),
    }
    of_batch = (
        sa.select(*(number.label(name.name) for name, number in state.items()))
        .select_from(batches.join(state_operators, sa.and_(*same_batch)))
        .where(*within, batches.c.executed)
        .group_by(batches.c.query_id, batches.c.batch_id)
        .subquery()
    )
    ran = {
        Rolled.ROWS: batches.c.rows,
        Rolled.MALFORMED: batches.c.malformed,
        Rolled.DURATION: batches.c.duration_ms,
        Rolled.PLANNING: batches.c.planning_ms,
        Rolled.EXECUTION: batches.c.execution_ms,
        Rolled.LOGS: batches.c.logs_ms,
        Rolled.WATERMARK_LAG: batches.c.started_at - batches.c.watermark,
    }
    return (
        ((Rolled.BATCHES,), _sums({Rolled.BATCHES: sa.literal(1)}).select_from(batches).where(*within, done)),
        (tuple(ran), _sums(ran).where(*within, batches.c.executed)),
        (tuple(state), _sums({name: of_batch.c[name.name] for name in state})),
    )


def _sums(numbers: Mapping[Rolled, sa.ColumnElement[Any]]) -> sa.Select[Any]:
    return sa.select(
        *(sums(number).label(f"{name.name}_{what}") for name, number in numbers.items() for what, sums in _SUMS.items())
    )


@cache
def _measurement_query() -> sa.Select[Any]:
    return (
        sa.select(
            measurements.c.name,
            measurements.c.source,
            sa.func.max(measurements.c.unit).label("unit"),
            *(sums(measurements.c.value).label(what) for what, sums in _SUMS.items()),
        )
        .where(*_is_within(measurements))
        .group_by(measurements.c.name, measurements.c.source)
    )


_SUMS: Final[Mapping[str, Callable[[sa.ColumnElement[Any]], sa.ColumnElement[Any]]]] = {
    "samples": sa.func.count,
    "total": sa.func.sum,
    "least": sa.func.min,
    "most": sa.func.max,
}
