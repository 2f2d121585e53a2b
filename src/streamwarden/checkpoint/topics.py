"""The records of a topic that each batch read, from the offset log alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import (
    SOURCES,
    Damaged,
    is_number,
    is_partition,
    parse_object,
    read_log_file,
)
from streamwarden.checkpoint.formats.logs import all_offsets
from streamwarden.errors import CheckpointError


@dataclass(frozen=True, slots=True, order=True)
class TopicRange:
    """Records `start` up to, but not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def topic_offsets(value: Any) -> dict[tuple[str, int], int] | None:
    """(topic, partition) -> offset of a Kafka source's position; None for another kind of source."""
    if not isinstance(value, Mapping) or not value:
        return None
    offsets = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if not is_partition(partition) or not is_number(offset):
                return None
            offsets[str(topic), int(partition)] = offset
    return offsets


def topic_ranges(checkpoint: Location, source: int = 0) -> dict[int, tuple[TopicRange, ...]]:
    """Batch id -> ranges that it read, for every planned batch still in the offset log, ascending.

    An empty dict if the source is of another kind. A partition that was added later begins at 0, where Spark begins to
    read it. A batch whose predecessor is not in the log (any more) is left out, because its start is unknown.
    Raises CheckpointError if a log is damaged.
    """
    ends = {
        batch: offsets
        for batch, record in all_offsets(checkpoint).items()
        if source < len(record.sources) and (offsets := topic_offsets(record.sources[source])) is not None
    }
    by_batch = {}
    for batch in sorted(ends):
        before = _began(checkpoint, source) if batch == 0 else ends.get(batch - 1)
        if before is not None:
            by_batch[batch] = tuple(
                TopicRange(topic, partition, before.get((topic, partition), 0), end)
                for (topic, partition), end in sorted(ends[batch].items())
                if end > before.get((topic, partition), 0)
            )
    return by_batch


def without(ranges: Iterable[TopicRange], lost: Iterable[TopicRange]) -> tuple[TopicRange, ...]:
    """`ranges` without what is in `lost`, in order."""
    left = list(ranges)
    for gone in lost:
        left = [
            part
            for piece in left
            for part in (
                (replace(piece, end=min(piece.end, gone.start)), replace(piece, start=max(piece.start, gone.end)))
                if (piece.topic, piece.partition) == (gone.topic, gone.partition)
                else (piece,)
            )
            if part.start < part.end
        ]
    return tuple(left)


def _began(checkpoint: Location, source: int) -> dict[tuple[str, int], int]:
    """The offsets at which the query's first batch began: `sources/N/0`, written before that batch."""
    where = checkpoint / SOURCES / str(source) / "0"
    try:
        lines = read_log_file(where).lines
        offsets = topic_offsets(parse_object(lines[0])) if lines else None
    except (Damaged, OSError) as error:
        raise _unknown(where, str(error)) from error
    if offsets is None:
        raise _unknown(where, "it contains no offsets of a topic")
    return offsets


def _unknown(where: Location, observed: str) -> CheckpointError:
    return CheckpointError(
        observed,
        expected="the offsets at which the query began, as Spark wrote them",
        where=where.path,
        next_step="restore the file from a copy of the checkpoint; Spark needs it too",
    )
