"""From what a job built to a started query: sink, checkpoint, trigger and name as the stream's file says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamwarden.errors import JobError
from streamwarden.stream import SinkKind, StreamSpec, TriggerSpec

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def start_query(built: Any, spec: StreamSpec) -> StreamingQuery:
    """Start what `build` returned. Raises JobError if that is neither a streaming DataFrame nor a DataStreamWriter."""
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if isinstance(built, DataFrame):
        writer = attach_sink(built, spec)
    elif isinstance(built, DataStreamWriter):
        writer = built
    else:
        raise JobError(
            f"build() returned {type(built).__name__}",
            expected="a streaming DataFrame or a DataStreamWriter",
            where=spec.job,
            next_step="return the query's DataFrame from build()",
        )
    query: StreamingQuery = (
        writer.queryName(spec.name)
        .outputMode(spec.sink.mode.value)
        .option("checkpointLocation", spec.checkpoint)
        .trigger(**trigger_options(spec.trigger))
        .start()
    )
    return query


def attach_sink(frame: Any, spec: StreamSpec) -> Any:
    """A DataStreamWriter of `frame` into the stream's sink."""
    if not frame.isStreaming:
        raise JobError(
            "build() returned a batch DataFrame",
            expected="one that reads a stream (spark.readStream)",
            where=spec.job,
            next_step="read the source with readStream",
        )
    if spec.sink.kind is not SinkKind.PARQUET or spec.sink.path is None:
        raise JobError(
            "build() returned a DataFrame, and the stream declares no sink for it",
            expected="sink: {kind: parquet, path: …}, or a DataStreamWriter with a sink of its own",
            where=spec.job,
            next_step="declare the sink in the stream's YAML file",
        )
    return frame.writeStream.format("parquet").options(**spec.sink.options).option("path", spec.sink.path)


def trigger_options(trigger: TriggerSpec) -> dict[str, Any]:
    """Keywords of `DataStreamWriter.trigger`."""
    if trigger.available_now:
        return {"availableNow": True}
    return {"processingTime": f"{round((trigger.processing_time or 0.0) * 1000)} milliseconds"}
