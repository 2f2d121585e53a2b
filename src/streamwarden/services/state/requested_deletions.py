"""Deletions of keys that somebody asked for on a stream's page, and that a run of a DAG carries out.

The document has the keys until they are deleted. Then it is removed: what stays is the digest in the stream's history.
Whatever an error says may name a key, so it is kept in the document alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeVar

from streamwarden.errors import CheckpointError, LeaseHeld, StoreError, StreamwardenError
from streamwarden.lifecycle.time_travel.answers import Refused
from streamwarden.services.exchanges.journals import interrupted, require_same
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state import deleting
from streamwarden.services.state.deleting import Counted, Deleted, Deletion
from streamwarden.services.state.private_documents import Documents, new_id, refusal
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionRequest:
    """A deletion that was asked for.

    Args:
        by: who asked.
        asked_at: Unix seconds.
        counted: what it would delete; None: it is not counted yet, or completes an interrupted one.
        refusal: why it was not carried out.
    """

    id: str
    stream: str
    by: str
    asked_at: float
    wanted: Deletion
    counted: Counted | None = None
    refusal: Refused | None = None


class Deletions(Documents[DeletionRequest]):
    """The deletions that were asked for of one stream or query. A person has a day to approve one."""

    __slots__ = ()

    folder: ClassVar = "deletions"
    keep: ClassVar = 26 * 3600.0
    most: ClassVar = 10
    kind: ClassVar = DeletionRequest

    def ask(self, by: str, wanted: Deletion, now: float) -> DeletionRequest:
        """Keep a request for the DAG. Raises OSError."""
        return self.add(DeletionRequest(id=new_id(now), stream=self.stream, by=by, asked_at=now, wanted=wanted))


def count(spec: StreamSpec, deletions: Deletions, request_id: str) -> Counted | None:
    """Count the keys, and what is kept of them; None: a deletion of the same keys was interrupted, and is completed.

    Raises CheckpointError, which names no key. If the keys cannot be counted, the document says why.
    """
    request, begun = _found(deletions, request_id), interrupted(spec)
    require_same(begun, request.wanted.subject(spec.name))
    found = None
    if begun is None:
        found = _in_private(spec, deletions, request, lambda wanted: deleting.count(spec, wanted))
    deletions.put(replace(request, counted=found, refusal=None))
    return found


def carry_out(store: "Store", spec: StreamSpec, deletions: Deletions, request_id: str, author: Author) -> Deleted:
    """Delete the keys from the state of a stopped stream, and forget which ones they were.

    Raises:
        CheckpointError: it was refused, or is not complete; see `count`.
        LeaseHeld: the stream runs.
        StoreError: the store is down.
    """
    request = _found(deletions, request_id)
    done = _in_private(spec, deletions, request, lambda wanted: deleting.delete(store, spec, wanted, author))
    deletions.forget(request_id)
    return done


def _found(deletions: Deletions, request_id: str) -> DeletionRequest:
    request = deletions.get(request_id)
    if request is None:
        raise CheckpointError(
            f"{deletions.stream} has no request {request_id} to delete keys, or its time is over",
            expected="a request that the stream's page or the API took less than a day ago",
            where=deletions.stream,
            next_step="ask again on the stream's page",
        )
    return request


def _in_private(
    spec: StreamSpec, deletions: Deletions, request: DeletionRequest, act: Callable[[Deletion], _Done]
) -> _Done:
    """Act. An error that may name a key is kept in the document, and is not the context of the one that is raised."""
    try:
        return act(request.wanted)
    except (StoreError, LeaseHeld):  # about the store and the stream; another try may succeed
        raise
    except StreamwardenError as error:
        why = refusal(error)
    except Exception as error:  # a key may be anywhere in it
        why = Refused(observed=repr(error), expected="no error", where=spec.name, next_step="report this", usage=False)
    deletions.put(replace(request, refusal=why))
    raise _refused(spec)


def _refused(spec: StreamSpec) -> CheckpointError:
    begun = interrupted(spec) is not None
    return CheckpointError(
        f"a deletion of keys of {spec.name} is not complete" if begun else f"no key of {spec.name} was deleted",
        expected="keys that its state has, in a state that can be rewritten",
        where=spec.name,
        next_step="the tab State of the stream's page says why"
        + ("; run the DAG again with the same request" if begun else ""),
    )
