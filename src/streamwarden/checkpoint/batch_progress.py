"""Progress of one batch by its files on the disk, whatever happened to its driver."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

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
        listed: the sink's own list of its files has the batch: a manifest, or the log of a table.
        listed_at: when it was entered there, Unix seconds; None: it is not there.
        committed: `commits/N` is there.
    """

    planned_at: float | None
    state: int = 0
    files: int = 0
    files_at: float | None = None
    listed: bool = False
    listed_at: float | None = None
    committed: bool = False


@dataclass(frozen=True, slots=True)
class ListedOutput:
    """The output of a sink that lists the files of each batch.

    Args:
        place: its folder; log: the folder of the list in it.
        listed_at: batch -> when it was entered, Unix seconds; None: it is not there.
    """

    place: Location
    log: str
    listed_at: Callable[[int], float | None]


def manifest_output(place: Location) -> ListedOutput:
    """The output of Spark's own file sink."""
    return ListedOutput(place, SINK_LOG, partial(entry_written_at, place))


def read_traces(checkpoint: Location, output: ListedOutput | None, batch: int) -> BatchTraces:
    """The traces of a batch. Exact on a local disk, which keeps the times of files, and while nothing writes."""
    planned_at = written_at(checkpoint, OFFSETS, batch)
    if planned_at is None:
        return BatchTraces(planned_at=None)
    files = [] if output is None else [entry.modified or 0.0 for entry in _written_since(output, planned_at)]
    listed_at = None if output is None else output.listed_at(batch)
    return BatchTraces(
        planned_at=planned_at,
        state=sum(file.version == batch + 1 for store in state_stores(checkpoint) for file in store.files),
        files=len(files),
        files_at=min(files, default=None),
        listed=listed_at is not None,
        listed_at=listed_at,
        committed=written_at(checkpoint, COMMITS, batch) is not None,
    )


def entry_written_at(output: Location, batch: int) -> float | None:
    """When the batch was entered in the manifest of Spark's file sink, Unix seconds; None: it is not there."""
    compact = dict(compactible_ids(list_or_empty(output / SINK_LOG))).get(batch)
    if compact is None:
        return None
    return (output / SINK_LOG / compactible_name(batch, compact)).stat().modified or 0.0


def _written_since(output: ListedOutput, moment: float) -> Iterator[FileInfo]:
    """The whole data files below the output that were written since then. An earlier batch closed its own before."""
    try:
        for path, entry in output.place.walk(skip=lambda name: name == output.log or is_scratch(name)):
            if (entry.modified or 0.0) >= moment and is_closed(output.place / path):
                yield entry
    except FileNotFoundError:  # the first batch makes the folder
        return
