"""Gives a job's `build` the input of the audited batches in place of its streaming sources."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from streamwarden.spark.audit_plan import AUDIT, CannotBalance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_BATCH: Final = f"{AUDIT}_batch"
_LATE: Final = f"{AUDIT}_late"


@dataclass(frozen=True)
class AuditedInput:
    """What the audited batches read.

    Args:
        files: folder of a file source -> (URI of a file, batch that read it).
        late_ms: batch -> the watermark of the batch before, Unix milliseconds.
    """

    files: Mapping[str, Sequence[tuple[str, int]]]
    late_ms: Mapping[int, int]

    def of_folder(self, spark: SparkSession, reader: Any, folder: str) -> DataFrame:
        """The rows of the files that the batches read from `folder`, with the column AUDIT."""
        from pyspark.sql import functions as f

        read = self.files.get(folder.removeprefix("file://").rstrip("/"))
        if read is None:
            raise CannotBalance(f"the job reads {folder}, which its stream's file does not declare as a source")
        frame: DataFrame = reader.load([uri for uri, _ in read] or tempfile.mkdtemp())
        return frame.select("*", f.col("_metadata.file_path").alias(AUDIT))

    def with_batches(self, rows: DataFrame) -> DataFrame:
        """The rows with a struct of `batch` and `late_us` (Unix microseconds) in place of the column AUDIT."""
        from pyspark.sql import functions as f

        read = [
            (_as_hadoop(uri), batch, self.late_ms[batch] * 1000)
            for files in self.files.values()
            for uri, batch in files
        ]
        batches = rows.sparkSession.createDataFrame(read, f"{AUDIT} STRING, {_BATCH} BIGINT, {_LATE} BIGINT")
        unknown = f.raise_error(f.concat(f.lit("no audited batch read the file "), f.col(AUDIT))).cast("bigint")
        tag = f.struct(f.coalesce(_BATCH, unknown).alias("batch"), f.col(_LATE).alias("late_us")).alias(AUDIT)
        return rows.join(f.broadcast(batches), AUDIT, "left").withColumn(AUDIT, tag).drop(_BATCH, _LATE)


def _as_hadoop(uri: str) -> str:
    """The URI as Spark's readers show it: a local one without an empty host."""
    return uri.replace("file:///", "file:/", 1)


@dataclass
class BatchReader:
    """Takes the calls of a DataStreamReader, and reads what the audited batches read."""

    spark: SparkSession
    given: AuditedInput
    kind: str = ""
    asked: dict[str, str] = field(default_factory=dict)
    fields: StructType | str | None = None

    def format(self, source: str) -> Self:
        self.kind = source
        return self

    def option(self, key: str, value: Any) -> Self:
        self.asked[key] = str(value)
        return self

    def options(self, **options: Any) -> Self:
        self.asked |= {key: str(value) for key, value in options.items()}
        return self

    def schema(self, schema: StructType | str) -> Self:
        self.fields = schema
        return self

    def load(self, path: str | None = None, **options: Any) -> DataFrame:
        self.options(**options)
        folder = path or self.asked.get("path")
        if folder is None:
            raise CannotBalance(f"the job reads a source of the format {self.kind or 'parquet'}, not files")
        reader = self.spark.read.format(self.kind or "parquet").options(**self.asked)
        if self.fields is not None:
            reader = reader.schema(self.fields)
        return self.given.of_folder(self.spark, reader, folder)

    def json(self, path: str, schema: StructType | str | None = None, **options: Any) -> DataFrame:
        return self._of("json", path, schema, options)

    def csv(self, path: str, schema: StructType | str | None = None, **options: Any) -> DataFrame:
        return self._of("csv", path, schema, options)

    def parquet(self, path: str, **options: Any) -> DataFrame:
        return self._of("parquet", path, None, options)

    def orc(self, path: str, **options: Any) -> DataFrame:
        return self._of("orc", path, None, options)

    def text(self, path: str, **options: Any) -> DataFrame:
        return self._of("text", path, None, options)

    def _of(self, kind: str, path: str, schema: StructType | str | None, options: Mapping[str, Any]) -> DataFrame:
        if schema is not None:
            self.fields = schema
        return self.format(kind).load(path, **{key: value for key, value in options.items() if value is not None})


@contextmanager
def replayed(given: AuditedInput) -> Iterator[None]:
    """While this is open, `spark.readStream` reads what the audited batches read."""
    from pyspark.sql import SparkSession

    original = SparkSession.readStream
    SparkSession.readStream = property(lambda spark: BatchReader(spark, given))  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SparkSession.readStream = original  # type: ignore[method-assign]
