"""Compares the first batch of a fork with the same batch of its stream, where both read the same input."""

from collections import Counter
from contextlib import suppress

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import COMMITS
from streamwarden.checkpoint.formats.logs import offsets, written_at
from streamwarden.checkpoint.formats.sources import file_source_log, log_offset
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.errors import StreamwardenError
from streamwarden.sinks.base import Sink
from streamwarden.stream.spec import StreamSpec
from streamwarden.verification.comparing.balance import Range

NOT_COMPARED = "its rows were not compared"


def compared(stream: StreamSpec, forked: StreamSpec, batch: int) -> str:
    """What a comparison of the rows of this batch says; it refuses nothing.

    Rows are compared if both sinks are folders that still list the batch, and both batches read the same.
    """
    with suppress(StreamwardenError, OSError):
        own, theirs = (_rows(spec, batch) for spec in (forked, stream))
        if own is None or theirs is None or not same_input(checkpoint_of(stream), checkpoint_of(forked), batch):
            return NOT_COMPARED
        if own == theirs:
            return f"its {own.total():,} rows are those that the stream wrote for that batch"
        differ = f"{(own - theirs).total():,} are new and {(theirs - own).total():,} are missing"
        return f"its rows are not those that the stream wrote for that batch: {differ}"
    return NOT_COMPARED


def same_input(stream: Location, forked: Location, batch: int) -> bool:
    """Whether both planned the batch with the same ends, the same files and the same watermark. Raises CheckpointError
    if a log does not say it any more."""
    one, other = offsets(stream, batch), offsets(forked, batch)
    if (one.sources, one.watermark_ms) != (other.sources, other.watermark_ms):
        return False
    logs = [index for index, end in enumerate(one.sources) if log_offset(end) is not None]
    return all(_files(stream, batch, index) == _files(forked, batch, index) for index in logs)


def _files(checkpoint: Location, batch: int, source: int) -> set[str] | None:
    read = file_source_log(checkpoint, source).get(batch)
    return None if read is None else set(map(file_name, read))


def _rows(spec: StreamSpec, batch: int) -> Counter[str] | None:
    """As text: a row with a window or a map in it cannot be counted otherwise."""
    began = written_at(checkpoint_of(spec), COMMITS, batch - 1)
    if began is None or not isinstance(spec.sink, Sink):
        return None
    output = spec.sink.rows_of_batches(spec, Range(after=batch - 1, upto=batch), began)
    if output is None:
        return None
    columns = sorted(output.columns)
    return Counter(repr(row) for part in output.parts for row in part.rows(columns))
