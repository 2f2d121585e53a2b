"""Where the savepoints of a stream are kept: the block `savepoints` of its file."""

from dataclasses import dataclass

__all__ = ["SavepointsSpec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointsSpec:
    """Where [savepoints](../how-to/savepoints.md) are kept."""

    folder: str | None = None
    """folder that gets `STREAM/SAVEPOINT/`, or its `s3a://` URL (see `storage.connection`); null: `savepoints` of the
    data folder. A folder on another disk, or in a store, survives the disk of the checkpoint"""
