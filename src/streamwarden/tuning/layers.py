"""How often RocksDB's snapshots hold a row: its levels, followed through the batches.

A snapshot flushes the changes since the previous one into a new file: rows, and a tombstone for each removed row. When
there are four of those, they are merged with all that is below into one whole copy, without tombstones. Files are kept
as long as a kept snapshot names one of them, so that the state directory holds several copies of the state at any time.
The merge runs beside the batches; its result is in the next snapshot.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MERGE_AT: Final = 4
"""RocksDB's `level0_file_num_compaction_trigger`, which Spark does not change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes of one batch to the state: version N+1 is the state after batch N. `total`: rows after it."""

    version: int
    total: int
    new: int
    updated: int
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """The content of files: rows, each copy counted, and tombstones of removed rows."""

    rows: float
    tombstones: float

    def weight(self, tombstone: float) -> float:
        """In rows; `tombstone`: what one takes of a row."""
        return self.rows + self.tombstones * tombstone


Files = Mapping[int, Content]
"""The files of one snapshot: number -> content."""


def files_of_snapshots(start: int, changes: Sequence[Change], snapshots: Collection[int]) -> dict[int, Files]:
    """Version of each kept snapshot -> the files that it names.

    Args:
        start: rows before the first change: they count as one whole copy, made by an earlier merge.
        changes: oldest first, without a gap.
        snapshots: versions whose snapshot is kept. Those before the oldest of them were made at the same distance.
    """
    files: list[tuple[int, Content]] = [(0, Content(float(start), 0.0))] if start else []
    files_of: dict[int, Files] = {}
    merged = 0 if not start else 1  # whole copies come first in `files`
    number = 0
    new, updated, removed, flushed = 0.0, 0.0, 0.0, start
    made = _made(changes, snapshots)
    for change in changes:
        new, updated, removed = new + change.new, updated + change.updated, removed + change.removed
        if change.version not in made:
            continue
        if len(files) - merged >= MERGE_AT:
            number += 1
            files, merged = [(number, Content(float(flushed), 0.0))], 1
        number += 1
        files.append((number, Content(min(change.total, new + _distinct(updated, change.total)), removed)))
        new, updated, removed, flushed = 0.0, 0.0, 0.0, change.total
        if change.version in snapshots:
            files_of[change.version] = dict(files)
    return files_of


def content(snapshots: Iterable[Files]) -> Content:
    """The total content of the files of these snapshots; a file that several of them name counts once."""
    kept: dict[int, Content] = {}
    for files in snapshots:
        kept |= files
    return Content(sum(amount.rows for amount in kept.values()), sum(amount.tombstones for amount in kept.values()))


def _distinct(times: float, rows: int) -> float:
    """Expected number of different rows among `rows` that are hit by `times` updates at random."""
    return rows * (1 - math.exp(-times / rows)) if rows else 0.0


def _made(changes: Sequence[Change], snapshots: Collection[int]) -> set[int]:
    """Versions that had a snapshot: those that are kept, and before them one at the same distance."""
    kept = sorted(snapshots)
    if len(kept) < 2 or not changes:
        return set(kept)
    step = max(1, round((kept[-1] - kept[0]) / (len(kept) - 1)))
    return set(kept) | set(range(kept[0], changes[0].version - 1, -step))
