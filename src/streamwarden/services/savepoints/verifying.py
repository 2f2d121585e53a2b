"""Verifies a savepoint: every file of it against its manifest."""

from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.savepoints.verification import FileFault, file_faults
from streamwarden.services.savepoints.describing import BYTES_READ, digest, sizes_of
from streamwarden.services.savepoints.folders import unusable
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.telling import Tell, silent


def verify(savepoints: Savepoints, savepoint: Savepoint, tell: Tell = silent) -> tuple[FileFault, ...]:
    """The faults; none: it is as it was saved. Reads every byte of it.

    Raises CheckpointError if it cannot be listed.
    """
    place = savepoints.place(savepoint.id)
    try:
        there = sizes_of(place)
    except OSError as error:
        raise unusable(place.path, error) from error
    done = 0

    def read(path: str) -> str:
        nonlocal done
        found = digest(place / path)
        done += there[path]
        tell(BYTES_READ, done, savepoint.bytes)
        return found

    return tuple(file_faults(savepoint.files, there, read))


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
