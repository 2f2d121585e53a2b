"""Moves files and folders within a storage: by a rename on a disk and in HDFS. An object store has none: there they are
copied, and removed when their names and sizes were compared with those of the copies.

Each of these functions completes, when it is called again, what a kill in the middle of it has left.
"""

import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden import disk
from streamwarden.adapters.storage.files import download, link_or_copy
from streamwarden.adapters.storage.remote import RemoteFiles, RenamingFiles
from streamwarden.checkpoint.filesystem import Location

_PROGRESS: Final = "_exchange"
"""In a prepared folder of a store: how far it has taken the place of another one."""

_KEPT: Final = b"kept"
_MOVED: Final = b"moved"

_NUMBER: Final = re.compile(r"\d+")


def renames(place: Location) -> bool:
    """Whether a file or a folder gets another name there at once."""
    return isinstance(place.fs, RenamingFiles) or not isinstance(place.fs, RemoteFiles)


def exists(place: Location) -> bool:
    """Whether there is a file or a folder. Raises OSError."""
    try:
        place.stat()
    except FileNotFoundError:
        return False
    return True


def bring(source: Location, target: Location) -> None:
    """A file at another place: a link or a copy on this host; a store copies what is in it. What comes from another
    store passes through a file of this host. Raises OSError."""
    if not isinstance(target.fs, RemoteFiles):
        Path(target.path).parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(source, Path(target.path))
    elif source.fs == target.fs:
        target.fs.copy(source.path, target.path)
    elif isinstance(source.fs, RemoteFiles):
        with tempfile.TemporaryDirectory(prefix="streamwarden-") as folder:
            download(source, Path(folder, "file"))
            target.fs.upload(f"{folder}/file", target.path)
    else:
        target.fs.upload(source.path, target.path)


def remove(place: Location) -> bool:
    """Remove a file, or a folder with all that is in it; False: it is not there. Raises OSError."""
    if isinstance(place.fs, RemoteFiles):
        return place.fs.remove(place.path)
    path = Path(place.path)
    if path.is_dir() and not path.is_symlink():
        return disk.remove_folder(path, below=path.parent)
    with suppress(FileNotFoundError):
        path.unlink()
        return True
    return False


def remove_beside(place: Location, suffix: str) -> None:
    """Remove what is beside `place` under its name with `suffix` and anything after it. Raises OSError."""
    folder, _, name = place.path.rpartition("/")
    above = Location(place.fs, folder)
    with suppress(FileNotFoundError):
        for left in [each for each in above.names() if each.startswith(f"{name}{suffix}")]:
            remove(above / left)


def move(source: Location, target: Location) -> None:
    """Move a file or a folder, if it is there, to where nothing else is. Raises OSError."""
    if not exists(source):
        return
    if isinstance(source.fs, RenamingFiles):
        source.fs.rename(source.path, target.path)
        return
    if not isinstance(source.fs, RemoteFiles):
        Path(target.path).parent.mkdir(parents=True, exist_ok=True)
        Path(source.path).rename(target.path)
        return
    info = source.stat()
    if info.is_dir:
        _copy(source, target, _files(source))
    else:
        bring(source, target)
        _require_size(target, info.size)
    remove(source)


@dataclass(frozen=True, slots=True)
class Swap:
    """A prepared folder that takes the place of another one, which is kept aside.

    Where a storage renames these are two renames. In an object store the other folder is copied aside and the prepared
    one over it, and then what only the other one had goes, the highest numbers first: a log is one of fewer batches at
    each moment.

    Args:
        live: the folder; there may be none.
        guard: a file of it without which nobody uses it.
    """

    live: Location
    prepared: Location
    aside: Location
    guard: str | None = None

    def close(self, word: bytes) -> None:
        """In an object store: keep the other folder, and put `word` in the place of the guard, so that nobody uses a
        folder of two contents. Where a storage renames there is no such moment. Raises OSError."""
        assert self.guard is not None
        if not renames(self.live) and _files(self.prepared) and self._progress() != _MOVED:
            self._keep()
            (self.live / self.guard).write(word)

    def carry_out(self) -> None:
        """Raises OSError."""
        if renames(self.live):
            if exists(self.prepared):
                move(self.live, self.aside)
                move(self.prepared, self.live)
            return
        if _files(self.prepared):
            if self._progress() != _MOVED:
                self._keep()
                self._replace()
                (self.prepared / _PROGRESS).write(_MOVED)
            for name in self.prepared.names():
                if name != _PROGRESS:
                    remove(self.prepared / name)
        remove(self.prepared)  # with its progress, and the marker of an empty folder that a client leaves

    def _progress(self) -> bytes:
        try:
            return (self.prepared / _PROGRESS).read()
        except FileNotFoundError:
            return b""

    def _keep(self) -> None:
        if not self._progress():
            _copy(self.live, self.aside, _files(self.live))
            (self.prepared / _PROGRESS).write(_KEPT)

    def _replace(self) -> None:
        wanted = _files(self.prepared)
        last = {name: size for name, size in wanted.items() if name == self.guard}
        _copy(self.prepared, self.live, {name: size for name, size in wanted.items() if name != self.guard})
        for name in sorted(_files(self.live).keys() - wanted.keys() - {self.guard}, key=_number, reverse=True):
            remove(self.live / name)
        _copy(self.prepared, self.live, last)


def _files(folder: Location) -> dict[str, int]:
    """Path below a folder of a store -> size of each file of it; none if it is not there."""
    try:
        return {name: info.size for name, info in folder.walk() if name != _PROGRESS}
    except FileNotFoundError:
        return {}


def _copy(source: Location, target: Location, files: Mapping[str, int]) -> None:
    for name in sorted(files):
        bring(source / name, target / name)
    there = _files(target) if files else {}
    for name, size in files.items():
        if there.get(name) != size:
            raise _incomplete(target / name, there.get(name), size)


def _require_size(place: Location, size: int) -> None:
    there = place.stat().size
    if there != size:
        raise _incomplete(place, there, size)


def _incomplete(place: Location, there: int | None, size: int) -> OSError:
    return OSError(5, f"the copy has {there} bytes, and its original {size}", place.path)


def _number(name: str) -> tuple[int, str]:
    found = _NUMBER.match(name.rpartition("/")[2])
    return int(found[0]) if found else -1, name
