"""Starts the query that a job built, with the sink, checkpoint, trigger and name of the stream's file."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamwarden import sinks
from streamwarden.checkpoint.formats.uris import to_hadoop
from streamwarden.errors import JobError
from streamwarden.sinks.base import BatchWriter, Sink
from streamwarden.stream.spec import StreamSpec, TriggerSpec

__all__ = ["start_query"]


def batch_writer(spec: StreamSpec, token: int, ending: Callable[[], bool] = lambda: False) -> BatchWriter | None:
    """The writer of the stream's batches, for `start_query`; None where Spark itself writes (see `Sink.batch_writer`).

    Args:
        token: fencing token of the driver's lease.
        ending: whether the driver has to end (a stop, a lost lease).
    """
    return spec.sink.batch_writer(spec, token, ending) if isinstance(spec.sink, Sink) else None


def start_query(
    built: Any, spec: StreamSpec, writer: BatchWriter | None = None, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery:
    """Start the query that `build` returned. Raises JobError if that is neither a streaming DataFrame nor a
    DataStreamWriter, and what the writer's `open` raises."""
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
        .option("checkpointLocation", to_hadoop(spec.checkpoint))
        .trigger(**(trigger or trigger_options(spec.trigger)))
        .start()
    )
    return query


def attach_sink(frame: Any, spec: StreamSpec, writer: BatchWriter | None = None) -> Any:
    """A DataStreamWriter of `frame` into the stream's sink; a table is made or checked here, a topic is checked."""
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
    if not isinstance(spec.sink, Sink):
        *kinds, last = (name for name, kind in sinks.KINDS.items() if kind.DECLARED)
        raise JobError(
            "build() returned a DataFrame, and the stream declares no sink for it",
            expected=f"a sink of kind {', '.join(kinds)} or {last}, or a DataStreamWriter with its own sink",
            where=spec.job,
            next_step="declare the sink in the stream's YAML file",
        )
    return spec.sink.attached(frame, spec)


def trigger_options(trigger: TriggerSpec) -> dict[str, Any]:
    """Keywords of `DataStreamWriter.trigger`."""
    if trigger.available_now:
        return {"availableNow": True}
    if trigger.real_time is not None:
        return {"realTime": f"{round(trigger.real_time * 1000)} milliseconds"}
    return {"processingTime": f"{round((trigger.processing_time or 0.0) * 1000)} milliseconds"}
