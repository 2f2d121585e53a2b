"""A folder in place of HDFS, for tests of what is asked of a storage that renames. A real one: `hadoop`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, ClassVar

import pytest

from streamwarden.adapters.storage import hdfs
from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.adapters.storage.moving import exists, move, remove
from streamwarden.adapters.storage.remote import RenamingFiles
from streamwarden.checkpoint.filesystem import FileInfo, Location
from streamwarden.checkpoint.formats.uris import to_uri
from streamwarden.stream.spec import StreamSpec

URL = "hdfs://lake"


class FolderAsHdfs(RenamingFiles):
    """`hdfs://lake/a` is `ROOT/a`. `before_change` is called with the action and the URL of each change."""

    checksums: ClassVar[bool] = False

    def __init__(self, root: Path) -> None:
        self.root, self._disk = root, LocalFiles()
        self.before_change: Callable[[str, str], None] = lambda action, path: None

    def here(self, path: str) -> str:
        return f"{self.root}{path.removeprefix(URL)}"

    def names(self, path: str) -> Sequence[str]:
        return self._disk.names(self.here(path))

    def entries(self, path: str, without: Collection[str] = ()) -> Sequence[FileInfo]:
        return self._disk.entries(self.here(path), without)

    def sizes(self, path: str, wanted: Collection[str]) -> Mapping[str, int]:
        return self._disk.sizes(self.here(path), wanted)

    def stat(self, path: str) -> FileInfo:
        return self._disk.stat(self.here(path))

    def read(self, path: str, most: int | None = None) -> bytes:
        return self._disk.read(self.here(path), most)

    def open(self, path: str) -> BinaryIO:
        return self._disk.open(self.here(path))

    def write(self, path: str, content: bytes) -> None:
        self.before_change("write", path)
        self._disk.write(self.here(path), content)

    def copy(self, source: str, target: str) -> None:
        self.upload(self.here(source), target)

    def upload(self, source: str, target: str) -> None:
        self.before_change("write", target)
        self._disk.write(self.here(target), Path(source).read_bytes())

    def remove(self, path: str) -> bool:
        self.before_change("remove", path)
        return remove(Location(self._disk, self.here(path)))

    def rename(self, source: str, target: str) -> None:
        self.before_change("rename", target)
        if exists(Location(self._disk, self.here(target))):
            raise FileExistsError(17, "there is something", target)
        move(Location(self._disk, self.here(source)), Location(self._disk, self.here(target)))

    def files(self) -> dict[str, bytes]:
        """Path below the root -> content of every file."""
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in found}


def folder_as_hdfs(patch: pytest.MonkeyPatch, root: Path) -> FolderAsHdfs:
    """What every `hdfs://` URL leads to from now on."""
    made = FolderAsHdfs(root)
    patch.setattr(hdfs, "open_hdfs", lambda url, environ: (made, url.rstrip("/")))
    return made


def stored(lake: FolderAsHdfs, local: StreamSpec, at: str) -> StreamSpec:
    """The stream of an unpacked archive with all that it has, put into the folder `at` of HDFS."""
    root, url = Path(local.checkpoint).parent, f"{URL}{at}"
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".crc"):
        content = path.read_bytes().replace(
            f"file:{root}/checkpoint/state".encode(), f"{url}/checkpoint/state".encode()
        )
        for here in (to_uri(str(root)), str(root)):
            content = content.replace(here.encode(), to_uri(url).encode())
        lake.write(f"{url}/{path.relative_to(root).as_posix()}", content)
    return replace(
        local,
        checkpoint=f"{url}/checkpoint",
        source=replace(local.source, path=f"{url}/input"),
        sink=replace(local.sink, path=f"{url}/output"),
    )
