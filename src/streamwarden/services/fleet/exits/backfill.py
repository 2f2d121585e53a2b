"""Stores progress that did not reach the store: reports spilled beside the driver, and batches that only the
checkpoint's logs know.

Both are idempotent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import committed_times, planned_times
from streamwarden.errors import ProgressError, StreamwardenError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.progress import Progress, parse_progress

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_log = logging.getLogger(__name__)
_MOST_UNREADABLE: Final = 1 << 20
"""Bytes of reports that are kept although they cannot be understood."""
LogTimes: TypeAlias = tuple[Mapping[int, float | None], Mapping[int, float | None]]
"""Times at which each batch was planned and committed, Unix seconds; None: the storage has no times."""


def spill(folder: Path, progress: Progress) -> None:
    """Keep one progress report beside the driver. Raises OSError if the disk does not take it either."""
    files.append_line(folder / files.SPILL, progress.raw)


def keep_unreadable(folder: Path, text: str, error: ProgressError) -> bool:
    """Keep a progress report that cannot be understood beside the driver, with the error.

    False if the disk does not take it, or the file is large already.
    """
    path = folder / files.UNREADABLE
    try:
        if path.exists() and path.stat().st_size > _MOST_UNREADABLE:
            return False
        files.append_line(path, {"error": str(error), "report": text[:_MOST_UNREADABLE]})
    except (OSError, ValueError):
        return False
    return True


def load_spill(folder: Path, name_of: Callable[[str], str], store: Store) -> int:
    """Load the spilled reports into the store and remove their file; returns the number of reports.

    A report that was loaded before is written again. One that cannot be understood is logged, kept in another file and
    left out. Raises StoreError if the store is (still) down; the file is then kept.

    Args:
        name_of: query id -> the stream or query under which its batches are kept.
    """
    path = folder / files.SPILL
    reports = []
    for document in files.read_lines(path):
        try:
            reports.append(parse_progress(document))
        except ProgressError as error:
            keep_unreadable(folder, json.dumps(document), error)
            _log.warning("a spilled progress report of %s was left out: %s", folder.name, error)
    for query_id in dict.fromkeys(report.query_id for report in reports):
        store.batches.upsert_many(name_of(query_id), [report for report in reports if report.query_id == query_id])
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
        StoreError: the store is down; and the errors of `times`.
    """
    missing = store.batches.missing(stream, query_id, newest, since=since)
    planned, committed = times() if missing else ({}, {})
    lost = [batch for batch in missing if batch in planned or batch in committed]
    for batch in lost:
        store.batches.upsert_logged(stream, query_id, batch, planned.get(batch), committed.get(batch))
    return len(lost)
