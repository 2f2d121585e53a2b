"""A stream's batches on their way from Spark to a PostgreSQL table: the function of foreachBatch.

A batch is computed once, in parallel, and kept by Spark (in memory, on disk what has no room there) until it is in the
table: an attempt that fails costs no second computation, and the state's changes are made once. The driver then takes
it over part by part, never whole, and writes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.postgresql.access import access
from streamwarden.adapters.storage.files import open_path, running_query
from streamwarden.checkpoint.formats.layout import OFFSETS
from streamwarden.checkpoint.formats.logs import read_query_id
from streamwarden.errors import CheckpointError, JobError
from streamwarden.sinks.postgresql.table import Column, Target, split
from streamwarden.sinks.postgresql.transaction import Batch, TableSink, waits_for
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.units import Seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

FEW: Final = 10_000
"""Rows up to which a batch is fetched by one job of Spark's instead of one for each partition."""

MANY: Final = 100_000
"""Rows that are in the driver's memory at once, about: a larger batch is repartitioned into parts of that size."""

_JSON: Final = (
    "to_json({0}, map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", 'timestampNTZFormat',"
    " \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\", 'ignoreNullFields', 'false'))"
)
"""With all digits of a second, and with the fields that are null."""

_WALL_CLOCK: Final = (
    "unix_micros(make_timestamp(year({0}), month({0}), day({0}), hour({0}), minute({0}), extract(second FROM {0}),"
    " 'UTC'))"
)


@dataclass(frozen=True, slots=True)
class Mapped:
    """A type of Spark's in PostgreSQL: the column's type, and the expression by which a value travels."""

    type: str
    expression: str = "{0}"


def mapped(kind: DataType) -> Mapped | None:
    """Arrays of plain values are arrays; structs, maps, and arrays of these, are jsonb. None: no such type."""
    from pyspark.sql import types as spark

    if isinstance(kind, spark.ArrayType):
        element = mapped(kind.elementType)
        if element is None:
            return None
        if element.type == "jsonb" or element.type.endswith("[]"):
            return Mapped("jsonb", _JSON)
        plain = element.expression == "{0}"
        expression = "{0}" if plain else "transform({0}, each -> " + element.expression.replace("{0}", "each") + ")"
        return Mapped(f"{element.type}[]", expression)
    if isinstance(kind, spark.StructType):
        all_mapped = all(mapped(column.dataType) for column in kind.fields)
        return Mapped("jsonb", _JSON) if all_mapped else None
    if isinstance(kind, spark.MapType):
        return Mapped("jsonb", _JSON) if mapped(kind.keyType) and mapped(kind.valueType) else None
    if isinstance(kind, spark.DecimalType):
        return Mapped(f"numeric({kind.precision},{kind.scale})")
    if isinstance(kind, (spark.StringType, spark.CharType, spark.VarcharType)):
        return Mapped("text", "validate_utf8({0})")  # the JVM would replace each byte that is not text
    return _PLAIN.get(kind.typeName())


_PLAIN: Final = {
    "boolean": Mapped("boolean"),
    "byte": Mapped("smallint"),
    "short": Mapped("smallint"),
    "integer": Mapped("integer"),
    "long": Mapped("bigint"),
    "float": Mapped("real"),
    "double": Mapped("double precision"),
    "binary": Mapped("bytea"),
    "date": Mapped("date", "unix_date({0})"),
    "timestamp": Mapped("timestamp with time zone", "unix_micros({0})"),
    "timestamp_ntz": Mapped("timestamp without time zone", _WALL_CLOCK),
    "variant": Mapped("jsonb", _JSON),
}


def columns_of(schema: StructType, job: str) -> tuple[tuple[Column, str], ...]:
    """Each column of the rows with the expression by which its values travel. Raises JobError for a type that
    PostgreSQL has nothing for."""
    columns = []
    for field in schema.fields:
        into = mapped(field.dataType)
        if into is None:
            raise JobError(
                f"the column {field.name} is of the type {field.dataType.simpleString()}, which the table cannot have",
                expected=f"one of {', '.join(sorted(_PLAIN))}, string, decimal, or an array, map or struct of these",
                where=job,
                next_step=f"cast {field.name} in the job, or leave it out",
            )
        quoted = "`" + field.name.replace("`", "``") + "`"
        columns.append((Column(field.name, into.type), into.expression.replace("{0}", quoted)))
    return tuple(columns)


class TableWriter:
    """Takes a stream's batches from foreachBatch into its table.

    Args:
        token: fencing token of the driver's lease.
        ending: whether the driver has to end: then the writer does not wait for a database that is unavailable.
        make: makes the sink.
        patience: how long a batch is tried again while the database is unavailable.
    """

    def __init__(
        self,
        spec: StreamSpec,
        token: int,
        ending: Callable[[], bool] = lambda: False,
        make: Callable[..., TableSink] = TableSink,
        patience: Seconds = 0.0,
    ) -> None:
        self._spec = spec
        self._patience = patience
        self._token = token
        self._ending = ending
        self._make = make
        self._sink: TableSink | None = None
        self._expressions: tuple[str, ...] = ()

    def open(self, schema: StructType) -> None:
        """Check that the table exists and takes the rows, before the query starts. Raises what TableSink.prepare
        raises, JobError for a type that has no place in a table, ConfigError for a connection that is not known."""
        sink = self._spec.sink
        place, table = split(sink.table or "")
        columns = columns_of(schema, self._spec.job)
        target = Target(
            schema=place,
            table=table,
            columns=tuple(column for column, _ in columns),
            key=sink.key,
            replaces=sink.mode is OutputMode.UPDATE,
        )
        self._expressions = tuple(expression for _, expression in columns)
        self._sink = self._make(
            target,
            access(sink.connection or ""),
            stream=self._spec.name,
            token=self._token,
            waits=waits_for(self._patience),
            patience=self._patience,
            ending=self._ending,
        )
        self._sink.prepare(read_query_id(open_path(self._spec.checkpoint)))

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        assert self._sink is not None  # opened before the query was started
        query_id, plan = self._planned(batch_id)
        rows = frame.selectExpr(*self._expressions)
        rows.persist()
        try:
            # Counted although the batch may be in the table already: the state has to have it too.
            count = rows.count()
            self._sink.write(
                Batch(query_id=query_id, batch_id=batch_id, plan=plan, rows=lambda: _fetched(rows, count), count=count)
            )
        finally:
            rows.unpersist()

    def _planned(self, batch_id: int) -> tuple[str, str]:
        """The query's id and the digest of the batch's plan: both are in the checkpoint before the batch runs."""
        plan = open_path(self._spec.checkpoint) / OFFSETS / str(batch_id)
        query_id = running_query(self._spec.checkpoint)
        try:
            return query_id, hashlib.sha256(plan.read()).hexdigest()
        except OSError as error:
            raise CheckpointError(
                f"the plan of the running batch cannot be read: {error}",
                expected="the file that Spark wrote before it began the batch",
                where=plan.path,
                next_step="run `streamwarden inspect` on the checkpoint",
            ) from error


def _fetched(rows: DataFrame, count: int) -> Iterable[Sequence[object]]:
    if count == 0:
        return ()
    if count <= FEW:
        return rows.coalesce(1).toLocalIterator()
    parts = rows if count <= MANY else rows.repartition(ceil(count / MANY))
    return parts.toLocalIterator(prefetchPartitions=True)
