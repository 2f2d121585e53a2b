"""From what a job built to a started query: sink, checkpoint, trigger and name as the stream's file says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from streamwarden.errors import JobError
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream import StreamSpec, TriggerSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

__all__ = ["start_query"]


class BatchWriter(Protocol):
    """Takes a stream's batches from foreachBatch to where Spark has no streaming sink that knows them."""

    def open(self, schema: StructType) -> None:
        """See that the sink is there and takes such rows, before the query starts."""

    def __call__(self, frame: DataFrame, batch_id: int) -> None: ...


def batch_writer(spec: StreamSpec, token: int, ending: Callable[[], bool] = lambda: False) -> BatchWriter | None:
    """The writer of a stream whose sink is a table or a topic, for `start_query`; None for any other sink, and in
    real-time mode, where Spark itself writes.

    Args:
        token: fencing token of the driver's lease.
        ending: whether the driver has to end (a stop, a lost lease).
    """
    if isinstance(spec.sink, PostgresqlSink):
        from streamwarden.sinks.postgresql.writer import TableWriter

        return TableWriter(spec, spec.sink, token, ending)
    if isinstance(spec.sink, KafkaSink) and spec.trigger.real_time is None:
        from streamwarden.sinks.kafka.writer import TopicWriter

        return TopicWriter(spec)
    return None


def start_query(built: Any, spec: StreamSpec, writer: BatchWriter | None = None) -> StreamingQuery:
    """Start what `build` returned. Raises JobError if that is neither a streaming DataFrame nor a DataStreamWriter, and
    what the writer's `open` raises."""
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if isinstance(built, DataFrame):
        stream = attach_sink(built, spec, writer)
    elif isinstance(built, DataStreamWriter):
        stream = built
    else:
        raise JobError(
            f"build() returned {type(built).__name__}",
            expected="a streaming DataFrame or a DataStreamWriter",
            where=spec.job,
            next_step="return the query's DataFrame from build()",
        )
    query: StreamingQuery = (
        stream.queryName(spec.name)
        .outputMode(spec.sink.mode.value)
        .option("checkpointLocation", spec.checkpoint)
        .trigger(**trigger_options(spec.trigger))
        .start()
    )
    return query


def attach_sink(frame: Any, spec: StreamSpec, writer: BatchWriter | None = None) -> Any:
    """A DataStreamWriter of `frame` into the stream's sink; a table is made, or checked, here, a topic checked."""
    if not frame.isStreaming:
        raise JobError(
            "build() returned a batch DataFrame",
            expected="one that reads a stream (spark.readStream)",
            where=spec.job,
            next_step="read the source with readStream",
        )
    if writer is not None:
        writer.open(frame.schema)
        return frame.writeStream.foreachBatch(writer)
    if isinstance(spec.sink, KafkaSink):
        from streamwarden.sinks.kafka.writer import live

        return live(frame, spec)
    if not isinstance(spec.sink, ParquetSink):
        raise JobError(
            "build() returned a DataFrame, and the stream declares no sink for it",
            expected="a sink of kind parquet, postgresql or kafka, or a DataStreamWriter with a sink of its own",
            where=spec.job,
            next_step="declare the sink in the stream's YAML file",
        )
    return frame.writeStream.format("parquet").options(**spec.sink.options).option("path", spec.sink.path)


def trigger_options(trigger: TriggerSpec) -> dict[str, Any]:
    """Keywords of `DataStreamWriter.trigger`."""
    if trigger.available_now:
        return {"availableNow": True}
    if trigger.real_time is not None:
        return {"realTime": f"{round(trigger.real_time * 1000)} milliseconds"}
    return {"processingTime": f"{round((trigger.processing_time or 0.0) * 1000)} milliseconds"}
