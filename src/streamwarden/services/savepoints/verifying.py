"""Verifies a savepoint: every file of it against its manifest."""

from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.savepoints.verification import FileFault, file_faults
from streamwarden.services.savepoints.describing import digest, sizes_of
from streamwarden.services.savepoints.folders import unusable
from streamwarden.services.savepoints.library import Library


def verify(library: Library, savepoint: Savepoint) -> tuple[FileFault, ...]:
    """The faults; none: it is as it was saved. Reads every byte of it.

    Raises CheckpointError if it cannot be listed.
    """
    place = library.place(savepoint.id)
    try:
        there = sizes_of(place)
    except OSError as error:
        raise unusable(place.path, error) from error
    return tuple(file_faults(savepoint.files, there, lambda path: digest(place / path)))
