"""Data files that a batch wrote and its manifest entry does not name: a line of the entry was lost.

A file that no entry names is normally the remains of a batch that was cut: the batch ran again and wrote the same
partitions under other names. So a file is missing from its entry only if its batch has no other file of the partition.
Which batch wrote a file follows from when it was written.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import Damage, loses_rows
from streamwarden.checkpoint.diagnosis.logs import Logs
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.data_files import has_no_row
from streamwarden.checkpoint.formats.layout import COMPACT, SINK_LOG
from streamwarden.checkpoint.formats.logs import OffsetRecord
from streamwarden.checkpoint.formats.sink import ManifestEntry, SinkManifest

_PART: Final = re.compile(r"(part-[0-9]{5,})-[0-9a-f]{8}-[0-9a-f-]{27}([-.]\S+)")
"""Spark's name of a data file: its partition, a random UUID, and which of the task's files it is."""
_MOST: Final = 200_000
"""Entries of the output folder, above which it is not searched."""
_MOST_UNLISTED: Final = 1000
_SAMPLE: Final = 10
"""Files of the manifest that are tried for their times."""
_SAME_TIME: Final = 2_000
"""Milliseconds by which a file and the manifest may differ about when the file was written."""


@dataclass(frozen=True, slots=True)
class _Written:
    """A data file: its folder and name, its part (what two attempts at a batch have in common), when it was written."""

    path: str
    part: str
    at_ms: float


def diagnose_unlisted(output: Location, manifest: SinkManifest, logs: Logs) -> Iterator[Damage]:
    """Files of settled batches that their entries should name. Only files right below the output are searched."""
    planned = {batch: record.timestamp_ms for batch, record in logs.offsets.items() if isinstance(record, OffsetRecord)}
    listed = [
        _Written(file.path, part, file.modified_ms)
        for entry in manifest.entries
        for file in entry.files
        if (part := _part(file.path)) is not None
    ]
    unlisted = _unlisted(output, {file.path.rpartition("/")[2] for file in listed})
    if not unlisted or not planned or not _keeps_times(output, listed):
        return
    batches = sorted(batch for batch in planned if planned[batch])
    starts = [planned[batch] for batch in batches]
    of_listed, of_unlisted = _by_batch(listed, batches, starts), _by_batch(unlisted, batches, starts)
    for batch, files in of_unlisted.items():
        if _is_broken(manifest, batch):
            continue
        settled = _before_entry(output, manifest.entries, batch, files)
        for lost in _lost(settled, of_listed.get(batch, ())):
            if not has_no_row(Location(output.fs, lost.path)):
                yield _finding(output, batch, lost)


def _lost(files: Sequence[_Written], listed: Sequence[_Written]) -> list[_Written]:
    """Of the unlisted files of one batch those that an earlier attempt at the batch does not explain."""
    parts = {file.part for file in listed}
    ran_twice = any(file.part in parts for file in files)
    first = min((file.at_ms for file in listed), default=0.0)
    return [file for file in files if file.part not in parts and not (ran_twice and file.at_ms < first)]


def _is_broken(manifest: SinkManifest, batch: int) -> bool:
    """Whether the batch has no entry that can be read, which is a finding of its own, or needs none."""
    damaged = [name for name, _ in manifest.damaged]
    repeated = max((int(name.removesuffix(COMPACT)) for name in damaged if name.endswith(COMPACT)), default=-1)
    return batch > manifest.upto or batch <= repeated or str(batch) in damaged or batch in manifest.missing


def _before_entry(
    output: Location, entries: Sequence[ManifestEntry], batch: int, files: Sequence[_Written]
) -> Sequence[_Written]:
    """The files that are not younger than the newest entry: a batch that was planned since the logs were listed writes
    younger ones."""
    if not entries or entries[-1].batch != batch:
        return files
    written = _modified(output / SINK_LOG / entries[-1].name)
    return [file for file in files if written is not None and file.at_ms <= written * 1000]


def _by_batch(files: Sequence[_Written], batches: Sequence[int], starts: Sequence[int]) -> Mapping[int, list[_Written]]:
    """Batch -> files that were written after it was planned and before the next one was."""
    by_batch: dict[int, list[_Written]] = defaultdict(list)
    for file in files:
        at = bisect_right(starts, file.at_ms)
        if at:
            by_batch[batches[at - 1]].append(file)
    return by_batch


def _unlisted(output: Location, listed: set[str]) -> list[_Written]:
    names = [name for name in output.names() if _part(name) is not None]
    unlisted = sorted(set(names) - listed)
    if len(names) > _MOST or len(unlisted) > _MOST_UNLISTED:
        return []
    files = []
    for name in unlisted:
        modified, part = _modified(output / name), _part(name)
        if modified is not None and part is not None:
            files.append(_Written((output / name).path, part, modified * 1000))
    return files


def _keeps_times(output: Location, listed: Sequence[_Written]) -> bool:
    """Whether the files are as old as the manifest says: not in a copy made without their times."""
    for file in reversed(listed[-_SAMPLE:]):
        if file.path.rpartition("/")[0] == output.path.rstrip("/"):
            modified = _modified(Location(output.fs, file.path))
            if modified is not None:
                return abs(modified * 1000 - file.at_ms) <= _SAME_TIME
    return False


def _modified(file: Location) -> float | None:
    try:
        return file.stat().modified
    except OSError:
        return None


def _part(path: str) -> str | None:
    match = _PART.fullmatch(path.rpartition("/")[2])
    return "".join(match.groups()) if match else None


def _finding(output: Location, batch: int, file: _Written) -> Damage:
    name = file.path.removeprefix(output.path.rstrip("/") + "/")
    what = f"batch {batch} wrote this file, and its entry in the manifest does not name it"
    spark = "Spark continues and does not notice; its reader misses the rows of this file."
    return loses_rows(name, what, spark, f"restore {SINK_LOG}, or run the stream from the beginning into a new output")
