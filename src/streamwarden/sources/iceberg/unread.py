"""The files of an Iceberg table that no batch has planned, and whether the query can still find them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from streamwarden.checkpoint.table_offsets import IcebergOffset, newest_end, recent_spans
from streamwarden.errors import CheckpointError
from streamwarden.sources.iceberg.files import IcebergFiles
from streamwarden.sources.tables.source import UnreadFiles


def unread_files(table: IcebergFiles, ends: Mapping[int, IcebergOffset | None]) -> UnreadFiles:
    """Raises CheckpointError, OSError. `ends`: batch -> where it ends."""
    planned = newest_end(ends)
    start = planned or table.beginning()
    if start is None:
        return UnreadFiles()
    if not table.is_kept(start):
        return UnreadFiles(lost={f"snapshot {start.snapshot}, from which the query goes on": 1})
    counts = [count for pair in recent_spans(ends) if (count := _count(table, *pair)) is not None]
    return UnreadFiles(files=table.between(start, None), planned=sum(counts), planned_batches=len(counts))


def _count(table: IcebergFiles, one: IcebergOffset, other: IcebergOffset) -> int | None:
    """The files between two offsets; None: a snapshot between them is not kept any more."""
    if one.snapshot == other.snapshot:
        return other.position - one.position
    with suppress(CheckpointError):
        return len(table.between(one, other))
    return None
