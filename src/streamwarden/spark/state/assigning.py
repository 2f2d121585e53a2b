"""Gives a key of a state another value: encodes it, rewrites the state with it, and counts which rows differ then.

Spark's rewriter takes values in a binary form that no interface writes. So what is written first has to be right for
values that are there: if they get other bytes than the rewriter reads, nothing is written.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import NullType, StructField, StructType

from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.surgery.assignment import Assign, Assigned, Written
from streamwarden.lifecycle.time_travel.answers import Entry
from streamwarden.spark.internals.state.encoding import Encoded, encoded, literal
from streamwarden.spark.internals.state.stores import whole_store
from streamwarden.spark.state.columns import leaves
from streamwarden.spark.state.conditions import KEY, has_texts
from streamwarden.spark.state.entries import entry_of, keyed, laid_out, typed_rows, value_part
from streamwarden.spark.state.fitting import fitted
from streamwarden.spark.state.taking_out import write_changed

_PROOFS: Final = 100
"""Values that are encoded again, at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """The row to write. beside: a stored row of the same key, after which it is added; None: it replaces its own."""

    family: str
    encoded: Encoded
    beside: tuple[str, bytes] | None


def assign(spark: SparkSession, wanted: Assign) -> Assigned:
    """Encode, and rewrite if there is a place for it.

    Raises:
        ConfigError: the key or the value does not fit the state.
        CheckpointError: there is no such key, or the encoding is not proven.
    """
    done, row = _prepared(spark, wanted)
    if wanted.into is None or done.before == done.after:
        return done

    def change(operator: int, store: str, rows: DataFrame) -> DataFrame:
        return with_row(rows, row) if (operator, store) == (wanted.table.operator, wanted.store) else rows

    write_changed(spark, wanted, change)
    return replace(done, written=_written(spark, wanted, row))


def _prepared(spark: SparkSession, wanted: Assign) -> tuple[Assigned, Row]:
    """What is to be written. Raises as `assign`."""
    rows = typed_rows(spark, wanted.checkpoint, wanted.table, wanted.batch).select("partition_id", KEY, "value")
    named = _of_key(rows, wanted)
    there = _only_key(named, wanted)
    stored, beside = (named, None) if there else _other_state(spark, rows, wanted)
    given = stored.withColumn("given", _given(spark, wanted, rows)).withColumn("value", _merged(rows, wanted))
    proven = _proven(spark, rows, named, wanted)
    (row,) = _encoded(given)
    fields, after = _entry(given, wanted)
    before = _entry(named, wanted)[1] if there else None
    return Assigned(fields=fields, before=before, after=after, proven=proven), Row(wanted.family, row, beside)


def with_row(rows: DataFrame, row: Row) -> DataFrame:
    """The rows of a store with the row, in the columns of Spark's rewriter."""
    key, value = (f.lit(part) for part in row.encoded)
    if row.beside is None:
        return rows.withColumn("value_bytes", f.when(_is(row.family, key), value).otherwise(f.col("value_bytes")))
    own = [f.col(name) for name in rows.columns]
    new = {"key_bytes": key, "value_bytes": value, "column_family_name": f.lit(row.family)}
    added = [new.get(name, f.col(name)).alias(name) for name in rows.columns]
    family, anchor = row.beside
    both = f.when(_is(family, f.lit(anchor)), f.array(f.struct(*own), f.struct(*added)))
    return rows.select(f.explode(both.otherwise(f.array(f.struct(*own)))).alias("row")).select("row.*")


def _is(family: str, key: Column) -> Column:
    return (f.col("column_family_name") == family) & (f.col("key_bytes") == key)


def _of_key(rows: DataFrame, wanted: Assign) -> DataFrame:
    kind: Any = rows.schema[KEY].dataType
    return rows.where(has_texts(leaves(f.col(KEY), kind), wanted.wanted.keys))


def _only_key(named: DataFrame, wanted: Assign) -> bool:
    """Whether there is such a key. Raises ConfigError if there are several."""
    found = len(named.select(KEY).distinct().limit(2).collect())
    if found > 1:
        raise ConfigError(
            "several keys of the state are named",
            expected="one key, by all its fields",
            where="--key",
            next_step="name every field of the key by a --key of its own; `streamwarden state show` shows them",
        )
    return found == 1


