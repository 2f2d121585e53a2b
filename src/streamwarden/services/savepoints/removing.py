"""Deletes savepoints, and what interrupted processes left of them."""

from streamwarden.errors import CheckpointError
from streamwarden.services.savepoints.describing import sizes_of
from streamwarden.services.savepoints.folders import remove, unusable
from streamwarden.services.savepoints.saved import Condition, Savepoints


def delete(savepoints: Savepoints, savepoint: str) -> None:
    """Remove a savepoint, whole or not. Raises as `require_free`."""
    require_free(savepoints, savepoint)
    place = savepoints.place(savepoint)
    try:
        if not remove(place):
            raise savepoints.unknown(savepoint)
    except OSError as error:
        raise unusable(place.path, error) from error


def require_free(savepoints: Savepoints, savepoint: str) -> dict[str, int]:
    """The files of a savepoint that may be removed, with their sizes.

    Raises CheckpointError if there is none, a living process works on it or reads it, or the storage refuses.
    """
    place = savepoints.place(savepoint)
    try:
        if savepoints.is_worked_on(savepoint):
            raise _busy(savepoints, savepoint, "created or deleted")
        if savepoints.is_used(savepoint):
            raise _busy(savepoints, savepoint, "forked or restored")
        return sizes_of(place)
    except FileNotFoundError:
        raise savepoints.unknown(savepoint) from None
    except OSError as error:
        raise unusable(place.path, error) from error


def _busy(savepoints: Savepoints, savepoint: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"the savepoint {savepoint} of {savepoints.stream} is being {what}",
        expected="a savepoint that no process works on or reads",
        where=savepoints.place(savepoint).path,
        next_step="wait until that process has ended",
    )


def remove_abandoned(savepoints: Savepoints) -> list[str]:
    """Remove the folders of interrupted processes; returns their names. Raises OSError, CheckpointError."""
    gone = [entry.id for entry in savepoints.entries() if entry.condition is Condition.INCOMPLETE]
    for name in gone:
        remove(savepoints.place(name))
    return gone
