"""Progress of one batch by its files on the disk, whatever happened to its driver."""

from collections.abc import Iterator
from dataclasses import dataclass

from streamwarden.checkpoint.filesystem import FileInfo, Location
from streamwarden.checkpoint.formats.data_files import is_closed
from streamwarden.checkpoint.formats.layout import (
    COMMITS,
    OFFSETS,
    SINK_LOG,
    compactible_ids,
    compactible_name,
    list_or_empty,
)
from streamwarden.checkpoint.formats.logs import written_at
from streamwarden.checkpoint.formats.state import is_scratch, state_stores


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraces:
    """Files that a batch has written, in the order in which Spark writes them.

    Args:
        planned_at: when `offsets/N` was written, Unix seconds; None: it is not there.
        state: files of the state's version N+1.
        files: whole data files of the sink that were written since the plan; 0 for a sink without a folder.
        files_at: when the first of them got its last bytes, Unix seconds; None: there is none.
        listed: the sink's manifest has an entry of the batch.
        listed_at: when that was written, Unix seconds; None: it is not there.
        committed: `commits/N` is there.
    """

    planned_at: float | None
    state: int = 0
    files: int = 0
    files_at: float | None = None
    listed: bool = False
    listed_at: float | None = None
    committed: bool = False


def read_traces(checkpoint: Location, output: Location | None, batch: int) -> BatchTraces:
    """The traces of a batch. Exact on a local disk, which keeps the times of files, and while nothing writes. `output`:
    the folder of a sink that has a manifest."""
    planned_at = written_at(checkpoint, OFFSETS, batch)
    if planned_at is None:
        return BatchTraces(planned_at=None)
    files = [] if output is None else [entry.modified or 0.0 for entry in _written_since(output, planned_at)]
    entry = None if output is None else _manifest_entry(output, batch)
    return BatchTraces(
        planned_at=planned_at,
        state=sum(file.version == batch + 1 for store in state_stores(checkpoint) for file in store.files),
        files=len(files),
        files_at=min(files, default=None),
        listed=entry is not None,
        listed_at=None if entry is None else entry.modified,
        committed=written_at(checkpoint, COMMITS, batch) is not None,
    )


def _manifest_entry(output: Location, batch: int) -> FileInfo | None:
    """The file of the manifest that the batch wrote; None: it is not there."""
    compact = dict(compactible_ids(list_or_empty(output / SINK_LOG))).get(batch)
    return None if compact is None else (output / SINK_LOG / compactible_name(batch, compact)).stat()


def _written_since(output: Location, moment: float) -> Iterator[FileInfo]:
    """The whole data files below the output that were written since then. An earlier batch closed its own before."""
    try:
        for path, entry in output.walk(skip=lambda name: name == SINK_LOG or is_scratch(name)):
            if (entry.modified or 0.0) >= moment and is_closed(output / path):
                yield entry
    except FileNotFoundError:  # the first batch makes the folder
        return
