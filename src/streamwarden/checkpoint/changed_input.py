"""Finds the input files that changed after a query had read them. Pure.

A file source writes the modification time of each file into its log when it lists the file. A file that has another
time now was replaced or appended to: what the query read is no longer there to be compared with.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from streamwarden.checkpoint.formats.sources import SourceFile
from streamwarden.checkpoint.formats.uris import to_path

_NAMED: Final = 3
"""Files that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that a batch read, with its modification time then and now, in Unix milliseconds."""

    path: str
    batch: int
    read_ms: int
    now_ms: int

    def __str__(self) -> str:
        then, now = (_shown(milliseconds) for milliseconds in (self.read_ms, self.now_ms))
        return f"{self.path.rpartition('/')[2]} (batch {self.batch} read it as of {then}, it is of {now} now)"


def changed_files(
    read: Mapping[int, Sequence[SourceFile]], modified: Mapping[str, int], *, within: int = 0
) -> Iterator[ChangedFile]:
    """The files whose modification time is not the one that the source's log has.

    Args:
        read: batch -> the log's entries of the files that it read.
        modified: path -> modification time now, Unix milliseconds; a file that is gone is left out.
        within: milliseconds by which the two may differ, because a storage rounds them.
    """
    for batch, files in sorted(read.items()):
        for file in files:
            now = modified.get(to_path(file.path))
            if now is not None and abs(now - file.timestamp_ms) > within:
                yield ChangedFile(to_path(file.path), batch, file.timestamp_ms, now)


def describe_changed(changed: Sequence[ChangedFile]) -> str:
    """The files in one sentence, which a verdict or an error can have as its reason."""
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    named = ", ".join(map(str, changed[:_NAMED]))
    return f"input changed after it was read, so that nothing can be proven: {named}{more}"


def _shown(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
