"""What one batch has left on the disk so far: how far it came, whatever happened to its driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamwarden.checkpoint.data_files import is_closed
from streamwarden.checkpoint.filesystem import FileInfo, Location
from streamwarden.checkpoint.layout import COMMITS, OFFSETS, SINK_LOG, compactible_ids, list_or_empty
from streamwarden.checkpoint.logs import written_at
from streamwarden.checkpoint.state import is_scratch, state_stores


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTraces:
    """What a batch has left, in the order in which Spark writes it.

    Args:
        planned_at: when `offsets/N` was written, Unix seconds; None: it is not there.
        state: files of the state's version N+1.
        files: whole data files of the sink that were written since the plan; 0 for a sink without a folder.
        listed: the sink's manifest has an entry of the batch.
        committed: `commits/N` is there.
    """

    planned_at: float | None
    state: int = 0
    files: int = 0
    listed: bool = False
    committed: bool = False


def read_traces(checkpoint: Location, output: Location | None, batch: int) -> BatchTraces:
    """The traces of a batch. Exact on a local disk, which keeps the times of files, and while nothing writes.

    Args:
        output: the folder of a sink that has a manifest.
    """
    planned_at = written_at(checkpoint, OFFSETS, batch)
    if planned_at is None:
        return BatchTraces(planned_at=None)
    return BatchTraces(
        planned_at=planned_at,
        state=sum(file.version == batch + 1 for store in state_stores(checkpoint) for file in store.files),
        files=0 if output is None else sum(1 for _ in _written_since(output, planned_at)),
        listed=output is not None and batch in dict(compactible_ids(list_or_empty(output / SINK_LOG))),
        committed=written_at(checkpoint, COMMITS, batch) is not None,
    )


def _written_since(output: Location, moment: float) -> Iterator[FileInfo]:
    """The whole data files below the output that were written since then. An earlier batch closed its own before."""
    try:
        for path, entry in output.walk(skip=lambda name: name == SINK_LOG or is_scratch(name)):
            if (entry.modified or 0.0) >= moment and is_closed(output / path):
                yield entry
    except FileNotFoundError:  # the first batch makes the folder
        return
