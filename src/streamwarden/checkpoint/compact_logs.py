"""Growth of the logs that Spark compacts: the manifest of a file sink, and what each file source has read.

Every tenth batch Spark reads the newest `N.compact`, adds what came since, and writes the whole as the next one. Both
logs name every file for ever (of the manifest, up to the sink's `retention`), so these batches take longer and longer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden.checkpoint.filesystem import FileInfo, Location
from streamwarden.checkpoint.formats.compaction import next_compaction
from streamwarden.checkpoint.formats.layout import SINK_LOG, SOURCES, compactible_ids, compactible_name, list_or_empty

_CHUNK: Final = 1 << 20
_SAMPLE: Final = 1 << 16
"""Bytes from which the length of an entry is estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactLog:
    """The newest compact file of a log.

    Args:
        name: of the log: `_spark_metadata`, `sources/0`.
        batch: that it was written by; next_batch: that writes it again.
        size: bytes; entries: files that it names, of which `exact` says whether they were counted.
        growth: bytes a second from the compact file before it to this one; None: that one was purged.
    """

    name: str
    batch: int
    next_batch: int
    size: int
    entries: int
    exact: bool
    growth: float | None = None


def compact_logs(checkpoint: Location, output: Location | None, *, exact: bool = False) -> tuple[CompactLog, ...]:
    """The logs of a query that have been compacted, the sink's first.

    Args:
        output: folder of a sink with a manifest.
        exact: count the entries, reading each file once in pieces, whatever its size. Otherwise only its beginning is
            read.

    Raises OSError if the storage does not answer.
    """
    folders = [] if output is None else [(SINK_LOG, output / SINK_LOG)]
    sources = sorted(name for name in list_or_empty(checkpoint / SOURCES) if name.isdigit())
    folders += [(f"{SOURCES}/{name}", checkpoint / SOURCES / name) for name in sources]
    logs = (_newest(name, folder, exact=exact) for name, folder in folders)
    return tuple(log for log in logs if log is not None)


def _newest(name: str, folder: Location, *, exact: bool) -> CompactLog | None:
    batches = [batch for batch, compact in compactible_ids(list_or_empty(folder)) if compact]
    if not batches:
        return None
    try:
        files = [(folder / compactible_name(batch, True)).stat() for batch in batches[-2:]]
        entries = _counted(folder / files[-1].name) if exact else _estimated(folder / files[-1].name, files[-1].size)
    except OSError:  # purged since it was listed, or no regular file: the inspector names that
        return None
    return CompactLog(
        name=name,
        batch=batches[-1],
        next_batch=next_compaction(batches, batches[-1]),
        size=files[-1].size,
        entries=entries,
        exact=exact,
        growth=_growth(files),
    )


def _growth(files: list[FileInfo]) -> float | None:
    first, last = files[0], files[-1]
    if first.modified is None or last.modified is None or last.modified <= first.modified:
        return None
    return max(0, last.size - first.size) / (last.modified - first.modified)


def _counted(file: Location) -> int:
    """Lines after the version; the last one has no end."""
    return sum(piece.count(b"\n") for piece in _pieces(file))


def _pieces(file: Location) -> Iterator[bytes]:
    with file.open() as stream:
        while piece := stream.read(_CHUNK):
            yield piece


def _estimated(file: Location, size: int) -> int:
    with file.open() as stream:
        beginning = stream.read(_SAMPLE)
    lines = beginning.count(b"\n")
    return lines if len(beginning) >= size else round(lines * size / len(beginning))
