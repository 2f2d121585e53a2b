"""Checks that the files that a log names exist, with the size that the log states."""

import errno
from collections.abc import Collection, Mapping
from typing import Final

from streamwarden.checkpoint.filesystem import FileSystem

_NO_FOLDER: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


def lost_files(fs: FileSystem, named: Mapping[str, int | None]) -> dict[str, str]:
    """Path -> what is wrong, for each named file that is missing or has another size. Lists each folder once. `named`:
    path -> bytes, None if the log does not say."""
    folders: dict[str, set[str]] = {}
    for path in named:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(name)
    sizes = {folder: _sizes(fs, folder, names) for folder, names in folders.items()}
    problems = {}
    for path, expected in sorted(named.items()):
        folder, _, name = path.rpartition("/")
        size = sizes[folder].get(name)
        if size is None:
            problems[path] = "it is not there"
        elif expected is not None and size != expected:
            problems[path] = f"it has {size} bytes instead of {expected}"
    return problems


def _sizes(fs: FileSystem, folder: str, names: Collection[str]) -> Mapping[str, int]:
    try:
        return fs.sizes(folder, names)
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return {}
        raise
