"""Where the savepoints of a stream are kept, and when they are taken: the block `savepoints` of its file."""

from dataclasses import dataclass

__all__ = ["SavepointsSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointsSpec:
    """Where [savepoints](../how-to/savepoints.md) are kept, and when Airflow takes them."""

    folder: str | None = None
    """folder that gets `STREAM/SAVEPOINT/`, or its `s3a://` or `hdfs://` URL (see `storage.connection`); null:
    `savepoints` of the data folder. A folder on another disk, or in a store, survives the disk of the checkpoint"""
    schedule: str | None = None
    """when Airflow takes one: a cron expression or a preset such as `@daily`; null: only when asked"""
    keep: int = 7
    """how many that the schedule took are kept; older ones of these are deleted, and never one that a person took"""
