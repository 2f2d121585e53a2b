"""Input of each batch: the log of a file source, and the seconds of a rate source."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import (
    SOURCES,
    Damaged,
    chain,
    compactible_ids,
    compactible_name,
    is_number,
    list_or_empty,
    open_log,
    parse_object,
    read_log_file,
)
from streamwarden.checkpoint.formats.logs import all_offsets, unreadable
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.checkpoint.spark_version import FILE_SOURCE_LOG
from streamwarden.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file that a file source read: its URI as Spark wrote it, its modification time (Unix ms), its log offset."""

    path: str
    timestamp_ms: int
    offset: int


def source_entries(checkpoint: Location, source: int = 0) -> dict[int, tuple[SourceFile, ...]]:
    """Log offset -> files, for everything that the file source has ever read, ascending.

    A log offset is not a batch id: a batch without new files does not advance it. An empty dict if the source keeps no
    such log. Raises CheckpointError if a required file is missing or damaged.
    """
    folder = checkpoint / SOURCES / str(source)
    ids = compactible_ids(list_or_empty(folder))
    if not ids:
        return {}
    files, missing = chain(ids, ids[-1][0])
    if missing:
        raise _broken(folder / str(missing[0]), "the file is missing")
    by_offset: dict[int, list[SourceFile]] = {}
    for batch, compact in files:
        where = folder / compactible_name(batch, compact)
        try:
            for entry in read_source_log(where, batch):
                by_offset.setdefault(entry.offset, []).append(entry)
        except Damaged as error:
            raise _broken(where, str(error)) from error
        except OSError as error:
            raise unreadable(where, error) from error
    return {offset: tuple(by_offset[offset]) for offset in sorted(by_offset)}


def read_source_log(file: Location, offset: int) -> tuple[SourceFile, ...]:
    """Entries of one file of the log, whatever its size. Raises Damaged, FileNotFoundError."""
    with open_log(file, FILE_SOURCE_LOG) as (_, lines):
        return parse_source_log(offset, lines)


def parse_source_log(offset: int, lines: Iterable[str]) -> tuple[SourceFile, ...]:
    """Entries of one file of the log. Raises Damaged."""
    return tuple(_source_file(offset, line) for line in lines)


def _source_file(offset: int, line: str) -> SourceFile:
    body = parse_object(line)
    path, timestamp, batch = body.get("path"), body.get("timestamp"), body.get("batchId", offset)
    if not isinstance(path, str):
        raise Damaged(f"an entry has no path: {line[:60]!r}")
    if not is_number(timestamp) or not is_number(batch):
        raise Damaged(f"an entry has no timestamp or no batch: {line[:60]!r}")
    if not path.startswith("file:///"):  # nothing in the path of a URI without a host is invalid
        try:
            to_path(path)
        except ValueError as error:
            raise Damaged(f"an entry without a valid path: {line[:60]!r}") from error
    return SourceFile(path=path, timestamp_ms=timestamp, offset=batch)


def file_source_log(checkpoint: Location, source: int = 0) -> dict[int, tuple[str, ...]]:
    """Batch id -> URIs of the files that it read. See `files_read`."""
    return {batch: tuple(file.path for file in files) for batch, files in files_read(checkpoint, source).items()}


def files_read(checkpoint: Location, source: int = 0) -> dict[int, tuple[SourceFile, ...]]:
    """Batch id -> the files that it read, for every planned batch still in the offset log, ascending.

    A batch without new files has an empty tuple. A batch whose predecessor is not in the log (any more) is left out,
    because the start of its range is unknown.
    Raises CheckpointError if a file of the source's log is missing or damaged.
    """
    records = all_offsets(checkpoint)
    ends = {
        batch: -1 if (end := log_offset(record.sources[source])) is None else end
        for batch, record in records.items()
        if source < len(record.sources)
    }
    if all(end < 0 for end in ends.values()):
        return {}
    entries = source_entries(checkpoint, source)
    offsets = list(entries)
    by_batch: dict[int, tuple[SourceFile, ...]] = {}
    for batch, end in ends.items():
        start = -1 if batch == 0 else ends.get(batch - 1)
        if start is not None:
            read = offsets[bisect_right(offsets, start) : bisect_right(offsets, end)]
            by_batch[batch] = tuple(file for at in read for file in entries[at])
    return by_batch


def log_offset(value: Any) -> int | None:
    """The file source's position in its own log; None for another kind of source."""
    offset = value.get("logOffset") if isinstance(value, Mapping) else None
    return offset if is_number(offset) and -1 <= offset < 2**63 else None


def rate_ends(checkpoint: Location, place: int = 0) -> dict[int, int]:
    """Batch -> the second that it ends before, of the rate source at `place`.

    Raises CheckpointError, OSError, ValueError, IndexError.
    """
    ends = {batch: record.sources[place] for batch, record in all_offsets(checkpoint).items()}
    return {batch: int(str(end)) for batch, end in ends.items() if end is not None}


def rate_began(checkpoint: Location, place: int = 0) -> int:
    """Unix milliseconds of second 0 of the rate source at `place`. Raises Damaged, OSError, ValueError, IndexError."""
    return int(read_log_file(checkpoint / SOURCES / str(place) / "0").lines[0])


def _broken(where: Location, observed: str) -> CheckpointError:
    return CheckpointError(
        observed,
        expected="every file of the source's log from the last compact one on",
        where=where.path,
        next_step="restore it from a copy of the checkpoint; Spark will not start without it",
    )
