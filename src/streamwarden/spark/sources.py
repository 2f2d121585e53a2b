"""Reading files as a stream, with rows that cannot be used counted and kept aside.

A job calls `read_files` and gets the good rows. The malformed ones (they do not fit the schema, lack a column that the
job requires, hold a text that is too long, or tell of a time that lies ahead of their own file) are counted inside the
query (`observedMetrics` of its progress, under `input`); `quarantine` keeps them aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import timedelta
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Final, cast

from streamwarden.errors import ConfigError
from streamwarden.progress import INPUT_METRIC
from streamwarden.stream import SourceKind, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT: Final = "_corrupt_record"
LONGEST: Final = 2**20
"""Bytes of the longest text in a good row: a huge one is a burden to every state and every output that it goes into."""

_MALFORMED: Final = "_malformed"
_WITH_CORRUPT_RECORDS: Final = frozenset({"json", "csv"})


@dataclass(frozen=True)
class FileSource:
    """What is needed to read a batch's files again, exactly as the query reads them."""

    format: str
    schema: StructType
    options: dict[str, str]
    required: tuple[str, ...] = ()
    not_after: Mapping[str, timedelta] = attribute(default_factory=dict)


_registered: dict[str, dict[int, FileSource]] = {}


def registered(stream: str) -> Mapping[int, FileSource]:
    """What the job of `stream` reads, by the source's place in the query.

    Empty if nothing of it can be malformed, or the job reads without `read_files`.
    """
    return _registered.get(stream, {})


def metric(place: int) -> str:
    """Name of the observed metric of the source at `place`: of a query's metrics no two have one name."""
    return INPUT_METRIC if place == 0 else f"{INPUT_METRIC}_{place}"


def read_files(
    spark: SparkSession,
    spec: StreamSpec,
    schema: StructType | str,
    *,
    required: Sequence[str] = (),
    not_after: Mapping[str, timedelta] | None = None,
    placed: bool = False,
    part: str | None = None,
) -> DataFrame:
    """A streaming DataFrame of the well-formed rows of the stream's source files.

    Rows that do not fit `schema`, are null in a `required` column, hold a STRING of more than LONGEST bytes, or lie
    too far ahead in a `not_after` column are counted and go to the stream's quarantine. A stream without a quarantine
    fails on the first such row instead: nothing is dropped silently. In formats that carry a schema of their own
    (parquet, orc) only what these columns hold can be wrong.

    Args:
        schema: of the source, as a StructType or as DDL (`id BIGINT, at TIMESTAMP`).
        required: columns that a row must have a value in: its keys, its event time.
        not_after: TIMESTAMP column -> how far it may lie beyond the modification of the row's file, for clocks differ.
            For the column of the watermark: one row of the year 2100 would make every other row late until then. The
            file's time is the bound, not the batch's: a batch that runs again must come to the same rows.
        placed: add the columns `file_modified` (Unix ms) and `file_name`, for a job to which the order of rows matters:
            a group's rows of one file stay in their order, unless a shuffle spills; those of two files do not.
        part: which of the stream's `source.parts` to read; needed where it has some.

    Raises:
        ConfigError: the stream's source is no folder of files, one of these columns is not in the schema, or `part` is
            not one of the source's.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    source = spec.source
    place = _place_of(part, spec)
    fields = cast(StructType, StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    for argument, named in (("required", required), ("not_after", not_after or {})):
        unknown = [column for column in named if column not in fields.names]
        if unknown:
            raise ConfigError(
                f"{argument} columns that the schema lacks: {', '.join(unknown)}",
                expected=f"some of {', '.join(fields.names)}",
                where=spec.job,
                next_step=f"correct `{argument}` in the job's call of read_files",
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
    known = FileSource(source.format, fields, options, tuple(required), dict(not_after or {}))
    frame = reader.load(source.folders[place])
    if spec.quarantine is None:
        return _failing(frame, known).select("*", *_place(placed))
    if CORRUPT not in fields.names and not required and not not_after and not _texts(known):
        return frame.select("*", *_place(placed))
    _registered.setdefault(spec.name, {})[place] = known
    return _good(frame, known, metric(place), _place(placed))


def read_rate(spark: SparkSession, spec: StreamSpec) -> DataFrame:
    """The rows (`timestamp`, `value`) of Spark's rate source, as the stream's `source` declares it.

    Raises ConfigError if the stream's source is of another kind.
    """
    if spec.source.kind is not SourceKind.RATE:
        raise ConfigError(
            f"a source of kind {spec.source.kind}",
            expected="source: {kind: rate, options: {rowsPerSecond: …}}",
            where=spec.file or spec.name,
            next_step="declare it in the stream's file",
        )
    return spark.readStream.format("rate").options(**spec.source.options).load()


def _place_of(part: str | None, spec: StreamSpec) -> int:
    source = spec.source
    if source.path is None:
        raise ConfigError(
            "the source has no path",
            expected="source: {kind: files, path: …}",
            where=spec.file or spec.name,
            next_step="declare it in the stream's file",
        )
    if part is None and not source.parts:
        return 0
    if part not in source.parts:
        raise ConfigError(
            f"the job reads the part {part!r}" if part else "the job reads no part, and the source has some",
            expected=f"one of source.parts: {', '.join(source.parts) or '(there are none)'}",
            where=spec.file or spec.name,
            next_step="make `source.parts` and the job's calls of read_files agree",
        )
    return source.parts.index(part)


def _place(wanted: bool) -> list[Column]:
    from pyspark.sql import functions as f

    if not wanted:
        return []
    modified = f.unix_millis("_metadata.file_modification_time")
    return [modified.alias("file_modified"), f.col("_metadata.file_name").alias("file_name")]


def _malformed(source: FileSource) -> Column:
    """Never null."""
    from pyspark.sql import functions as f

    lacking = [f.col(f"`{column}`").isNull() for column in source.required]
    corrupt = [f.col(CORRUPT).isNotNull()] if CORRUPT in source.schema.names else []
    ahead = [f.coalesce(_ahead(column, most), f.lit(False)) for column, most in source.not_after.items()]
    huge = [f.coalesce(_huge(column), f.lit(False)) for column in _texts(source)]
    return reduce(or_, [*corrupt, *lacking, *ahead, *huge], f.lit(False))


def _texts(source: FileSource) -> list[str]:
    """The columns of type STRING."""
    from pyspark.sql.types import StringType

    fields = source.schema.fields
    return [field.name for field in fields if field.name != CORRUPT and isinstance(field.dataType, StringType)]


def _huge(column: str) -> Column:
    from pyspark.sql import functions as f

    return f.octet_length(f"`{column}`") > LONGEST  # which Spark knows without counting


def _ahead(column: str, most: timedelta) -> Column:
    """Whether `column` lies more than `most` beyond the modification of the row's file; null if it is null."""
    from pyspark.sql import functions as f

    return f.col(f"`{column}`") > f.col("_metadata.file_modification_time") + f.lit(most)


