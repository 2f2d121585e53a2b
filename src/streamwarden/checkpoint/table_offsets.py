"""Where a query is in a table that it reads as a stream: the offsets of Delta's and of Iceberg's source. Pure.

Both count data files, not rows. The offset of a batch is in `offsets/N`, and it is where the next batch begins.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import is_number
from streamwarden.checkpoint.formats.logs import all_offsets, log_position

BEFORE_FIRST: Final = -1
"""The index of an offset with which no file of its version has been read."""

RECENT: Final = 20
"""Batches from which the files of a batch are estimated."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, order=True)
class DeltaOffset:
    """The position after a data file of a Delta table.

    Args:
        version: of the table.
        index: of the file among those that the version added, from 0 on; BEFORE_FIRST: after the version before it.
        snapshot: the files are all those of the table as of the version, with which a new query begins, ordered by time
            and path. Otherwise they are those that the version added, in the order of its commit.
        table: the id of the table (`reservoirId`).
    """

    version: int
    index: int
    snapshot: bool
    table: str

    def __str__(self) -> str:
        if self.index == BEFORE_FIRST:
            return f"all of the table before version {self.version}"
        of = "the table as of version" if self.snapshot else "version"
        return f"file {self.index} of {of} {self.version}"


@dataclass(frozen=True, slots=True)
class IcebergOffset:
    """The position before a data file of an Iceberg table.

    Args:
        snapshot: its id.
        position: how many of its files have been read.
        every: the files are all those of the table as of the snapshot, not only those that it added.
    """

    snapshot: int
    position: int
    every: bool

    def __str__(self) -> str:
        of = "the table as of snapshot" if self.every else "snapshot"
        return f"the first {self.position} files of {of} {self.snapshot}"


def delta_offset(value: Any) -> DeltaOffset | None:
    """None for the offset of another kind of source."""
    if not isinstance(value, Mapping) or not isinstance(value.get("reservoirId"), str):
        return None
    version, index = value.get("reservoirVersion"), value.get("index")
    if not is_number(version) or not is_number(index):
        return None
    snapshot = value.get("isStartingVersion") is True
    return DeltaOffset(version=int(version), index=int(index), snapshot=snapshot, table=value["reservoirId"])


def iceberg_offset(value: Any) -> IcebergOffset | None:
    """None for the offset of another kind of source."""
    if not isinstance(value, Mapping) or not {"snapshot_id", "position", "scan_all_files"} <= value.keys():
        return None
    snapshot, position = value["snapshot_id"], value["position"]
    if not is_number(snapshot) or not is_number(position):
        return None
    return IcebergOffset(snapshot=int(snapshot), position=int(position), every=value["scan_all_files"] is True)


def table_offsets(checkpoint: Location, of: Callable[[Any], _T | None], source: int = 0) -> dict[int, _T | None]:
    """Batch -> where it ends in the table that is the query's source at this place, for every planned batch still in
    the offset log, ascending; None: nothing was read up to it. Empty if the source is of another kind.

    Args:
        of: `delta_offset` or `iceberg_offset`.

    Raises CheckpointError if the log is damaged.
    """
    records = all_offsets(checkpoint)
    values = {batch: record.sources[source] for batch, record in records.items() if source < len(record.sources)}
    found = {batch: of(value) for batch, value in sorted(values.items())}
    foreign = any(value is not None and found[batch] is None for batch, value in values.items())
    return {} if foreign or not any(found.values()) else found


def table_spans(ends: Mapping[int, _T | None]) -> dict[int, tuple[_T | None, _T | None]]:
    """Batch -> (where it begins, where it ends). A start of None is the beginning of the query. A batch whose
    predecessor is not in the log (any more) is left out, because its start is unknown."""
    return {batch: (ends.get(batch - 1), end) for batch, end in ends.items() if batch == 0 or batch - 1 in ends}


def committed_end(checkpoint: Location, of: Callable[[Any], _T | None]) -> _T | None:
    """Where the newest committed batch ends; None: there is none, or it is not in the offset log any more. Raises
    CheckpointError, OSError."""
    batch = log_position(checkpoint).committed
    return None if batch is None else table_offsets(checkpoint, of).get(batch)


def newest_end(ends: Mapping[int, _T | None]) -> _T | None:
    """Where the newest planned batch ends; None: nothing was read yet."""
    return next((end for end in reversed(list(ends.values())) if end is not None), None)


def recent_spans(ends: Mapping[int, _T | None]) -> Iterator[tuple[_T, _T]]:
    """Where each of the recent batches begins and ends, without the first one of the query."""
    return pairwise(end for end in list(ends.values())[-RECENT - 1 :] if end is not None)
