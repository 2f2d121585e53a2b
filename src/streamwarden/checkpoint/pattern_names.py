"""Finds the batches in which Spark read files more than once, because it takes names of files for patterns.

Spark 4.3 reads the files of a batch without expanding patterns (`__globPaths__=false`). For each path with a character
of a pattern it takes all files of the batch in its place: the other files are read once more, without an error. Not if
subfolders are columns (`day=1`), or are read recursively: then Spark lists each file once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SOURCES, compactible_ids, compactible_name, list_or_empty
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import file_name, is_pattern, to_path

_SIGN: Final = re.compile(rb"\*|%(?:5B|5C|5D|7B|7D|3F)", re.IGNORECASE)
"""A character of a pattern in a URI."""

Clean = Mapping[str, Sequence[float]]
"""Source -> the newest entry of its log, and when that was written (Unix seconds), if the newest entries up to it name
no pattern."""

_NEWEST: Final = 30
"""Entries of a source's log that are read: an evaluation a minute misses none if each batch takes 2 s or longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAgain:
    """A batch that read files more than once.

    Args:
        source: its place among the sources of the query.
        name: of the first file that Spark takes for a pattern; patterns: how many there are.
        files: that the batch has of this source.
    """

    source: int
    batch: int
    name: str
    patterns: int
    files: int

    def __str__(self) -> str:
        again = self.files - 1 if self.patterns == 1 else self.files
        return (
            f"batch {self.batch} read {again} of its {self.files} files more than once: Spark takes the name "
            f"{self.name!r} for a pattern, and reads the other files of the batch once more for it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReadAgain:
    """What the logs of a query's file sources show.

    Args:
        found: the batches that read files more than once, ascending.
        files: source -> batch -> how many files it read, of the sources from which the found batches read.
        clean: what need not be read again, for the next time.
    """

    found: tuple[ReadAgain, ...] = ()
    files: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    clean: Clean = field(default_factory=dict)


def read_again(
    files: Mapping[int, Sequence[str]], source: int = 0, *, folder: str | None = None, recursive: bool = False
) -> Iterator[ReadAgain]:
    """The batches that read files of one source more than once. Pure.

    Args:
        files: batch -> the URIs of the files that it read.
        folder: of the source, as its stream declares it; None: not known.
        recursive: the source reads every subfolder.
    """
    for batch, uris in () if recursive else sorted(files.items()):
        patterns = [uri for uri in uris if is_pattern(to_path(uri))]
        if patterns and len(uris) > 1 and not all(_is_partitioned(to_path(uri), folder) for uri in uris):
            name, count = file_name(patterns[0]), len(patterns)
            yield ReadAgain(source=source, batch=batch, name=name, patterns=count, files=len(uris))


def _is_partitioned(path: str, folder: str | None) -> bool:
    """Whether a subfolder of the source is a column. Of an unknown source any folder counts."""
    root = f"{folder.rstrip('/')}/" if folder else ""
    return "=" in path.removeprefix(root).rpartition("/")[0]


def by_batch(read: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
    """(URI, batch) as batch -> URIs."""
    files: dict[int, list[str]] = {}
    for uri, batch in read:
        files.setdefault(batch, []).append(uri)
    return files


def files_read_again(
    checkpoint: Location,
    folders: Sequence[str] = (),
    recursive: Callable[[], bool] = lambda: False,
    clean: Clean = MappingProxyType({}),
) -> FilesReadAgain:
    """What the newest entries of the sources' logs show. A listing and some small files of each source; of a source
    with such names the whole log is read. Raises CheckpointError, OSError.

    Args:
        folders: of the sources, as far as they are declared.
        recursive: whether the sources read every subfolder; it is asked if a batch seems to have read files again.
        clean: of the reading before.
    """
    still_clean: dict[str, Sequence[float]] = {}
    found: list[ReadAgain] = []
    counts: dict[int, Mapping[int, int]] = {}
    for source in sorted(int(name) for name in list_or_empty(checkpoint / SOURCES) if name.isdigit()):
        place, name = checkpoint / SOURCES / str(source), str(source)
        newest = compactible_ids(list_or_empty(place))[-_NEWEST:]
        if not _has_patterns(place, _unread(place, newest, clean.get(name, ()))):
            still_clean |= _clean(place, name, newest)
            continue
        log = file_source_log(checkpoint, source)
        again = list(read_again(log, source, folder=folders[source] if source < len(folders) else None))
        if again and not recursive():
            found += again
            counts[source] = {batch: len(uris) for batch, uris in log.items()}
    return FilesReadAgain(found=tuple(sorted(found, key=lambda again: again.batch)), files=counts, clean=still_clean)


_Entry: TypeAlias = tuple[int, bool]
"""A batch, and whether its entry is a compact one."""


def _unread(log: Location, entries: Sequence[_Entry], clean: Sequence[float]) -> Sequence[_Entry]:
    """The entries after the one that is known to be clean; all of them if that one was purged or written again."""
    known = next((entry for entry in entries if len(clean) == 2 and entry[0] == clean[0]), None)
    if known is not None and _written_at(log, known) == clean[1]:
        return [entry for entry in entries if entry > known]
    return entries


def _clean(log: Location, source: str, entries: Sequence[_Entry]) -> Clean:
    at = _written_at(log, entries[-1]) if entries else None
    return {} if at is None else {source: (entries[-1][0], at)}


def _written_at(log: Location, entry: _Entry) -> float | None:
    try:
        return (log / compactible_name(*entry)).stat().modified
    except FileNotFoundError:
        return None


def _has_patterns(log: Location, entries: Iterable[_Entry]) -> bool:
    """Whether one of these batches may have read a file that Spark takes for a pattern. Not what was purged
    meanwhile."""
    for batch, compact in entries:
        with suppress(FileNotFoundError):
            text = (log / compactible_name(batch, compact)).read()
            if _SIGN.search(_own(text, batch) if compact else text):
                return True
    return False


def _own(compact: bytes, batch: int) -> bytes:
    """The lines of the batch itself: a compact entry has those of all batches before it, too."""
    mark = re.compile(rb'"batchId": ?%d\b' % batch)
    return b"\n".join(filter(mark.search, compact.splitlines()))
