"""Compares the times of input files with those at which a query read them. See `checkpoint.changed_input`."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final

from streamwarden.adapters.storage.files import LocalFiles, open_path
from streamwarden.checkpoint.changed_input import ChangedFile, changed_files, describe_changed
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.sources import files_read
from streamwarden.checkpoint.formats.uris import to_path
from streamwarden.errors import VerificationError

_STORE_MS: Final = 1000
"""An object store knows the time of a file to the second, or to the millisecond, depending on how it is asked."""


def changed_since_read(
    checkpoint: Location, sources: Iterable[int], connection: str | None, batches: Collection[int]
) -> list[ChangedFile]:
    """The files that these batches read from the file sources at these places, and that have another time now. A file
    that is gone, or cannot be asked for its time, is left out: who reads it again reports it.

    Raises CheckpointError if a source's log is damaged.
    """
    changed: list[ChangedFile] = []
    for place in sources:
        read = {batch: files for batch, files in files_read(checkpoint, place).items() if batch in batches}
        paths = {to_path(file.path) for files in read.values() for file in files}
        modified = {path: time for path in paths if (time := _modified_ms(path, connection)) is not None}
        stored = any("://" in path for path in paths)
        changed += changed_files(read, modified, within=_STORE_MS if stored else 0)
    return changed


def input_changed(changed: Sequence[ChangedFile]) -> VerificationError:
    """Input is no longer what the run read: whatever differs, the run may be right."""
    return VerificationError(
        describe_changed(changed),
        expected="input files that nobody replaces or appends to once a query has read them",
        where=changed[0].path.rpartition("/")[0],
        next_step="find out what writes to these files; let it publish each file once, under its own name, by a rename",
    )


def _modified_ms(path: str, connection: str | None) -> int | None:
    """Unix milliseconds, cut off as Java cuts them off."""
    with suppress(OSError):
        place = open_path(path, connection)
        if isinstance(place.fs, LocalFiles):
            return place.fs.modified_ns(place.path) // 1_000_000
        modified = place.stat().modified
        return None if modified is None else round(modified * 1000)
    return None
