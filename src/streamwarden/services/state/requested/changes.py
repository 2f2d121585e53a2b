"""Changes of a state that somebody asked for on a stream's page, and that a run of a DAG carries out.

The document has the key, and a value, until the change is made. Then it is removed: what stays is the digest in the
stream's history. Whatever an error says may name a key or a value, so it is kept in the document alone.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from streamwarden.errors import CheckpointError, LeaseHeld, StoreError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.services.exchanges.journals import interrupted, require_same
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state.private_documents import Documents, new_id, refusal
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change that was asked for. Each kind says of what type `wanted` and `planned` are.

    Args:
        by: who asked.
        asked_at: Unix seconds.
        planned: what it would change; None: that is not known yet, or it completes an interrupted one.
        refusal: why it was not carried out.
    """

    id: str
    stream: str
    by: str
    asked_at: float
    wanted: Any
    planned: Any = None
    refusal: Refused | None = None


_Request = TypeVar("_Request", bound=ChangeRequest)
_Planned = TypeVar("_Planned")
_Done = TypeVar("_Done")
_Of = TypeVar("_Of")


class Requests(Documents[_Request], Generic[_Request, _Planned, _Done]):
    """The changes of one kind that were asked for of one stream or query. A person has a day to approve one."""

    __slots__ = ()

    keep: ClassVar = 26 * 3600.0
    most: ClassVar = 10
    noun: ClassVar[str]
    """What a request is for."""
    nothing: ClassVar[str]
    """What is said of one that was refused."""

    def ask(self, by: str, wanted: Any, now: float) -> _Request:
        """Keep a request for the DAG. Raises OSError."""
        return self.add(self.kind(id=new_id(now), stream=self.stream, by=by, asked_at=now, wanted=wanted))

    @abstractmethod
    def planned(self, spec: StreamSpec, wanted: Any) -> _Planned:
        """What it would change. Raises StreamwardenError."""

    @abstractmethod
    def made(self, store: "Store", spec: StreamSpec, wanted: Any, author: Author) -> _Done:
        """Make the change. Raises StreamwardenError."""


def plan(spec: StreamSpec, requests: Requests[_Request, _Planned, _Done], request_id: str) -> _Planned | None:
    """What a request would change; None: the same change was interrupted, and is completed.

    Raises CheckpointError, which names neither a key nor a value. If nothing can be planned, the document says why.
    """
    request, begun = _found(requests, request_id), interrupted(spec)
    require_same(begun, request.wanted.subject(spec.name))
    found = None
    if begun is None:
        found = _in_private(spec, requests, request, lambda: requests.planned(spec, request.wanted))
    requests.put(replace(request, planned=found, refusal=None))
    return found


def carry_out(
    store: "Store",
    spec: StreamSpec,
    requests: Requests[_Request, _Planned, _Done],
    request_id: str,
    author: Author,
) -> _Done:
    """Change the state of a stopped stream, and forget the request.

    Raises:
        CheckpointError: it was refused, or is not complete; see `plan`.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    request = _found(requests, request_id)
    done = _in_private(spec, requests, request, lambda: requests.made(store, spec, request.wanted, author))
    requests.forget(request_id)
    return done


def _found(requests: Requests[_Request, _Planned, _Done], request_id: str) -> _Request:
    request = requests.get(request_id)
    if request is None:
        raise CheckpointError(
            f"{requests.stream} has no request {request_id} for {requests.noun}, or its time is over",
            expected="a request that the stream's page or the API took less than a day ago",
            where=requests.stream,
            next_step="ask again on the stream's page",
        )
    return request


def _in_private(
    spec: StreamSpec, requests: Requests[_Request, _Planned, _Done], request: _Request, act: Callable[[], _Of]
) -> _Of:
    """Act. An error that may name a key is kept in the document, and is not the context of the one that is raised."""
    try:
        return act()
    except (StoreError, LeaseHeld):  # about the store and the stream; another try may succeed
        raise
    except StreamwardenError as error:
        why = refusal(error)
    except Exception as error:  # a key may be anywhere in it
        why = Refused(observed=repr(error), expected="no error", where=spec.name, next_step="report this", usage=False)
    requests.put(replace(request, refusal=why))
    raise _refused(spec, requests)


def _refused(spec: StreamSpec, requests: Requests[_Request, _Planned, _Done]) -> CheckpointError:
    begun = interrupted(spec) is not None
    return CheckpointError(
        f"{requests.noun} of {spec.name} is not complete" if begun else f"{requests.nothing} of {spec.name}",
        expected="a request that fits the state, and a state that can be rewritten",
        where=spec.name,
        next_step="the tab State of the stream's page says why"
        + ("; run the DAG again with the same request" if begun else ""),
    )
