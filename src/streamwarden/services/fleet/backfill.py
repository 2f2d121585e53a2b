"""Stores progress that did not reach the store: reports spilled beside the driver, and batches that only the
checkpoint's logs know.

Both are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.logs import committed_times, planned_times
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle import folder as files
from streamwarden.progress import Progress, parse_progress

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LogTimes: TypeAlias = tuple[Mapping[int, float | None], Mapping[int, float | None]]
"""When each batch was planned, and when it was committed, in Unix seconds; None: the storage does not tell."""


def spill(folder: Path, progress: Progress) -> None:
    """Keep one progress report beside the driver. Raises OSError if the disk does not take it either."""
    files.append_line(folder / files.SPILL, progress.raw)


def load_spill(folder: Path, name_of: Callable[[str], str], store: Store) -> int:
    """Load the spilled reports into the store and remove their file; returns the number of reports.

    A report that was loaded before is written again. Raises StoreError if the store is (still) down; the file is then
    kept.

    Args:
        name_of: query id -> the stream or query under which its batches are kept.
    """
    path = folder / files.SPILL
    parsed = (_parsed(document) for document in files.read_lines(path))
    reports = [progress for progress in parsed if progress is not None]
    for query_id in dict.fromkeys(each.query_id for each in reports):
        store.batches.upsert_many(name_of(query_id), [each for each in reports if each.query_id == query_id])
    path.unlink(missing_ok=True)
    return len(reports)


def fill_from_logs(store: Store, stream: str, query_id: str, checkpoint: str, connection: str | None = None) -> int:
    """Add the batches that the checkpoint's logs know and the store does not; returns how many. Raises StoreError.

    Args:
        connection: to the object store that the checkpoint is in; see `open_path`.
    """
    try:
        location = open_path(checkpoint, connection)
        times = planned_times(location), committed_times(location)
    except (OSError, StreamwardenError):
        return 0
    batches = {batch for log in times for batch in log}
    if not batches:
        return 0
    return fill_missing(store, stream, query_id, lambda: times, since=min(batches), newest=max(batches))


def fill_missing(
    store: Store, stream: str, query_id: str, times: Callable[[], LogTimes], *, since: int, newest: int
) -> int:
    """Add the batches from `since` to `newest` that the logs know and the store does not; returns how many.

    Args:
        times: reads the Unix seconds at which each batch was planned and committed; called only if a batch is missing.

    Raises:
        StoreError: the store is down; and whatever `times` raises.
    """
    missing = store.batches.missing(stream, query_id, newest, since=since)
    planned, committed = times() if missing else ({}, {})
    lost = [batch for batch in missing if batch in planned or batch in committed]
    for batch in lost:
        store.batches.upsert_logged(stream, query_id, batch, planned.get(batch), committed.get(batch))
    return len(lost)


def _parsed(document: Mapping[str, Any]) -> Progress | None:
    try:
        return parse_progress(document)
    except StreamwardenError:
        return None
