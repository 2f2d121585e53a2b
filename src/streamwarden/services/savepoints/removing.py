"""Deletes savepoints, and what interrupted processes left of them."""

from streamwarden.errors import CheckpointError
from streamwarden.services.savepoints.folders import remove, unusable
from streamwarden.services.savepoints.library import Condition, Library


def delete(library: Library, savepoint: str) -> None:
    """Remove a savepoint, whole or not.

    Raises CheckpointError if there is none, a living process works on it, or the storage refuses.
    """
    place = library.place(savepoint)
    try:
        if library.is_worked_on(savepoint):
            raise CheckpointError(
                f"the savepoint {savepoint} of {library.stream} is being created or deleted",
                expected="a savepoint that no process works on",
                where=place.path,
                next_step="wait until that process has ended",
            )
        if not remove(place):
            raise library.unknown(savepoint)
    except OSError as error:
        raise unusable(place.path, error) from error


def remove_abandoned(library: Library) -> list[str]:
    """Remove the folders of interrupted processes; returns their names. Raises OSError, CheckpointError."""
    gone = [entry.id for entry in library.entries() if entry.condition is Condition.INCOMPLETE]
    for name in gone:
        remove(library.place(name))
    return gone
