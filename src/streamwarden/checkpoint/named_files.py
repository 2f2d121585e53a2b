"""Whether the files that a log names exist, with the size that the log states."""

from __future__ import annotations

from collections.abc import Mapping

from streamwarden.checkpoint.filesystem import FileSystem


def lost_files(fs: FileSystem, named: Mapping[str, int | None]) -> dict[str, str]:
    """Path -> what is wrong, for each named file that is missing or has another size. Lists each folder once.

    Args:
        named: path -> bytes, None if the log does not say.
    """
    sizes: dict[str, dict[str, int]] = {}
    found = {}
    for path, expected in sorted(named.items()):
        folder, _, name = path.rpartition("/")
        if folder not in sizes:
            sizes[folder] = _sizes(fs, folder)
        size = sizes[folder].get(name)
        if size is None:
            found[path] = "it is not there"
        elif expected is not None and size != expected:
            found[path] = f"it has {size} bytes instead of {expected}"
    return found


def _sizes(fs: FileSystem, folder: str) -> dict[str, int]:
    try:
        return {entry.name: entry.size for entry in fs.entries(folder)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
