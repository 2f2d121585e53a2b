"""Rows into PostgreSQL's binary COPY: exact for every value, since nothing is written as text and read back.

Instants and days come as numbers, so that years beyond those of Python's datetime pass too:

    timestamp with time zone, timestamp   microseconds since 1970-01-01 (UTC; of the wall clock)
    date                                  days since 1970-01-01
    jsonb                                 JSON as text

All others come as psycopg's own Python types.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

_INT4, _INT8 = struct.Struct("!i").pack, struct.Struct("!q").pack

_EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to 2000-01-01, where PostgreSQL counts from."""

_EPOCH_MICROS: Final = _EPOCH_DAYS * 86_400_000_000


class _Instant(Dumper):
    format = Format.BINARY
    oid = types["timestamptz"].oid

    def dump(self, obj: int) -> bytes:
        return _INT8(obj - _EPOCH_MICROS)


class _WallClock(_Instant):
    oid = types["timestamp"].oid


class _Day(Dumper):
    format = Format.BINARY
    oid = types["date"].oid

    def dump(self, obj: int) -> bytes:
        return _INT4(obj - _EPOCH_DAYS)


class _Json(Dumper):
    format = Format.BINARY
    oid = types["jsonb"].oid

    def dump(self, obj: str) -> bytes:
        return b"\x01" + obj.encode()


def copy_rows(
    cursor: psycopg.Cursor[Any],
    into: sql.Composable,
    columns: Sequence[str],
    oids: Sequence[int],
    rows: Iterable[Sequence[object]],
) -> int:
    """COPY `rows` into the table `into`; returns how many there were.

    Args:
        oids: type of each column of the table.

    Raises psycopg.Error; OverflowError, UnicodeError or struct.error for a value that the wire format cannot hold.
    """
    for dumper in (_Instant, _WallClock, _Day, _Json):
        cursor.adapters.register_dumper(None, dumper)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
        into, sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    count = 0
    with cursor.copy(statement) as copy:
        copy.set_types(oids)
        for row in rows:
            copy.write_row(row)
            count += 1
    return count
