"""The few things that the checkpoint reader asks of a file system. Paths are text, joined with `/`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or folder. `size` in bytes (0 for a folder); `modified` Unix seconds, None if the store does not say."""

    name: str
    size: int
    modified: float | None
    is_dir: bool = False


class FileSystem(Protocol):
    """Read access. A missing path raises FileNotFoundError; every other failure is an OSError."""

    def names(self, path: str) -> Sequence[str]:
        """Names in a folder, in no order. Cheaper than `entries`."""

    def entries(self, path: str) -> Sequence[Entry]: ...

    def stat(self, path: str) -> Entry: ...

    def read(self, path: str) -> bytes: ...

    def open(self, path: str) -> BinaryIO:
        """A seekable binary reader; the caller closes it."""


def walk(fs: FileSystem, path: str, *, skip: Callable[[str], bool] = lambda name: False) -> Iterator[tuple[str, Entry]]:
    """(path below `path`, entry) of every file in the folder and those below it.

    Args:
        skip: names of files and folders that are left out, with all that is in them.

    Raises FileNotFoundError if there is no such folder; one below it that vanishes meanwhile had nothing.
    """
    pending = [("", fs.entries(path))]
    while pending:
        below, entries = pending.pop()
        for entry in entries:
            name = f"{below}{entry.name}"
            if skip(entry.name):
                continue
            if not entry.is_dir:
                yield name, entry
                continue
            try:
                pending.append((f"{name}/", fs.entries(join(path, name))))
            except FileNotFoundError:
                continue


def join(*parts: str) -> str:
    """`join("s3://bucket/a/", "b")` -> `s3://bucket/a/b`."""
    head, *rest = parts
    return "/".join((head.rstrip("/") or "/", *rest)) if head != "/" else "/" + "/".join(rest)
