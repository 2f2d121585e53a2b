"""The rows of any table of state under the same columns, whatever operator keeps them.

partition    int
key          struct; `item`: the key within a map variable, or within a whole store
value        struct; missing if the table keeps keys alone
expires_at   timestamp; missing if nothing in the state says when an entry expires
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import NullType, StructType

from streamwarden.lifecycle.time_travel.answers import Entry, Key
from streamwarden.lifecycle.time_travel.tables import StateTable, TableKind
from streamwarden.spark.internals.state.stores import whole_store
from streamwarden.spark.state.columns import as_json, as_text, leaves, size, unambiguous, varies
from streamwarden.spark.state.conditions import has_texts
from streamwarden.spark.state.reader import state_after

_VALUES: Final = ("value", "list_element", "user_map_value")
"""The column with the value of a row, by the kind of the table."""

_INNER: Final = {"ttlExpirationMs": "value", "timeoutTimestamp": "groupState"}
"""Field of an expiry -> the field beside it that holds the value itself."""

_TIMER: Final = "expiration_timestamp_ms"
_MICROS: Final = "expiresAtMicros"
"""The one field of an expiry that is not in milliseconds."""


def entries(spark: SparkSession, checkpoint: str, table: StateTable, batch: int) -> DataFrame:
    """The rows of a table after a batch."""
    if table.kind is TableKind.STORE:
        return whole_store(spark, checkpoint, batch, table.operator, str(table.variable)).select(
            "partition",
            f.col("partition_key").alias("key"),
            f.struct("column_family_name", "key_bytes").alias("item"),
            f.struct("value_bytes").alias("value"),
        )
    return laid_out(typed_rows(spark, checkpoint, table, batch), table)


def typed_rows(spark: SparkSession, checkpoint: str, table: StateTable, batch: int) -> DataFrame:
    """The rows of a table as Spark's reader gives them, under names that are unambiguous."""
    return _unambiguous(state_after(spark, checkpoint, batch, table.options))


def laid_out(raw: DataFrame, table: StateTable) -> DataFrame:
    """The rows of `typed_rows` under the columns of all tables."""
    columns = [f.col("partition_id").alias("partition"), f.col("key")]
    if table.kind is TableKind.MAP:
        columns.append(f.col("user_map_key").alias("item"))
    if table.kind is TableKind.TIMERS:
        return raw.select(*columns, _moment(f.col(_TIMER), _TIMER).alias("expires_at"))
    name = next(name for name in _VALUES if name in raw.columns)
    return raw.select(*columns, *_value(f.col(name), raw.schema[name].dataType, table.expiry))


def _unambiguous(raw: DataFrame) -> DataFrame:
    """The rows with the types of `unambiguous`."""
    return raw.select(
        *(
            f.col(field.name).cast(named).alias(field.name) if named != field.dataType else f.col(field.name)
            for field in raw.schema.fields
            for named in [unambiguous(field.dataType)]
        )
    )


def _value(column: Column, kind: Any, expiry: str | None) -> list[Column]:
    """The value without its expiry, and the expiry."""
    columns = []
    if expiry is not None and expiry in kind.names:
        columns.append(_moment(column.getField(expiry), expiry).alias("expires_at"))
    inner, own = value_part(kind, expiry)
    column = column if inner is None else column.getField(inner)
    kept = [column.getField(field.name).alias(field.name) for field in own.fields]
    return [*([f.struct(*kept).alias("value")] if kept else []), *columns]


def value_part(kind: StructType, expiry: str | None) -> tuple[str | None, StructType]:
    """The field of a row that holds the value itself, and the value's type without the expiry. None: the row does."""
    inner = _INNER.get(str(expiry))
    nested = kind[inner].dataType if inner in kind.names else None
    own = nested if isinstance(nested, StructType) else kind
    fields = [field for field in own.fields if field.name != expiry and not isinstance(field.dataType, NullType)]
    return inner if own is nested else None, StructType(fields)


def _moment(column: Column, field: str) -> Column:
    """A timestamp; NULL for what stands for "never"."""
    micros = column if field == _MICROS else column * 1000
    return f.when(column > 0, f.timestamp_micros(micros))


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """The rows with their keys as texts.

    Args:
        fields: names of the key's fields.
        frame: `partition`, `k0`, … for the fields, `item`, `value` and `expires` as texts, `expires_ms`, `size`.
        sized: whether sizes are known, and two values may have different ones.
        several: whether a key may have several rows.
    """

    fields: tuple[str, ...]
    frame: DataFrame
    sized: bool
    several: bool

    @property
    def keys(self) -> list[str]:
        return [f"k{index}" for index in range(len(self.fields))]


def keyed(rows: DataFrame, table: StateTable, wanted: Sequence[str]) -> Keyed:
    """The rows of the wanted keys, all if none is named. Raises ConfigError for a field that the key does not have."""
    kind: Any = rows.schema["key"].dataType
    found = leaves(f.col("key"), kind)
    fields = tuple(name for name, _, _ in found)
    none = f.lit(None).cast("string")
    value: Any = rows.schema["value"].dataType if "value" in rows.columns else None
    bytes_of = None if value is None else size(f.col("value"), value)
    frame = rows.where(has_texts(found, wanted)).select(
        "partition",
        *(as_text(column, of).alias(f"k{index}") for index, (_, column, of) in enumerate(found)),
        (as_json(f.col("item")) if "item" in rows.columns else none).alias("item"),
        (none if value is None else as_json(f.col("value"))).alias("value"),
        (f.unix_millis("expires_at") if "expires_at" in rows.columns else f.lit(None).cast("long")).alias("expires_ms"),
        (f.lit(None).cast("long") if bytes_of is None else bytes_of).alias("size"),
    )
    return Keyed(
        fields=fields,
        frame=frame,
        sized=bytes_of is not None and varies(value),
        several=table.kind not in (TableKind.ROWS, TableKind.VALUE),
    )


def key_of(row: Any, fields: Sequence[str]) -> Key:
    """The key of a row with the columns `k0`, …."""
    return tuple(row[f"k{index}"] for index in range(len(fields)))


def entry_of(row: Any, fields: Sequence[str]) -> Entry:
    """A row of `Keyed.frame`."""
    return Entry(
        partition=row["partition"],
        key=key_of(row, fields),
        item=row["item"],
        value=row["value"],
        expires_ms=row["expires_ms"],
    )
