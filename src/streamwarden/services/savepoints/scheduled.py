"""Takes the savepoint that a stream's schedule asks for, and then deletes those that are beyond `savepoints.keep`.

The new one comes first: if it cannot be taken, nothing is deleted. It was inspected, and each of its files was read, so
that the newest savepoint is a whole one whenever another one goes.
"""

from dataclasses import dataclass, replace

from streamwarden.adapters.storage.files import checkpoint_of
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.lifecycle.savepoints.retention import beyond
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.services.exchanges.journals import is_interrupted
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.folders import unusable
from streamwarden.services.savepoints.removing import delete
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.stream.spec import StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """What was done. `taken`: False if the newest savepoint is whole and has the newest batch already."""

    savepoint: Savepoint
    taken: bool
    removed: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        if not self.taken:
            return f"{self.savepoint.id} has the newest batch, {self.savepoint.batch}, already, and is whole"
        gone = f"; deleted: {', '.join(self.removed)}" if self.removed else ""
        return f"{self.savepoint.id} has batch {self.savepoint.batch}{gone}"


def take_scheduled(spec: StreamSpec, author: Author) -> Scheduled:
    """Take the savepoint that is due. Raises CheckpointError if it cannot be taken, or an old one not be deleted.

    A stream that stands still gets no copies of one batch, which would push out the older ones.
    """
    savepoints = Savepoints.of(spec)
    newest = next((entry.savepoint for entry in savepoints.entries() if entry.savepoint is not None), None)
    if newest is not None and _has_newest_batch(spec, newest) and not verify(savepoints, newest):
        return Scheduled(savepoint=newest, taken=False)
    savepoint = create(spec, None, replace(author, scheduled=True))
    return Scheduled(savepoint=savepoint, taken=True, removed=_remove_beyond(spec, savepoints))


def _has_newest_batch(spec: StreamSpec, savepoint: Savepoint) -> bool:
    position = log_position(checkpoint_of(spec))
    return (position.query_id, position.committed) == (savepoint.query_id, savepoint.batch)


def _remove_beyond(spec: StreamSpec, savepoints: Savepoints) -> tuple[str, ...]:
    """Delete what is beyond `keep`, except what a process reads. A restore that was interrupted may need any."""
    if is_interrupted(spec):
        return ()
    complete = [entry.savepoint for entry in savepoints.entries() if entry.savepoint is not None]
    removed = []
    for old in beyond(complete, spec.savepoints.keep):
        if _is_free(savepoints, old):
            delete(savepoints, old)
            removed.append(old)
    return tuple(removed)


def _is_free(savepoints: Savepoints, savepoint: str) -> bool:
    try:
        return not savepoints.is_used(savepoint)
    except OSError as error:
        raise unusable(savepoints.place(savepoint).path, error) from error
