"""The files of an Iceberg table that no batch has planned, and whether the query can still find them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Final

from streamwarden.checkpoint.table_offsets import IcebergOffset
from streamwarden.errors import CheckpointError
from streamwarden.sources.iceberg.files import IcebergFiles
from streamwarden.sources.tables import UnreadFiles

RECENT: Final = 20
"""Batches from which the files of a batch are estimated."""


def unread_files(table: IcebergFiles, ends: Mapping[int, IcebergOffset | None]) -> UnreadFiles:
    """Raises CheckpointError, OSError. `ends`: batch -> where it ends."""
    planned = next((end for end in reversed(list(ends.values())) if end is not None), None)
    start = planned or table.beginning()
    if start is None:
        return UnreadFiles()
    if not table.is_kept(start):
        return UnreadFiles(lost={f"snapshot {start.snapshot}, from which the query goes on": 1})
    recent = [end for end in list(ends.values())[-RECENT - 1 :] if end is not None]
    counts = [count for pair in pairwise(recent) if (count := _count(table, *pair)) is not None]
    return UnreadFiles(files=table.between(start, None), planned=sum(counts), planned_batches=len(counts))


def _count(table: IcebergFiles, one: IcebergOffset, other: IcebergOffset) -> int | None:
    """The files between two offsets; None: a snapshot between them is not kept any more."""
    if one.snapshot == other.snapshot:
        return other.position - one.position
    with suppress(CheckpointError):
        return len(table.between(one, other))
    return None
