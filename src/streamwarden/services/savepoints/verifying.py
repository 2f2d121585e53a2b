"""Verifies a savepoint: every file of it against its manifest."""

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.savepoints.verification import FileFault, file_faults
from streamwarden.services.savepoints.describing import digest, sizes_of
from streamwarden.services.savepoints.folders import unusable
from streamwarden.services.savepoints.saved import Savepoints


def verify(savepoints: Savepoints, savepoint: Savepoint) -> tuple[FileFault, ...]:
    """The faults; none: it is as it was saved. Reads every byte of it.

    Raises CheckpointError if it cannot be listed.
    """
    place = savepoints.place(savepoint.id)
    try:
        there = sizes_of(place)
    except OSError as error:
        raise unusable(place.path, error) from error
    return tuple(file_faults(savepoint.files, there, lambda path: digest(place / path)))


def require_whole(savepoints: Savepoints, savepoint: Savepoint) -> None:
    """Raises CheckpointError if the savepoint is not as it was saved."""
    faults = verify(savepoints, savepoint)
    if faults:
        raise CheckpointError(
            f"the savepoint {savepoint.id} is not as it was saved: {faults[0].path} is {faults[0].observed}"
            f"{f', and {len(faults) - 1} more files' if len(faults) > 1 else ''}",
            expected=faults[0].expected,
            where=savepoints.place(savepoint.id).path,
            next_step=f"run `streamwarden savepoint verify {savepoint.stream} {savepoint.id}`, which names each file; "
            "use another savepoint",
        )
