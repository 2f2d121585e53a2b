"""A file system in memory, of the files of a `Tree`: path below `ROOT` -> content."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import BinaryIO

from streamwarden.checkpoint.filesystem import FileInfo, Location, TooLarge

ROOT = "/memory"
WRITTEN = 1_700_000_000.0


class MemoryFiles:
    """As a local disk: checksum files count."""

    checksums = True

    def __init__(self, tree: Mapping[str, bytes]) -> None:
        self._files = {f"{ROOT}/{path}": content for path, content in tree.items()}
        self._folders: dict[str, dict[str, int]] = {ROOT: {}}
        for path, content in self._files.items():
            self._add(path, len(content))

    def _add(self, path: str, size: int) -> None:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders and folder:
            self._add(folder, -1)
        self._folders.setdefault(folder, {})[name] = size
        if size < 0:
            self._folders.setdefault(path, {})

    def names(self, path: str) -> Sequence[str]:
        if path in self._files:
            raise NotADirectoryError(20, "not a folder", path)
        if path not in self._folders:
            raise FileNotFoundError(2, "not there", path)
        return list(self._folders[path])

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        return [self.stat(f"{path}/{name}") for name in self.names(path) if name not in without]

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        return {entry.name: entry.size for entry in self.entries(path) if entry.name in wanted}

    def stat(self, path: str) -> FileInfo:
        name = PurePosixPath(path).name
        if path in self._files:
            return FileInfo(name=name, size=len(self._files[path]), modified=WRITTEN)
        if path in self._folders:
            return FileInfo(name=name, size=0, modified=WRITTEN, is_dir=True)
        raise FileNotFoundError(2, "not there", path)

    def read(self, path: str, most: int | None = None) -> bytes:
        content = self.open(path).read()
        if most is not None and len(content) > most:
            raise TooLarge(27, "it is too large", path)
        return content

    def open(self, path: str) -> BinaryIO:
        if path in self._folders:
            raise IsADirectoryError(21, "a folder", path)
        if path not in self._files:
            raise FileNotFoundError(2, "not there", path)
        return io.BytesIO(self._files[path])

    def write(self, path: str, content: bytes) -> None:
        raise AssertionError("nothing here writes")


def location(tree: Mapping[str, bytes], path: str) -> Location:
    """A place below the root of the tree."""
    return Location(MemoryFiles(tree), f"{ROOT}/{path}")
