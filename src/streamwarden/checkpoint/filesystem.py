"""The file systems that a checkpoint may be on, and a place on one of them. Paths are text, joined with `/`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file or folder. `size` in bytes (0 for a folder); `modified` Unix seconds, None if the store does not say."""

    name: str
    size: int
    modified: float | None
    is_dir: bool = False


class NotAFile(OSError):
    """A pipe, a socket or a device, where a file is expected. Reading it could take for ever."""


class TooLarge(OSError):
    """A file has more bytes than the caller reads."""


class FileSystem(Protocol):
    """A missing path raises FileNotFoundError; every other failure is an OSError. Readers never call `write`."""

    @property
    def checksums(self) -> bool:
        """Whether Hadoop keeps a checksum file `.NAME.crc` beside each file that it writes here."""

    def names(self, path: str) -> Sequence[str]:
        """Names in a folder, in no order. Cheaper than `entries`."""

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        """The entries of a folder, except those with a name in `without`: a disk does not look at these."""

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        """Name -> bytes of the `wanted` entries that are in a folder. Needs less memory than `entries`."""

    def stat(self, path: str) -> FileInfo: ...

    def read(self, path: str, most: int | None = None) -> bytes:
        """The content of a file. Raises TooLarge if it has more than `most` bytes."""

    def open(self, path: str) -> BinaryIO:
        """A seekable binary reader; the caller closes it."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file atomically; creates the folder if necessary."""


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder, which need not exist. Its methods are those of the file system and raise what these raise.
    `verified`: files of a log are compared with Hadoop's checksum files, as the inspector does."""

    fs: FileSystem
    path: str
    verified: bool = False

    def __truediv__(self, below: str) -> Location:
        """`below` is a name in this folder, or a relative path of several names."""
        return Location(self.fs, join(self.path, below), self.verified)

    @property
    def checksum_file(self) -> Location | None:
        """Path of Hadoop's checksums of this file; None if they do not count, or the storage has none."""
        folder, _, name = self.path.rpartition("/")
        return Location(self.fs, f"{folder}/.{name}.crc") if self.verified and self.fs.checksums else None

    def names(self) -> Sequence[str]:
        return self.fs.names(self.path)

    def entries(self, without: Collection[str] = ()) -> Sequence[FileInfo]:
        return self.fs.entries(self.path, without)

    def stat(self) -> FileInfo:
        return self.fs.stat(self.path)

    def read(self, most: int | None = None) -> bytes:
        return self.fs.read(self.path, most)

    def open(self) -> BinaryIO:
        return self.fs.open(self.path)

    def write(self, content: bytes) -> None:
        self.fs.write(self.path, content)

    def walk(self, *, skip: Callable[[str], bool] = lambda name: False) -> Iterator[tuple[str, FileInfo]]:
        """(path below this folder, entry) of every file in this folder and in the folders below it.

        Args:
            skip: names of files and folders that are left out, with everything in them.

        Raises FileNotFoundError if this folder does not exist. A folder below it that vanishes meanwhile counts as
        empty.
        """
        pending = [("", self.entries())]
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
                    pending.append((f"{name}/", (self / name).entries()))
                except FileNotFoundError:
                    continue


def join(*parts: str) -> str:
    """`join("s3://bucket/a/", "b")` -> `s3://bucket/a/b`."""
    head, *rest = parts
    return "/".join((head.rstrip("/") or "/", *rest)) if head != "/" else "/" + "/".join(rest)
