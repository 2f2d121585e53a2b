"""Deletes savepoints, and what interrupted processes left of them."""

from streamwarden.errors import CheckpointError
from streamwarden.services.savepoints.folders import remove, unusable
from streamwarden.services.savepoints.saved import Condition, Savepoints


def delete(savepoints: Savepoints, savepoint: str) -> None:
    """Remove a savepoint, whole or not.

    Raises CheckpointError if there is none, a living process works on it or reads it, or the storage refuses.
    """
    place = savepoints.place(savepoint)
    try:
        if savepoints.is_worked_on(savepoint):
            raise CheckpointError(
                f"the savepoint {savepoint} of {savepoints.stream} is being created or deleted",
                expected="a savepoint that no process works on",
                where=place.path,
                next_step="wait until that process has ended",
            )
        if savepoints.is_used(savepoint):
            raise CheckpointError(
                f"the savepoint {savepoint} of {savepoints.stream} is being forked or restored",
                expected="a savepoint that no process reads",
                where=place.path,
                next_step="wait until that process has ended",
            )
        if not remove(place):
            raise savepoints.unknown(savepoint)
    except OSError as error:
        raise unusable(place.path, error) from error


def remove_abandoned(savepoints: Savepoints) -> list[str]:
    """Remove the folders of interrupted processes; returns their names. Raises OSError, CheckpointError."""
    gone = [entry.id for entry in savepoints.entries() if entry.condition is Condition.INCOMPLETE]
    for name in gone:
        remove(savepoints.place(name))
    return gone
