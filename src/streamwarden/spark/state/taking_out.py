"""Takes keys out of a state: counts what there is of them, rewrites the state without them, and counts again."""

from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from streamwarden import disk
from streamwarden.checkpoint.formats.layout import COMMITS
from streamwarden.checkpoint.formats.logs import with_state_ids
from streamwarden.checkpoint.formats.uris import of_hadoop
from streamwarden.lifecycle.surgery.assignment import Assign
from streamwarden.lifecycle.surgery.rewriting import NONE, SAMPLE, Found, Keys, Part, Rewrite, Rewritten
from streamwarden.spark.internals.state.rewriting import Change, rewrite_state
from streamwarden.spark.internals.state.stores import whole_store
from streamwarden.spark.state.columns import as_text, leaves
from streamwarden.spark.state.conditions import KEY, named

_PARTITION_KEY = "partition_key"
"""The key by which Spark sends rows to partitions, in the rows of its rewriter."""


def take_out(spark: SparkSession, wanted: Rewrite) -> Rewritten:
    """Count, and rewrite if there is a place for it. Raises ConfigError for keys that cannot be named so."""
    keys = wanted.keys
    if keys is None:
        write_changed(spark, wanted, lambda operator, store, rows: rows)
        return Rewritten(found=NONE, left=NONE)
    found = count(spark, wanted, keys, wanted.checkpoint)
    if wanted.into is None or not found.keys:
        return Rewritten(found=found)

    def change(operator: int, store: str, rows: DataFrame) -> DataFrame:
        return without(rows, keys) if operator == wanted.operator else rows

    write_changed(spark, wanted, change)
    return Rewritten(found=found, left=count(spark, wanted, keys, wanted.into))


def write_changed(spark: SparkSession, wanted: Rewrite | Assign, change: Change) -> None:
    """Write the changed state into the place for it, and let its commit name that state."""
    assert wanted.into is not None
    ids = rewrite_state(spark, read=wanted.checkpoint, write=wanted.into, batch=wanted.batch, change=change)
    if ids:
        commit = Path(of_hadoop(wanted.into), COMMITS, str(wanted.batch))
        disk.replace(commit, with_state_ids(commit.read_text(encoding="utf-8"), ids))


def without(rows: DataFrame, keys: Keys) -> DataFrame:
    """The rows of a store that do not belong to the keys."""
    keyed = rows.withColumnRenamed(_PARTITION_KEY, KEY)
    return keyed.where(~named(keyed, keys)).withColumnRenamed(KEY, _PARTITION_KEY)


def count(spark: SparkSession, wanted: Rewrite, keys: Keys, checkpoint: str) -> Found:
    """What a state has of the keys."""
    stores = {
        store: whole_store(spark, checkpoint, wanted.batch, wanted.operator, store).withColumnRenamed(
            _PARTITION_KEY, KEY
        )
        for store in wanted.stores
    }
    rows = (
        frame.where(named(frame, keys)).select(f.lit(store).alias("store"), "column_family_name", KEY)
        for store, frame in stores.items()
    )
    grouped = reduce(DataFrame.union, rows).groupBy("store", "column_family_name", KEY).count().persist()
    try:
        return _found(grouped, wanted)
    finally:
        grouped.unpersist()


def _found(grouped: DataFrame, wanted: Rewrite) -> Found:
    kind: Any = grouped.schema[KEY].dataType
    names = [(name, as_text(column, of)) for name, column, of in leaves(f.col(KEY), kind)]
    keys = grouped.select(KEY).distinct()
    parts = grouped.groupBy("store", "column_family_name").agg(f.count("*").alias("keys"), f.sum("count").alias("rows"))
    by_store = {
        row["store"]: row["n"] for row in grouped.groupBy("store").agg(f.count_distinct(KEY).alias("n")).collect()
    }
    sample = keys.select(*(column.alias(f"k{index}") for index, (_, column) in enumerate(names)))
    return Found(
        fields=tuple(name for name, _ in names),
        keys=keys.count(),
        parts=tuple(
            Part(store=row["store"], family=row["column_family_name"], keys=row["keys"], rows=row["rows"])
            for row in parts.orderBy("store", "column_family_name").collect()
        ),
        by_store={store: by_store.get(store, 0) for store in wanted.stores},
        sample=tuple(tuple(row) for row in sample.orderBy(*sample.columns).limit(SAMPLE).collect()),
    )
