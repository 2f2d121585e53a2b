"""Assignments of a value to a key that were asked for."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from streamwarden.lifecycle.time_travel.bounds import bounded_entry
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state import assigning
from streamwarden.services.state.assigning import Setting, SettingResult, ValueChange
from streamwarden.services.state.requested.changes import ChangeRequest, Requests
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRequest(ChangeRequest):
    """An assignment that was asked for."""

    wanted: Setting
    planned: ValueChange | None = None


class Assignments(Requests[AssignmentRequest, ValueChange, SettingResult]):
    """The assignments that were asked for of one stream or query."""

    __slots__ = ()

    folder: ClassVar = "assignments"
    kind: ClassVar = AssignmentRequest
    noun: ClassVar = "an assignment of a value"
    nothing: ClassVar = "no value was set in the state"

    def planned(self, spec: StreamSpec, wanted: Setting) -> ValueChange:
        """The values of the change are cut: they are for a person."""
        change = assigning.plan(spec, wanted)
        found = change.assigned
        before = found.before and bounded_entry(found.before, found.fields)
        after = bounded_entry(found.after, found.fields)
        return replace(change, assigned=replace(found, before=before, after=after))

    def made(self, store: "Store", spec: StreamSpec, wanted: Setting, author: Author) -> SettingResult:
        return assigning.assign(store, spec, wanted, author)
