"""Reads a stream's output from its table, and compares the batch table with the checkpoint."""

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

import psycopg
from psycopg import sql

from streamwarden.adapters.postgresql.access import access, explain
from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import VerificationError
from streamwarden.sinks.output import Output, Part, part_of
from streamwarden.sinks.output_types import postgresql_type
from streamwarden.sinks.postgresql import batch_table
from streamwarden.sinks.postgresql.table import BATCH, Table, find_schema, split
from streamwarden.stream.spec import StreamSpec

_TOGETHER: Final = 50_000
"""Rows whose values are Python objects at a time."""


def read_table(spec: StreamSpec, *, committed: int | None, first: int = 0) -> Output:
    """The rows of the stream's batches; rows without a batch were written by others.

    Args:
        committed: the query's newest committed batch: the batch table must say the same.
        first: first batch whose rows are read.

    Raises VerificationError if the table cannot be read.
    """
    sink = spec.sink
    assert sink.connection is not None  # the stream's file was checked
    assert sink.table is not None
    place, name = split(sink.table)
    where = f"{sink.table} (connection {sink.connection})"
    try:
        with access(sink.connection).open(f"verify {spec.name}") as session, session.cursor(binary=True) as cursor:
            # Rows and batch table as of one moment.
            session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            table = Table(schema=find_schema(cursor, place), name=name, oids=())
            with session.cursor("rows", binary=True) as reader:  # of the server, which sends some rows at a time
                reader.execute(
                    sql.SQL("SELECT * FROM {} WHERE {} >= {}").format(
                        table.identifier, sql.Identifier(BATCH), sql.Literal(first)
                    )
                )
                described = tuple(reader.description or ())
                parts = [_part(described, rows) for rows in iter(partial(reader.fetchmany, _TOGETHER), [])]
            position = batch_table.read(cursor, table, read_query_id(checkpoint_of(spec)) or "")
    except psycopg.DataError as error:
        raise VerificationError(
            f"a value of the table cannot be read here: {error}",
            expected="instants and days of the years 1 to 9999",
            where=where,
            next_step="verify this stream by hand",
        ) from error
    except psycopg.Error as error:
        explained = explain(error, connection=sink.connection, where=where)
        raise VerificationError(
            explained.observed, expected=explained.expected, where=explained.where, next_step=explained.next_step
        ) from error
    return _output(described, parts, _contradictions(position, committed, table))


def _part(described: Sequence[psycopg.Column], rows: Sequence[tuple[object, ...]]) -> Part:
    """Rows without the sink's own number of the batch, which is kept apart."""
    values = dict(zip((column.name for column in described), zip(*rows, strict=True), strict=True))
    return part_of(values, len(rows), cast(Sequence[int], values.pop(BATCH)))


def _output(described: Sequence[psycopg.Column], parts: Sequence[Part], problems: tuple[str, ...]) -> Output:
    kept = [column for column in described if column.name != BATCH]
    return Output(
        columns=tuple(column.name for column in kept),
        parts=parts,
        types={column.name: (postgresql_type(column.type_display),) for column in kept},
        problems=problems,
    )


def _contradictions(position: batch_table.Position | None, committed: int | None, table: Table) -> tuple[str, ...]:
    there = position.batch if position is not None else None
    if there == committed:
        return ()
    said = f"has batches up to {there}" if there is not None else "has no batch of this query"
    return (f"the batch table of {table} {said}, and the checkpoint has committed batch {committed}",)
