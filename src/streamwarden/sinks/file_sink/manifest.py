"""Judges the manifest of an output folder: which files it vouches for, and which entries and files it lacks.

Unlike Spark's reader this one also checks what the manifest should hold: an entry for each batch up to the newest
commit, and each file that it names.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.checkpoint.filesystem import FileSystem, join
from streamwarden.checkpoint.layout import SINK_LOG, parse_object
from streamwarden.checkpoint.sink import ManifestEntry, newest_entry, read_sink_manifest
from streamwarden.checkpoint.uris import local_path, to_path
from streamwarden.errors import VerificationError
from streamwarden.sinks.output import Manifest


def read_manifest(fs: FileSystem, root: str, committed: int | None, first: int) -> Manifest | None:
    """The manifest of the output folder `root`; None if it has none.

    A batch needs one entry that can be read, its own or a later compact one. An empty entry is a gap: Spark writes at
    least the version line.

    Args:
        committed: newest committed batch: each batch from `first` to it needs an entry.

    Raises VerificationError for an entry that cannot be understood, OSError if the storage does not answer.
    """
    newest = newest_entry(fs, root)
    upto = max((batch for batch in (committed, newest) if batch is not None), default=-1)
    found = read_sink_manifest(fs, root, upto)
    if found is None:
        if not _is_folder(fs, join(root, SINK_LOG)):
            return None
        return Manifest(newest=None, files=(), gaps=tuple(range(first, upto + 1)))
    garbled = [reason for name, reason in found.damaged if name not in found.without_version]
    if garbled:
        raise _not_understood(root, garbled[0])
    files = _added(fs, root, found.entries)
    empty = {int(name.partition(".")[0]) for name in found.without_version}
    return Manifest(
        newest=newest,
        files=files,
        gaps=tuple(batch for batch in sorted({*found.missing, *empty}) if batch >= first),
        missing=tuple(file for file in files if not _is_file(fs, file)),
    )


def _added(fs: FileSystem, root: str, entries: Iterable[ManifestEntry]) -> tuple[str, ...]:
    """Files that were added and not deleted. The same file named twice is read twice: that is what a reader sees."""
    files: list[str] = []
    for line in (line for entry in entries for line in entry.lines):
        try:
            status = parse_object(line)
            file, action = _place(fs, status["path"]), status["action"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _not_understood(root, repr(line)) from error
        if action == "add":
            files.append(file)
        elif action == "delete":
            files = [each for each in files if each != file]
        else:
            raise VerificationError(
                f"an entry of the manifest has the action {action!r}",
                expected="add or delete",
                where=join(root, SINK_LOG),
                next_step="read this output with the Spark version that wrote it",
            )
    return tuple(files)


def _place(fs: FileSystem, uri: str) -> str:
    """A file that the manifest names. Raises ValueError if it is on another file system than its manifest."""
    return str(local_path(uri)) if isinstance(fs, LocalFiles) else to_path(uri)


def _is_file(fs: FileSystem, path: str) -> bool:
    try:
        return not fs.stat(path).is_dir
    except (FileNotFoundError, NotADirectoryError):
        return False


def _is_folder(fs: FileSystem, path: str) -> bool:
    try:
        fs.names(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _not_understood(root: str, what: str) -> VerificationError:
    return VerificationError(
        f"an entry of the manifest reads {what}",
        expected="a JSON object with path and action",
        where=join(root, SINK_LOG),
        next_step="restore the manifest; Spark cannot read this output either",
    )
