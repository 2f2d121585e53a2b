"""Gives a job's `build` the input of the audited batches in place of its streaming sources."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from streamwarden.spark.audit.plan import AUDIT, CannotBalance

_BATCH: Final = f"{AUDIT}_batch"
_LATE: Final = f"{AUDIT}_late"


_IN_BATCHES: Final = ("kafka.", "includeheaders", "minpartitions")
"""Prefixes (lower case) of the options of a topic's streaming reader that its batch reader takes, too. Other options
say where to begin, how much to read, or that lost records do not matter."""

_RECORD: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
_HEADERS: Final = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


@dataclass(frozen=True)
class AuditedInput:
    """The input that the audited batches read.

    Args:
        late_ms: batch -> the watermark of the batch before, Unix milliseconds.
        files: folder of a file source -> (URI of a file, batch that read it).
        topics: topic -> (partition, first offset, the offset behind the last one, batch).
        rate: when Spark's rate source began (Unix ms), and (first second, the second behind the last one, batch); None:
            there is no such source, or there are several.
    """

    late_ms: Mapping[int, int]
    files: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    topics: Mapping[str, Sequence[tuple[int, int, int, int]]] = field(default_factory=dict)
    rate: tuple[int, Sequence[tuple[int, int, int]]] | None = None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """The input as `request.json` describes it."""
        return cls(
            late_ms={int(batch): late for batch, late in request["late_ms"].items()},
            files=request["files"],
            topics=request["topics"],
            rate=request["rate"],
        )

    def of_folder(self, spark: SparkSession, reader: Any, folder: str) -> DataFrame:
        """The rows of the files that the batches read from `folder`, with the column AUDIT."""
        read = self.files.get(folder.removeprefix("file://").rstrip("/"))
        if read is None:
            raise CannotBalance(f"the job reads {folder}, which its stream's file does not declare as a source")
        frame: DataFrame = reader.load([uri for uri, _ in read] or tempfile.mkdtemp())
        return frame.select("*", f.col("_metadata.file_path").alias(AUDIT))

    def of_topic(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        """The records that the batches read from a topic, with the column AUDIT.

        Args:
            options: of the reader, by lower-case name.
        """
        topic = options.get("subscribe", "")
        read = self.topics.get(topic)
        if read is None:
            raise CannotBalance(f"the job reads the topic {topic!r}, of which the checkpoint has no offsets of its own")
        kept = {name: value for name, value in options.items() if name.startswith(_IN_BATCHES)}
        if not read:
            columns = f"{_RECORD}, {_HEADERS}" if kept.get("includeheaders") == "true" else _RECORD
            return spark.createDataFrame([], columns).select("*", f.lit("").alias(AUDIT))
        bounds: dict[int, tuple[int, int]] = {}
        for partition, start, end, _ in read:
            first, last = bounds.get(partition, (start, end))
            bounds[partition] = min(first, start), max(last, end)
        records = (
            spark.read.format("kafka")
            .options(**kept)
            .option("assign", json.dumps({topic: list(bounds)}))
            .option("startingOffsets", json.dumps({topic: {part: at[0] for part, at in bounds.items()}}))
            .option("endingOffsets", json.dumps({topic: {part: at[1] for part, at in bounds.items()}}))
            .load()
        )
        ranges = f.broadcast(spark.createDataFrame([tuple(entry) for entry in read], _RANGE))
        inside = (f.col("partition") == ranges["__partition"]) & f.col("offset").between(
            ranges["__start"], ranges["__end"] - 1
        )
        return records.join(ranges, inside, "left").select(records["*"], _batch_name("__batch").alias(AUDIT))

    def of_rate(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        """The rows that Spark's rate source made for the batches, with the column AUDIT."""
        if self.rate is None or any(name.startswith("rampup") for name in options):
            raise CannotBalance("the job has several rate sources, or one that begins slowly (rampUpTime)")
        began, read = self.rate
        rows_per_second = int(options.get("rowspersecond", "1"))
        seconds = [
            (start * rows_per_second, end * rows_per_second - 1, batch) for start, end, batch in read if start < end
        ]
        values = spark.createDataFrame(seconds, "__first BIGINT, __last BIGINT, __batch BIGINT").select(
            f.explode(f.sequence("__first", "__last")).alias("value"), "__batch"
        )
        at = f.timestamp_millis(f.lit(began) + f.round(f.col("value") * 1000 / rows_per_second).cast("bigint"))
        return values.select(at.alias("timestamp"), "value", _batch_name("__batch").alias(AUDIT))

    def with_batches(self, rows: DataFrame) -> DataFrame:
        """The rows with a struct of `batch` and `late_us` (Unix microseconds) in place of the column AUDIT."""
        read = [
            *((_as_hadoop(uri), batch) for files in self.files.values() for uri, batch in files),
            *((f"{_BATCH_NAME}{batch}", batch) for batch in self.late_ms),
        ]
        places = [(place, batch, self.late_ms[batch] * 1000) for place, batch in read]
        batches = rows.sparkSession.createDataFrame(places, f"{AUDIT} STRING, {_BATCH} BIGINT, {_LATE} BIGINT")
        unknown = f.raise_error(f.concat(f.lit("no audited batch read "), f.coalesce(AUDIT, f.lit("a row"))))
        batch = f.coalesce(_BATCH, unknown.cast("bigint"))
        tag = f.struct(batch.alias("batch"), f.col(_LATE).alias("late_us")).alias(AUDIT)
        return rows.join(f.broadcast(batches), AUDIT, "left").withColumn(AUDIT, tag).drop(_BATCH, _LATE)


_RANGE: Final = "__partition INT, __start BIGINT, __end BIGINT, __batch BIGINT"

_BATCH_NAME: Final = "batch "
"""In the column AUDIT of a row that comes from no file, before the number of the batch that read it."""


def _batch_name(column: str) -> Column:
    return f.concat(f.lit(_BATCH_NAME), f.col(column).cast("string"))


def _as_hadoop(uri: str) -> str:
    """The URI as Spark's readers show it: a local one without an empty host."""
    return uri.replace("file:///", "file:/", 1)


_SERVICES: Final[Mapping[str, Callable[[AuditedInput, SparkSession, Mapping[str, str]], DataFrame]]] = {
    "kafka": AuditedInput.of_topic,
    "rate": AuditedInput.of_rate,
}
"""Format of a streaming source that is not files -> what reads it again."""


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
        given = {name.lower(): value for name, value in self.asked.items()}
        if self.kind in _SERVICES:
            if self.kind + given.get("subscribe", "") in self.seen:
                raise CannotBalance(f"the job reads one source of the format {self.kind} several times")
            self.seen.add(self.kind + given.get("subscribe", ""))
            return _SERVICES[self.kind](self.given, self.spark, given)
        folder = path or given.get("path")
        if folder is None:
            raise CannotBalance(f"the audit cannot read a source of the format {self.kind or 'parquet'} again")
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
    original = SparkSession.readStream
    seen: set[str] = set()
    SparkSession.readStream = property(lambda spark: BatchReader(spark, given, seen))  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        SparkSession.readStream = original  # type: ignore[method-assign]
