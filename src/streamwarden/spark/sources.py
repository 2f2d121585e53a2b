"""Reading files as a stream, with rows that cannot be used counted and kept aside.

A job calls `read_files` and gets the good rows. The malformed ones (they do not fit the schema, or lack a column that
the job requires) are counted inside the query (`observedMetrics` of its progress, under `input`); `quarantine` keeps
them aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final, cast

from streamwarden.errors import ConfigError
from streamwarden.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt_record"
METRIC: Final = "input"
"""Name of the observed metric: `read` and `malformed` rows of each batch."""

_WITH_CORRUPT_RECORDS: Final = frozenset({"json", "csv"})


@dataclass(frozen=True)
class FileSource:
    """What is needed to read a batch's files again, exactly as the query reads them."""

    format: str
    schema: StructType
    options: dict[str, str]
    required: tuple[str, ...] = ()


_registered: dict[str, FileSource] = {}


def registered(stream: str) -> FileSource | None:
    """What the job of `stream` reads; None if nothing of it can be malformed, or it reads without `read_files`."""
    return _registered.get(stream)


def read_files(
    spark: SparkSession, spec: StreamSpec, schema: StructType | str, *, required: Sequence[str] = ()
) -> DataFrame:
    """A streaming DataFrame of the well-formed rows of the stream's source files.

    Rows that do not fit `schema`, or are null in a `required` column, are counted and go to the stream's quarantine. A
    stream without a quarantine fails on the first such row instead: nothing is dropped silently. In formats that carry
    a schema of their own (parquet, orc) only a required column can be wrong.

    Args:
        schema: of the source, as a StructType or as DDL (`id BIGINT, at TIMESTAMP`).
        required: columns that a row must have a value in: its keys, its event time.

    Raises:
        ConfigError: the stream's source is no folder of files, or a required column is not in the schema.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    source = spec.source
    if source.path is None:
        raise ConfigError(
            "the source has no path",
            expected="source: {kind: files, path: …}",
            where=spec.file or spec.name,
            next_step="declare it in the stream's file",
        )
    fields = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    unknown = [column for column in required if column not in fields.names]
    if unknown:
        raise ConfigError(
            f"required columns that the schema lacks: {', '.join(unknown)}",
            expected=f"some of {', '.join(fields.names)}",
            where=spec.job,
            next_step="correct `required` in the job's call of read_files",
        )
    options = dict(source.options)
    if source.format in _WITH_CORRUPT_RECORDS:
        options |= {"mode": "FAILFAST"}
        if spec.quarantine is not None:
            options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
            fields = StructType([*fields.fields, StructField(CORRUPT, StringType())])
    reader = spark.readStream.format(source.format).options(**options).schema(fields)
    if source.max_files_per_trigger is not None:
        reader = reader.option("maxFilesPerTrigger", source.max_files_per_trigger)
    known = FileSource(source.format, fields, options, tuple(required))
    frame = reader.load(source.path)
    if spec.quarantine is None:
        return _failing(frame, known)
    if CORRUPT not in fields.names and not required:
        return frame
    _registered[spec.name] = known
    return _good(frame, known)


def _malformed(source: FileSource) -> Column:
    """Never null."""
    from pyspark.sql import functions as f

    lacking = [f.col(f"`{column}`").isNull() for column in source.required]
    corrupt = [f.col(CORRUPT).isNotNull()] if CORRUPT in source.schema.names else []
    return reduce(or_, [*corrupt, *lacking], f.lit(False))


def _good(frame: DataFrame, source: FileSource) -> DataFrame:
    from pyspark.sql import functions as f

    malformed = _malformed(source)
    empty = reduce(and_, [f.col(f"`{column}`").isNull() for column in frame.columns if column != CORRUPT])
    counted = frame.observe(
        METRIC,
        f.count(f.lit(1)).alias("read"),
        f.count(f.when(malformed, 1)).alias("malformed"),
        # Rows without any known field, a sign of a renamed schema. It also makes every column needed: a wrong value in
        # one that the job does not use makes the row malformed here as it does in the quarantine, not only there.
        f.count(f.when(empty & ~malformed, 1)).alias("empty"),
    )
    return counted.where(~malformed).drop(CORRUPT)


def _failing(frame: DataFrame, source: FileSource) -> DataFrame:
    """For a stream without a quarantine: a row that lacks a required column ends the query."""
    from pyspark.sql import functions as f

    if not source.required:
        return frame
    told = f.concat(
        f.lit("a row lacks "),
        _lacking(source),
        f.lit(f" in {source.format} file "),
        f.col("_metadata.file_path"),
        f.lit("; declare a `quarantine` in the stream's file to keep such rows aside"),
    )
    complete = f.when(_malformed(source), f.raise_error(told).cast("boolean")).otherwise(f.lit(True))
    return frame.where(complete)


def malformed_rows(spark: SparkSession, source: FileSource, files: tuple[str, ...]) -> DataFrame:
    """The malformed rows of `files`: raw text, file, reason, what could be parsed. A batch DataFrame."""
    from pyspark.sql import functions as f

    frame = spark.read.format(source.format).options(**source.options).schema(source.schema).load(list(files))
    fields = [f.col(f"`{field.name}`") for field in source.schema.fields if field.name != CORRUPT]
    raw = f.col(CORRUPT) if CORRUPT in source.schema.names else f.lit(None).cast("string")
    return (
        frame.select(
            raw.alias("raw"),
            f.col("_metadata.file_path").alias("file"),
            f.to_json(f.struct(*fields)).alias("parsed"),  # all columns, so that none is pruned and left unparsed
            _malformed(source).alias("malformed"),
            _lacking(source).alias("lacking"),
        )
        .where("malformed")
        .select("raw", "file", _reason(source).alias("reason"), "parsed")
    )


def _lacking(source: FileSource) -> Column:
    """`origin, carrier`: the required columns that are null."""
    from pyspark.sql import functions as f

    return f.concat_ws(", ", *(f.when(f.col(f"`{column}`").isNull(), f.lit(column)) for column in source.required))


def _reason(source: FileSource) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    parses = f.when(f.col("raw").isNull(), f.concat(f.lit("lacks "), f.col("lacking")))
    misfit = f.lit("does not fit the schema")
    if source.format != "json":
        return parses.otherwise(misfit)
    values = f.from_json(f.col("raw"), "map<string,string>")
    wrong = []
    for field in source.schema.fields:
        if field.name == CORRUPT or isinstance(field.dataType, ArrayType | MapType | StructType | StringType):
            continue
        value = values[field.name]
        bad = value.isNotNull() & value.try_cast(field.dataType).isNull()
        text = f.concat(f.lit(f"{field.name} is no {field.dataType.simpleString()}: "), f.substring(value, 1, 60))
        wrong.append(f.when(bad, text))
    told = f.concat_ws("; ", *wrong) if wrong else f.lit("")
    return (
        parses.when(values.isNull(), f.lit("not a JSON object"))
        .when(told == "", misfit)
        .otherwise(f.concat(misfit, f.lit(": "), told))
    )
