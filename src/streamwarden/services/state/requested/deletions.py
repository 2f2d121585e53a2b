"""Deletions of keys that were asked for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state import deleting
from streamwarden.services.state.deleting import Counted, Deleted, Deletion
from streamwarden.services.state.requested.changes import ChangeRequest, Requests
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest(ChangeRequest):
    """A deletion that was asked for."""

    wanted: Deletion
    planned: Counted | None = None


class Deletions(Requests[DeletionRequest, Counted, Deleted]):
    """The deletions that were asked for of one stream or query."""

    __slots__ = ()

    folder: ClassVar = "deletions"
    kind: ClassVar = DeletionRequest
    noun: ClassVar = "a deletion of keys"
    nothing: ClassVar = "no key was deleted from the state"

    def planned(self, spec: StreamSpec, wanted: Deletion) -> Counted:
        return deleting.count(spec, wanted)

    def made(self, store: "Store", spec: StreamSpec, wanted: Deletion, author: Author) -> Deleted:
        return deleting.delete(store, spec, wanted, author)
