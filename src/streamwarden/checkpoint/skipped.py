"""Finds batches that Spark did not write, because the manifest of the file sink listed them already.

The manifest of an older, longer run lists batch numbers that a query with a new checkpoint has not planned yet. Spark
plans and commits these batches, writes none of their rows, and reports no error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG, Damaged, compactible_ids
from streamwarden.checkpoint.formats.logs import offsets, planned_times
from streamwarden.checkpoint.formats.sink import read_entry, unplanned_entries
from streamwarden.errors import CheckpointError

_GRAIN: Final = 1.0
"""Seconds to which an object store rounds the times of files."""
_READ: Final = 50
"""Suspected entries that are read at most; there are none unless a batch was skipped or files were copied."""
_CLOCKS: Final = 60.0
"""Seconds by which the clocks of the driver and of the storage may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBatches:
    """Batches that the manifest lists although this query has not written them.

    Args:
        skipped: planned batches whose rows are lost, ascending.
        ahead: batches that are not planned yet and will be skipped.
    """

    skipped: tuple[int, ...] = ()
    ahead: range = range(0)


def skipped_batches(checkpoint: Location, output: Location) -> SkippedBatches | None:
    """The skipped batches among those that both logs still have; None if there is no manifest. Two listings, safe while
    the query runs. Raises OSError or CheckpointError if the storage does not answer.

    An entry that is older than its plan is another run's. Both times are the storage's, so no clocks are compared. A
    copy of a checkpoint is younger than its manifest, so each suspected entry is read: it says when its files were
    written, and the plan when it was made.
    """
    try:
        entries = (output / SINK_LOG).entries()  # before the plan: a batch is planned before it is written
    except (FileNotFoundError, NotADirectoryError):
        return None
    written = {entry.name: entry.modified for entry in entries}
    plans = planned_times(checkpoint)
    listed = dict(compactible_ids(written))
    plain = [batch for batch, compact in listed.items() if not compact]
    suspects = [batch for batch in plain if _is_older(written[str(batch)], plans, batch)]
    newest = sorted(suspects)[-_READ:]
    skipped = [batch for batch in newest if _confirmed(checkpoint, output, batch, written[str(batch)] or 0.0)]
    ahead = unplanned_entries(max(plans, default=None), max(listed, default=None))
    return SkippedBatches(skipped=tuple(skipped), ahead=ahead)


def _is_older(written: float | None, plans: Mapping[int, float | None], batch: int) -> bool:
    planned = plans.get(batch)
    return written is not None and planned is not None and written + _GRAIN < planned


def _confirmed(checkpoint: Location, output: Location, batch: int, listed_at: float) -> bool:
    """Whether the data files of the entry were written before the batch was planned, by their own records. An entry
    without files has only the time of its own file, and the plan that of the driver's clock."""
    try:
        entry = read_entry(output / SINK_LOG, batch, compact=False)
        planned_ms = offsets(checkpoint, batch).timestamp_ms
    except (Damaged, FileNotFoundError, CheckpointError):  # purged meanwhile; `inspect` names a damage
        return False
    return (entry.written_ms or (listed_at + _CLOCKS) * 1000) < planned_ms
