"""Reads Spark's settings as numbers, with Spark's defaults."""

from collections.abc import Mapping
from typing import Final

from streamwarden.checkpoint import spark_version
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import parse_duration

STATE_STORE: Final = "spark.sql.streaming.stateStore"
DELTAS: Final = f"{STATE_STORE}.minDeltasForSnapshot"
MAINTENANCE: Final = f"{STATE_STORE}.maintenanceInterval"
RETAIN: Final = "spark.sql.streaming.minBatchesToRetain"
IN_MEMORY: Final = "spark.sql.streaming.maxBatchesToRetainInMemory"

DEFAULTS: Final = {
    DELTAS: spark_version.DELTAS_FOR_SNAPSHOT,
    MAINTENANCE: spark_version.MAINTENANCE_INTERVAL,
    RETAIN: spark_version.BATCHES_RETAINED,
    IN_MEMORY: spark_version.BATCHES_IN_MEMORY,
}
"""Spark's own, intervals in seconds."""

HEAP_SHARE: Final = 0.25
"""Share of the heap that HDFS-backed state may take: a batch holds the version that it builds in addition to those that
it keeps, and the garbage collector needs as much room again."""

EXECUTOR_HEAP: Final = spark_version.EXECUTOR_MEMORY
"""Bytes: Spark's default of `spark.executor.memory`."""

CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""By which of Hadoop's interfaces the files of a checkpoint, and of a sink's manifest, are written and renamed."""

RENAMED_AT_ONCE: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""On a local disk: one rename of the operating system, which replaces what is there. Spark's own choice there
(`FileContext`) deletes what it replaces before, and starts several `readlink` processes for each file."""

WHOLE_UPLOADS: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""In an object store: an upload that becomes visible whole when it is completed, without a rename."""

FORMAT: Final = f"{STATE_STORE}.checkpointFormatVersion"


def executor_heap(spark: SparkSpec) -> int:
    """Bytes of heap of each executor: as the stream sets it, else Spark's default."""
    return spark.executors.memory or EXECUTOR_HEAP


def real_time_format(spec: StreamSpec) -> dict[str, str]:
    """The setting for the checkpoint format of a stream in real-time mode; empty for other streams.

    Format 2 gives each attempt at a batch separate files. In format 1 a batch that runs again may use the files of its
    interrupted predecessor, so Spark refuses that format in this mode.
    """
    return {} if spec.trigger.real_time is None else {FORMAT: "2"}


def number(conf: Mapping[str, str], key: str, default: float | None = None) -> float:
    """A setting as a number; Spark's default if it is not set, or is not a number."""
    fallback = DEFAULTS.get(key, 0.0) if default is None else default
    try:
        return float(conf.get(key, fallback))
    except ValueError:
        return fallback


def seconds(conf: Mapping[str, str], key: str) -> float:
    """An interval in seconds; Spark reads a bare number as milliseconds. The default if it is not an interval."""
    text = conf.get(key)
    if text is None:
        return DEFAULTS[key]
    try:
        return float(text) / 1000 if text.strip().isdigit() else parse_duration(text)
    except ValueError:
        return DEFAULTS[key]


def flag(conf: Mapping[str, str], key: str, default: bool) -> bool:
    """A setting that is true or false."""
    return conf.get(key, str(default)).strip().lower() == "true"