def _other_state(spark: SparkSession, rows: DataFrame, wanted: Assign) -> tuple[DataFrame, tuple[str, bytes]]:
    """The key, as one of its rows in other tables has it, and that row. Raises ConfigError, CheckpointError."""
    store = _store(spark, wanted, wanted.checkpoint)
    named = _of_key(
        store.withColumnRenamed("partition_key", KEY).withColumnRenamed("partition", "partition_id"), wanted
    )
    first = named.orderBy("column_family_name", "key_bytes").limit(1)
    if not _only_key(named, wanted):
        raise CheckpointError(
            "the state has no such key",
            expected=f"a key that the operator has state of, by its fields {', '.join(_key_fields(rows))}",
            where=wanted.table.words,
            next_step="`streamwarden state show` shows keys that there are, and how values are written",
        )
    if wanted.table.expiry is not None:
        raise CheckpointError(
            "the key has no value here, and a new one would have no time to live",
            expected="a key with a value, whose expiry is kept",
            where=wanted.table.words,
            next_step="let the stream write the first value of the key",
        )
    (row,) = first.select("column_family_name", "key_bytes").collect()
    nothing = f.lit(None).cast(rows.schema["value"].dataType)
    return first.select("partition_id", KEY, nothing.alias("value")), (row[0], bytes(row[1]))


def _key_fields(rows: DataFrame) -> list[str]:
    return [name for name, _, _ in leaves(f.col(KEY), _kinds(rows)[0])]


def _given(spark: SparkSession, wanted: Assign, rows: DataFrame) -> Column:
    """The value that was named. Raises ConfigError if it does not fit."""
    _, own = value_part(_kinds(rows)[1], wanted.table.expiry)
    return literal(spark, fitted(wanted.wanted.value, own), own)


def _merged(rows: DataFrame, wanted: Assign) -> Column:
    """The row's value with what was given, and with its expiry as it was."""
    kind = _kinds(rows)[1]
    inner, _ = value_part(kind, wanted.table.expiry)

    def part(field: StructField) -> Column:
        if field.name == inner:
            return f.col("given")
        kept = inner is not None or field.name == wanted.table.expiry or isinstance(field.dataType, NullType)
        return f.col("value" if kept else "given").getField(field.name)

    return f.struct(*(part(field).alias(field.name) for field in kind.fields))


def _entry(row: DataFrame, wanted: Assign) -> tuple[tuple[str, ...], Entry]:
    """The fields of the key, and the row as a look shows it."""
    found = keyed(laid_out(row, wanted.table), wanted.table, ())
    return found.fields, entry_of(found.frame.collect()[0], found.fields)


def _proven(spark: SparkSession, rows: DataFrame, named: DataFrame, wanted: Assign) -> int:
    """How many values that are there, that of the key among them, got the bytes that are stored.

    Raises CheckpointError if one got others, or if there is none.
    """
    again = dict(_encoded(named.union(rows.limit(_PROOFS))))
    stored = _stored(spark, wanted, list(again))
    if again and stored == again:
        return len(again)
    right = sum(stored.get(key) == value for key, value in again.items())
    raise CheckpointError(
        f"no encoding of the value is proven: {right} of {len(again)} values got the bytes that are stored",
        expected="stored values, and for each the same bytes when it is encoded again",
        where=wanted.table.words,
        next_step="delete the key with `streamwarden state delete`, so that it begins anew",
    )


def _encoded(rows: DataFrame) -> list[Encoded]:
    key, value = _kinds(rows)
    return encoded(rows, (len(key), len(value)))


def _kinds(rows: DataFrame) -> tuple[StructType, StructType]:
    """The schemas of key and value."""
    key, value = (rows.schema[name].dataType for name in (KEY, "value"))
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    return key, value


def _stored(spark: SparkSession, wanted: Assign, keys: list[bytes]) -> dict[bytes, bytes]:
    rows = _store(spark, wanted, wanted.checkpoint).where(f.col("column_family_name") == wanted.family)
    found = rows.where(f.col("key_bytes").isin([f.lit(key) for key in keys])).select("key_bytes", "value_bytes")
    return {bytes(row[0]): bytes(row[1]) for row in found.collect()}


def _store(spark: SparkSession, wanted: Assign, checkpoint: str) -> DataFrame:
    return whole_store(spark, checkpoint, wanted.batch, wanted.table.operator, wanted.store)


def _written(spark: SparkSession, wanted: Assign, row: Row) -> Written:
    before, after = (
        _store(spark, wanted, checkpoint).select("partition", "column_family_name", "key_bytes", "value_bytes")
        for checkpoint in (wanted.checkpoint, str(wanted.into))
    )
    came = after.exceptAll(before).persist()
    key, value = (f.lit(part) for part in row.encoded)
    try:
        right = came.where(_is(row.family, key) & (f.col("value_bytes") == value)).count()
        return Written(gone=before.exceptAll(after).count(), came=came.count(), right=right)
    finally:
        came.unpersist()
