"""Judges the manifest of an output folder: which files it vouches for, and which entries and files it lacks.

Unlike Spark's reader this one also checks that the manifest is complete: an entry for each batch up to the newest
commit, and each file that it names.
"""

from collections.abc import Iterator

from streamwarden.adapters.storage.files import LocalFiles
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.layout import SINK_LOG, is_file
from streamwarden.checkpoint.formats.sink import (
    SinkManifest,
    newest_entry,
    plain_entries,
    read_sink_manifest,
)
from streamwarden.errors import VerificationError
from streamwarden.sinks.output import Manifest


def read_manifest(root: Location, committed: int | None, first: int) -> Manifest | None:
    """The manifest of the output folder `root`; None if it has none.

    A batch needs one entry that can be read, its own or a later compact one. An empty entry is a gap: Spark writes at
    least the version line.

    Args:
        committed: newest committed batch: each batch from `first` to it needs an entry.

    Raises VerificationError for an entry that cannot be understood, OSError if the storage does not answer.
    """
    named, last = newest_entry(root), -1 if committed is None else committed
    manifest = read_sink_manifest(root, last if named is None else max(named, last), past_damage=True)
    if manifest is None:
        return Manifest(newest=None, files=(), gaps=tuple(range(first, last + 1))) if _has_folder(root) else None
    for problem in _not_understood(root, manifest):
        raise VerificationError(
            f"an entry of the manifest reads {problem}",
            expected="JSON objects, each with the action add or delete and the path of a file on the same storage",
            where=(root / SINK_LOG).path,
            next_step="restore the manifest, or read this output with the Spark version that wrote it",
        )
    files = tuple(file.path for file in manifest.files)
    newest = manifest.entries[-1].batch if manifest.entries else None
    last = last if newest is None else max(newest, last)
    return Manifest(
        newest=newest,
        files=files,
        gaps=tuple(batch for batch in manifest.missing if first <= batch <= last),
        missing=tuple(file for file in files if not is_file(Location(root.fs, file))),
    )


def file_batches(root: Location) -> dict[str, int]:
    """Data file -> the batch that wrote it. A compact file does not say that: a file is left out if Spark has removed
    the entry that named it first. Raises OSError if the storage does not answer."""
    return {file.path: entry.batch for entry in plain_entries(root) for file in entry.files}


def _not_understood(root: Location, manifest: SinkManifest) -> Iterator[str]:
    for name, reason in manifest.damaged:
        if (root / SINK_LOG / name).read().startswith(b"v"):  # without a version it is empty, and as good as lost
            yield f"in {name}: {reason}"
    for entry in manifest.entries:
        for line, file in zip(entry.lines, entry.files, strict=True):
            elsewhere = isinstance(root.fs, LocalFiles) and "://" in file.path
            if elsewhere or file.action not in ("add", "delete"):
                yield repr(line)


def _has_folder(root: Location) -> bool:
    try:
        (root / SINK_LOG).names()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