def _good(frame: DataFrame, source: FileSource, name: str, place: Sequence[Column]) -> DataFrame:
    from pyspark.sql import functions as f

    malformed = f.col(_MALFORMED)
    empty = reduce(and_, [f.col(f"`{column}`").isNull() for column in frame.columns if column != CORRUPT])
    counted = frame.select("*", _malformed(source).alias(_MALFORMED), *place).observe(
        name,
        f.count(f.lit(1)).alias("read"),
        f.count(f.when(malformed, 1)).alias("malformed"),
        # Rows without any known field, a sign of a renamed schema. It also makes every column needed: a wrong value in
        # one that the job does not use makes the row malformed here as it does in the quarantine, not only there.
        f.count(f.when(empty & ~malformed, 1)).alias("empty"),
    )
    return counted.where(~malformed).drop(CORRUPT, _MALFORMED)


def _failing(frame: DataFrame, source: FileSource) -> DataFrame:
    """For a stream without a quarantine: a row that the schema alone cannot refuse ends the query."""
    from pyspark.sql import functions as f

    if not source.required and not source.not_after and not _texts(source):
        return frame
    told = f.concat(
        f.lit("a row "),
        _unusable(source),
        f.lit(f" in {source.format} file "),
        f.col("_metadata.file_path"),
        f.lit("; declare a `quarantine` in the stream's file to keep such rows aside"),
    )
    complete = f.when(_malformed(source), f.raise_error(told).cast("boolean")).otherwise(f.lit(True))
    return frame.where(complete)


def malformed_rows(spark: SparkSession, source: FileSource, files: tuple[str, ...]) -> DataFrame:
    """The malformed rows of `files`: raw text, file, number, reason, what could be parsed. A batch DataFrame.

    `number` is the row's place in its file, from 1 on. In a file of lines it is the line's number, blank ones apart.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    frame = spark.read.format(source.format).options(**source.options).schema(source.schema).load(list(files))
    fields = [f.col(f"`{field.name}`") for field in source.schema.fields if field.name != CORRUPT]
    raw = f.col(CORRUPT) if CORRUPT in source.schema.names else f.lit(None).cast("string")
    # A large file is read in blocks by several tasks; within a task the numbers rise with the rows.
    place = Window.partitionBy("file").orderBy("block", "at")
    return (
        frame.select(
            raw.alias("raw"),
            f.col("_metadata.file_path").alias("file"),
            f.col("_metadata.file_block_start").alias("block"),
            f.monotonically_increasing_id().alias("at"),
            f.to_json(f.struct(*fields)).alias("parsed"),  # all columns, so that none is pruned and left unparsed
            _malformed(source).alias("malformed"),
            _unusable(source).alias("unusable"),
        )
        .withColumn("number", f.row_number().over(place))
        .where("malformed")
        .select("raw", "file", "number", _reason(source).alias("reason"), "parsed")
    )


def _unusable(source: FileSource) -> Column:
    """`lacks origin, carrier; has event_time ahead of its file: …`: what is wrong with a row that fits the schema."""
    from pyspark.sql import functions as f

    null = [f.when(f.col(f"`{column}`").isNull(), f.lit(column)) for column in source.required]
    lacking = f.concat_ws(", ", *null)
    told = [f.when(lacking != "", f.concat(f.lit("lacks "), lacking))]
    for column, most in source.not_after.items():
        text = f.concat(f.lit(f"has {column} ahead of its file: "), f.col(f"`{column}`").cast("string"))
        told.append(f.when(_ahead(column, most), text))
    for column in _texts(source):
        size = f.octet_length(f"`{column}`").cast("string")
        text = f.concat(f.lit(f"has {column} of "), size, f.lit(f" bytes, more than {LONGEST}"))
        told.append(f.when(_huge(column), text))
    return f.concat_ws("; ", *told)


def _reason(source: FileSource) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    parses = f.when(f.col("raw").isNull(), f.col("unusable"))
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
