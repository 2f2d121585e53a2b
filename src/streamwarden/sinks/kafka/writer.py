"""A stream's batches on their way from Spark to a topic: the function of foreachBatch.

Spark's own connector writes the records, from the executors. Its producers are idempotent and wait for all replicas,
and know no batch: one that runs again is written again. So each record says what it is, with the batch's id (see
`verification.comparing.events`). Only foreachBatch gives that; Spark's streaming writer for topics is at-least-once
too, and cannot name the batch.

The value is the JSON object of the row's columns: instants in UTC with all digits (`2013-01-01T06:00:00.000000Z`),
dates as `2013-01-01`, decimals as numbers, binary in base64, nulls written. A schema makes typed columns of it again,
as `read_rows` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from streamwarden.adapters.connections import Connection, connection
from streamwarden.adapters.kafka.brokers import java_options
from streamwarden.adapters.storage.files import running_query
from streamwarden.errors import JobError, StreamwardenError
from streamwarden.sinks.json_values import JSON
from streamwarden.sinks.kafka.topic import require_topic
from streamwarden.stream.spec import OutputMode, StreamSpec
from streamwarden.verification.comparing.events import BATCH, EVENT_ID, SEPARATOR

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

_OF_KAFKA: Final = "org.apache.kafka"


class TopicWriter:
    """Takes a stream's batches from foreachBatch into its topic."""

    def __init__(self, spec: StreamSpec) -> None:
        self._spec = spec
        self._query_id: str | None = None
        self._known: Connection | None = None
        self.options: dict[str, str] = {}

    def open(self, schema: StructType) -> None:
        """Check that the topic exists and that the rows have a key, before the query starts. Raises what
        `require_topic` raises, JobError for rows that make no record."""
        sink = self._spec.sink
        names = schema.fieldNames()
        missing = [name for name in sink.key if name not in names]
        if missing or len(set(names)) < len(names):
            raise JobError(
                f"the rows have no column {', '.join(missing)}" if missing else "two columns have one name",
                expected=f"a column of its own for each name, {', '.join(sink.key)} of `sink.key` among them",
                where=self._spec.job,
                next_step=f"the job gives {', '.join(names)}: name one of these in `sink.key`, or correct the job",
            )
        self._known = connection(sink.connection or "")
        self.options = {**java_options(self._known), **sink.options, "topic": sink.topic or ""}
        require_topic(self._known, sink.topic or "")

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        try:
            sink = self._spec.sink
            batch = f"{self._own_query_id()}/{batch_id}"
            rows = records(frame, sink.key, batch, update=sink.mode is OutputMode.UPDATE)
            rows.write.format("kafka").options(**self.options).save()
        except Exception as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error

    def _own_query_id(self) -> str:
        if self._query_id is None:
            self._query_id = running_query(self._spec.checkpoint)
        return self._query_id

    def _explained(self, error: Exception) -> Exception:
        """The cause of a broker's refusal, if the broker reports more than Spark's producer (which waits alike for a
        missing topic and for a missing broker); otherwise `error`."""
        if self._known is None or _OF_KAFKA not in f"{error}{getattr(error, '_stackTrace', '')}":
            return error
        try:
            require_topic(self._known, self._spec.sink.topic or "")
        except StreamwardenError as explained:
            return explained
        return error


def live(frame: DataFrame, spec: StreamSpec) -> DataStreamWriter:
    """Spark's streaming writer into the topic of a stream in real-time mode, which writes a row as it comes and has no
    foreachBatch. Raises what `TopicWriter.open` raises."""
    writer = TopicWriter(spec)
    writer.open(frame.schema)
    rows = records(frame, spec.sink.key)
    return rows.writeStream.format("kafka").options(**writer.options)


def records(frame: DataFrame, key: Sequence[str], batch: str | None = None, *, update: bool = False) -> DataFrame:
    """The rows as records of Spark's connector: key, value, headers.

    Args:
        key: the key's columns, in their order.
        batch: `QUERY_ID/BATCH_ID`; None in real-time mode, where it is not known.
        update: the stream's mode is update: the batch is a part of the id, if it is known.
    """
    from pyspark.sql import functions as f

    def text(names: Sequence[str]) -> Column:
        quoted = ("`" + name.replace("`", "``") + "`" for name in names)
        return f.to_json(f.struct(*quoted), JSON)

    def header(name: str, value: Any) -> Column:
        return f.struct(f.lit(name).alias("key"), value.cast("binary").alias("value"))

    parts = [f.col("key"), f.col("value"), *([f.lit(batch)] if update and batch is not None else [])]
    identity = f.sha2(f.concat_ws(SEPARATOR, *parts), 256)
    headers = [header(EVENT_ID, identity), *([header(BATCH, f.lit(batch))] if batch is not None else [])]
    return frame.select(text(key).alias("key"), text(frame.columns).alias("value")).select(
        "key", "value", f.array(*headers).alias("headers")
    )
