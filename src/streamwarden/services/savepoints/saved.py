"""The savepoints of one stream: where they are, which are complete, and who is creating or deleting one.

A savepoint's folder is claimed by the process that works on it. A folder without a manifest whose process is gone is
what an interrupted `create` or `delete` left.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from streamwarden.adapters.processes import is_alive
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.filesystem import Location, join
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST, Savepoint, began_at, is_id, root_of
from streamwarden.services.savepoints.documents import read_manifest
from streamwarden.services.savepoints.folders import claim_of, unusable, uses_of
from streamwarden.stream.spec import StreamSpec

_UNSEEN: Final = 24 * 3600.0
"""Seconds after which a claim of a process on another host counts as abandoned."""
_UNCLAIMED: Final = 60.0
"""Seconds that a new folder may be without a claim: its process writes it at once."""


class Condition(StrEnum):
    """Condition of a savepoint's folder."""

    COMPLETE = "complete"
    IN_PROGRESS = "in progress"  # a process creates or deletes it
    INCOMPLETE = "incomplete"  # an interrupted process left it: it is no savepoint
    UNREADABLE = "unreadable"  # its manifest is damaged, or a newer version wrote it


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A savepoint's folder. `savepoint`: None unless it is complete; `problem`: why its manifest cannot be read."""

    id: str
    condition: Condition
    savepoint: Savepoint | None = None
    problem: CheckpointError | None = None


@dataclass(frozen=True, slots=True)
class Savepoints:
    """Args:
    stream: a stream, or STREAM/QUERY.
    root: folder or URL that holds a folder for each savepoint.
    connection: to the object store that it is in.
    """

    stream: str
    root: str
    connection: str | None

    @classmethod
    def of(cls, spec: StreamSpec) -> Self:
        """The savepoints of a stream or a query."""
        return cls(spec.name, root_of(spec), spec.storage.connection)

    def place(self, savepoint: str) -> Location:
        """The folder of a savepoint. Raises CheckpointError for a name that no savepoint has."""
        if not is_id(savepoint):
            raise self.unknown(savepoint)
        return open_path(join(self.root, savepoint), self.connection)

    def ids(self) -> list[str]:
        """Names of all folders of savepoints, newest first. Raises CheckpointError if they cannot be listed."""
        folder = open_path(self.root, self.connection)
        try:
            return sorted(filter(is_id, folder.names()), reverse=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unusable(folder.path, error) from error

    def entries(self) -> Iterator[Entry]:
        """All folders, newest first. Raises CheckpointError if they cannot be read."""
        for name in self.ids():
            try:
                yield self._entry(name)
            except FileNotFoundError:  # deleted meanwhile
                continue
            except OSError as error:
                raise unusable(self.place(name).path, error) from error

    def get(self, savepoint: str | None = None) -> Savepoint:
        """A complete savepoint; None: the newest one. Raises CheckpointError if there is none, or it is not whole."""
        found = [entry for entry in self.entries() if savepoint in (None, entry.id)]
        complete = next((entry.savepoint for entry in found if entry.savepoint is not None), None)
        if complete is not None:
            return complete
        if savepoint is None or not found:
            raise self.unknown(savepoint)
        raise found[0].problem or self._incomplete(found[0])

    def abandoned(self, savepoint: str) -> bool:
        """Whether nobody works on this folder any more. Raises OSError."""
        claim = claim_of(self.place(savepoint))
        if claim is None:
            return time.time() - began_at(savepoint) > _UNCLAIMED
        return not _is_valid(*claim)

    def is_worked_on(self, savepoint: str) -> bool:
        """Whether a living process of this host creates or deletes it. Raises OSError."""
        claim = claim_of(self.place(savepoint))
        return claim is not None and is_alive(claim[0]) is True

    def is_used(self, savepoint: str) -> bool:
        """Whether a process reads it, to fork or to restore the stream. Raises OSError."""
        return any(_is_valid(*use) for use in uses_of(self.place(savepoint)))

    def _entry(self, name: str) -> Entry:
        place = self.place(name)
        if MANIFEST in place.names():
            try:
                return Entry(id=name, condition=Condition.COMPLETE, savepoint=read_manifest(place))
            except CheckpointError as error:
                return Entry(id=name, condition=Condition.UNREADABLE, problem=error)
        gone = self.abandoned(name)
        return Entry(id=name, condition=Condition.INCOMPLETE if gone else Condition.IN_PROGRESS)

    def _incomplete(self, entry: Entry) -> CheckpointError:
        gone = entry.condition is Condition.INCOMPLETE
        return CheckpointError(
            f"the savepoint {entry.id} of {self.stream} is {entry.condition}",
            expected=f"a folder with {MANIFEST}, which is written last",
            where=self.place(entry.id).path,
            next_step=f"remove it with `streamwarden savepoint delete {self.stream} {entry.id}`"
            if gone
            else "wait until it is complete",
        )

    def unknown(self, savepoint: str | None) -> CheckpointError:
        observed = "has no savepoint" if savepoint is None else f"has no savepoint {savepoint[:80]!r}"
        return CheckpointError(
            f"{self.stream} {observed}",
            expected="a savepoint that `streamwarden savepoint list` shows",
            where=self.root,
            next_step=f"run `streamwarden savepoint {'create' if savepoint is None else 'list'} {self.stream}`",
        )


def _is_valid(process: ProcessIdentity, at: float) -> bool:
    """Whether a process that said at that time what it does may still do it."""
    alive = is_alive(process)
    return time.time() - at <= _UNSEEN if alive is None else alive
