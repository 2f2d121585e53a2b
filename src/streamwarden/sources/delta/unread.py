"""The files of a Delta table that no batch has planned, and what VACUUM and the log's retention have taken of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from streamwarden.adapters.delta.log import versions
from streamwarden.checkpoint.table_offsets import BEFORE_FIRST, DeltaOffset, newest_end, recent_spans
from streamwarden.errors import CheckpointError
from streamwarden.sources.delta.files import DeltaFiles
from streamwarden.sources.tables.source import TableFile, UnreadFiles


def unread_files(table: DeltaFiles, ends: Mapping[int, DeltaOffset | None]) -> UnreadFiles:
    """Raises CheckpointError, OSError. `ends`: batch -> where it ends."""
    newest = table.newest()
    planned = newest_end(ends)
    counts = [count for pair in recent_spans(ends) if (count := _count(table, *pair)) is not None]
    if newest is None:
        return UnreadFiles()
    behind = DeltaOffset(newest + 1, BEFORE_FIRST, False, "" if planned is None else planned.table)
    first = _first_version(planned, table.starting)
    gone = [] if first is None else sorted(set(range(first, newest + 1)) - set(versions(table.root)))
    if gone:
        return UnreadFiles(lost={f"version {version} of its log": 1 for version in gone})
    files = table.between(planned, behind)
    lost: list[TableFile] = [] if first is None else table.lost(files, first, newest)
    return UnreadFiles(
        files=files,
        lost={f"the file {file.path}": 1 for file in lost},
        planned=sum(counts),
        planned_batches=len(counts),
    )


def _first_version(planned: DeltaOffset | None, starting: int | None) -> int | None:
    """The first version whose commit is needed; None: the query begins with the whole table."""
    if planned is None:
        return starting
    return planned.version + 1 if planned.snapshot else planned.version


def _count(table: DeltaFiles, one: DeltaOffset, other: DeltaOffset) -> int | None:
    """The files between two offsets; None: the log does not say without a look at the whole table."""
    if (one.version, one.snapshot) == (other.version, other.snapshot):
        return other.index - one.index
    if one.snapshot:
        return None
    with suppress(CheckpointError):
        return len(table.between(one, other))
    return None
