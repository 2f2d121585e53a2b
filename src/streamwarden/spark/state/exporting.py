"""Writes the state after a batch to files: parquet with its structs, or CSV with a column for each of their fields."""

from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import NullType, StructType

from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.lifecycle.time_travel.answers import Exported, Question
from streamwarden.spark.state.columns import as_text, leaves
from streamwarden.spark.state.conditions import has_texts
from streamwarden.spark.state.entries import entries

EXPORT: Final = "export"
"""Folder of the files, in the folder of the program."""


def export(spark: SparkSession, question: Question, folder: Path) -> Exported:
    """Write the rows, and count what was written."""
    rows = entries(spark, question.checkpoint, question.table, question.batches[0])
    rows = rows.where(has_texts(leaves(f.col("key"), _struct(rows, "key")), question.keys))
    target = to_hadoop(str(folder / EXPORT))
    if question.format == "csv":
        rows = _flat(rows)
        rows.write.csv(target, quote='"', escape='"')
        written = spark.read.schema(rows.schema).csv(target, quote='"', escape='"', multiLine=True).count()
        return Exported(rows=written, header=tuple(rows.columns))
    _writable(rows).write.parquet(target)
    return Exported(rows=spark.read.parquet(target).count(), header=tuple(rows.columns))


def _struct(rows: DataFrame, name: str) -> Any:
    return rows.schema[name].dataType


def _writable(rows: DataFrame) -> DataFrame:
    """Without the fields of the key that never have a value: parquet has no type for them."""
    kept = [
        column.alias(name.replace(".", "_"))
        for name, column, kind in leaves(f.col("key"), _struct(rows, "key"))
        if not isinstance(kind, NullType)
    ]
    whole = len(kept) == len(leaves(f.col("key"), _struct(rows, "key")))
    return rows if whole else rows.withColumn("key", f.struct(*kept) if kept else f.lit(None).cast("string"))


def _flat(rows: DataFrame) -> DataFrame:
    columns: list[Column] = []
    for name in rows.columns:
        kind = _struct(rows, name)
        if isinstance(kind, StructType):
            columns += [as_text(column, of).alias(f"{name}.{inner}") for inner, column, of in leaves(f.col(name), kind)]
        else:
            columns.append(f.col(name).cast("string").alias(name))
    return rows.select(*columns)
