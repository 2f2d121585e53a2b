"""The files of a stream's folders as rows, and the malformed rows of a batch's files."""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import require_range
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.errors import ConfigError
from streamwarden.sources.audited import load_exactly
from streamwarden.sources.base import Reading, RowRequest
from streamwarden.sources.rows import (
    CORRUPT,
    Rules,
    malformed_column,
    parsed,
    reason,
    schema_of,
    unusable,
    with_corrupt,
)
from streamwarden.stream.spec import StreamSpec

_WITH_CORRUPT_RECORDS: Final = frozenset({"json", "csv"})


@dataclass(frozen=True)
class FilesInput:
    """How to read a batch's files again, exactly as the query reads them."""

    format: str
    options: dict[str, str]
    rules: Rules

    def placing(self) -> list[Column]:
        """When a row was written, and the name of its file."""
        modified = f.unix_millis("_metadata.file_modification_time")
        return [modified.alias("written_ms"), f.col("_metadata.file_name").alias("place")]

    def where(self) -> Column:
        """Where a row is, in words."""
        return f.concat(f.lit(f"{self.format} file "), f.col("_metadata.file_path"))

    def malformed_of(self, spark: SparkSession, checkpoint: Location, place: int, batch: int) -> DataFrame:
        """See `BatchInput`. `number` is a row's place in its file, from 1 on (of lines: blank ones apart)."""
        read = file_source_log(checkpoint, place)
        if batch not in read:
            require_range(checkpoint, batch)
        names = list(read.get(batch, ()))
        schema = self.rules.schema
        if not names:
            return spark.createDataFrame([], "raw STRING, file STRING, number INT, reason STRING, parsed STRING")
        frame = load_exactly(spark.read.format(self.format).options(**self.options).schema(schema), names)
        raw = f.col(CORRUPT) if self.rules.corruptible else f.lit(None).cast("string")
        # A large file is read in blocks by several tasks; within a task the numbers rise with the rows.
        order = Window.partitionBy("file").orderBy("block", "at")
        return (
            frame.select(
                raw.alias("raw"),
                f.col("_metadata.file_path").alias("file"),
                f.col("_metadata.file_block_start").alias("block"),
                f.monotonically_increasing_id().alias("at"),
                parsed(self.rules).alias("parsed"),
                malformed_column(self.rules).alias("malformed"),
                unusable(self.rules).alias("unusable"),
            )
            .withColumn("number", f.row_number().over(order))
            .where("malformed")
            .select(
                "raw",
                "file",
                "number",
                reason(self.rules, json=self.format == "json", unparsed=f.col("raw").isNotNull()).alias("reason"),
                "parsed",
            )
        )


def read(spark: SparkSession, spec: StreamSpec, request: RowRequest, format: str) -> Reading:
    """The rows of the stream's folder that the request names. Raises ConfigError. `format`: as Spark calls it."""
    place = _place_of(request.part, spec)
    fields = schema_of(spark, request.schema, request.required, request.not_after, spec.job)
    options = dict(spec.source.options)
    if format in _WITH_CORRUPT_RECORDS:
        options |= {"mode": "FAILFAST"}
        if spec.quarantine is not None:
            options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
            fields = with_corrupt(fields)
    reader = spark.readStream.format(format).options(**options).schema(fields)
    if spec.source.limit is not None:
        reader = reader.option("maxFilesPerTrigger", spec.source.limit)
    rules = Rules(
        schema=fields,
        required=request.required,
        not_after=request.not_after,
        written="_metadata.file_modification_time",
        holder="file",
    )
    return Reading(reader.load(spec.source.folders[place]), FilesInput(format, options, rules), place)


def _place_of(part: str | None, spec: StreamSpec) -> int:
    """Which source of the query reads `part`. Raises ConfigError if the stream's file does not agree."""
    parts = spec.source.parts
    if part is None and not parts:
        return 0
    if part not in parts:
        raise ConfigError(
            f"the job reads the part {part!r}" if part else "the job reads no part, and the source has some",
            expected=f"one of source.parts: {', '.join(parts) or '(there are none)'}",
            where=spec.file or spec.name,
            next_step="make `source.parts` and the job's calls of read_rows agree",
        )
    return parts.index(part)
