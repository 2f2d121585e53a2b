"""Gives a job's `build` the input of the audited batches in place of its streaming sources."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamwarden.sources import KINDS
from streamwarden.sources.audited import AUDIT, BATCH, AskedSource
from streamwarden.sources.base import Source

_BATCH: Final = f"{AUDIT}_batch"
_LATE: Final = f"{AUDIT}_late"

_KINDS: Final = {name: kind for name, kind in KINDS.items() if issubclass(kind, Source)}
_BY_FORMAT: Final = {format: name for name, kind in _KINDS.items() for format in kind.FORMATS}
_OTHERS: Final = next(iter(_KINDS))
"""The kind that reads any other format: files."""


@dataclass(frozen=True)
class AuditedInput:
    """The input that the audited batches read.

    Args:
        late_ms: batch -> the watermark of the batch before, Unix milliseconds.
        read: kind of source -> what they read from sources of the kind: see `Source.audited`.
    """

    late_ms: Mapping[int, int]
    read: Mapping[str, Any]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """The input as `request.json` describes it."""
        return cls(late_ms={int(batch): late for batch, late in request["late_ms"].items()}, read=request["input"])

    def rows(self, asked: AskedSource) -> DataFrame:
        """The rows that the batches read from a source, with the column AUDIT. Raises CannotBalance."""
        name = _BY_FORMAT.get(asked.format, _OTHERS)
        return _KINDS[name].read_audited(asked, self.read[name])

    def with_batches(self, rows: DataFrame) -> DataFrame:
        """The rows with a struct of `batch` and `late_us` (Unix microseconds) in place of the column AUDIT."""
        read = [
            *(found for name, read in self.read.items() for found in _KINDS[name].audited_batches(read)),
            *((f"{BATCH}{batch}", batch) for batch in self.late_ms),
        ]
        places = [(place, batch, self.late_ms[batch] * 1000) for place, batch in read]
        batches = rows.sparkSession.createDataFrame(places, f"{AUDIT} STRING, {_BATCH} BIGINT, {_LATE} BIGINT")
        unknown = f.raise_error(f.concat(f.lit("no audited batch read "), f.coalesce(AUDIT, f.lit("a row"))))
        batch = f.coalesce(_BATCH, unknown.cast("bigint"))
        tag = f.struct(batch.alias("batch"), f.col(_LATE).alias("late_us")).alias(AUDIT)
        return rows.join(f.broadcast(batches), AUDIT, "left").withColumn(AUDIT, tag).drop(_BATCH, _LATE)


@dataclass
class BatchReader:
    """Takes the calls of a DataStreamReader, and reads what the audited batches read.

    Args:
        seen: sources other than files that the job has read so far: the audit could not tell a second one from it.
    """

    spark: SparkSession
    given: AuditedInput
    seen: set[str]
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
        path = path or next((value for name, value in self.asked.items() if name.lower() == "path"), None)
        return self.given.rows(AskedSource(self.spark, self.kind, self.asked, path, self.fields, self.seen))

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
    original = SparkSession.readStream
    seen: set[str] = set()
    SparkSession.readStream = property(lambda spark: BatchReader(spark, given, seen))  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SparkSession.readStream = original  # type: ignore[method-assign]
