"""An operation of which Airflow gets the id of a request alone: the request has the key, and a value.

Name them on the tab *State* of the stream's page, or in a request to the API.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from airflow.sdk import Param

from streamwarden.airflow.dags.controls import REASON
from streamwarden.airflow.dags.state.operations import STOP_FIRST, Asked, Checked, Done, Operation
from streamwarden.services.workspace import Workspace

if TYPE_CHECKING:
    from streamwarden.services.state.requested.changes import Requests

_Planned = TypeVar("_Planned")
_Done = TypeVar("_Done")


class PrivateOperation(Operation, Generic[_Planned, _Done]):
    """One such operation. The field with the id is called as the operation."""

    contents: ClassVar[str]
    """What the request has."""

    @abstractmethod
    def requests(self, space: Workspace, stream: str) -> "Requests[Any, _Planned, _Done]":
        """The requests of a stream or query."""

    @abstractmethod
    def asks(self, planned: _Planned | None) -> tuple[str, Mapping[str, str]]:
        """The question to a person without the stream, and what the request for an approval says; neither names a key
        or a value. None: an interrupted operation is completed."""

    @abstractmethod
    def said(self, asked: Asked, done: _Done) -> Done:
        """What was done."""

    def fields(self) -> dict[str, Param]:
        shown = f"The id of a request that the stream's page or the API took: it has {self.contents}"
        request = Param(type="string", title="Request", description=shown, pattern="^[0-9]{8}T[0-9]{12}Z-[0-9a-f]{8}$")
        return {self.name: request, "reason": REASON, "stop_first": STOP_FIRST}

    def check(self, asked: Asked) -> Checked:
        from streamwarden.services.state.requested.changes import plan

        name, requests = asked.spec.name, self._requests(asked.space, asked.params)
        question, said = self.asks(plan(asked.spec, requests, asked.params[self.name]))
        hidden = (
            f"the tab State of {name} shows {self.contents} to those who may change the stream. This request does not "
            "name them, and they are forgotten afterwards."
        )
        return Checked(subject=f"{question} the state of the stream {name}?", said={**said, "Not shown here": hidden})

    def carry_out(self, asked: Asked, details: Mapping[str, Any]) -> Done:
        from streamwarden.services.savepoints.describing import Author
        from streamwarden.services.state.requested.changes import carry_out

        author, requests = Author(by=asked.by, reason=asked.params["reason"]), self._requests(asked.space, asked.params)
        return self.said(asked, carry_out(asked.space.store, asked.spec, requests, asked.params[self.name], author))

    def was_done(self, asked: Asked, since: float) -> bool:
        done = super().was_done(asked, since)
        if done:
            self.given_up(asked.space, asked.params)
        return done

    def given_up(self, space: Workspace, params: Mapping[str, Any]) -> None:
        self._requests(space, params).forget(params[self.name])

    def _requests(self, space: Workspace, params: Mapping[str, Any]) -> "Requests[Any, _Planned, _Done]":
        return self.requests(space, params["stream"])
