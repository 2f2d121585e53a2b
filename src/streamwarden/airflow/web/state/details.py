"""Savepoints and state of one stream: the page and the API both ask here. Nothing here starts Spark: a look at state is
asked for, and a run of the DAG `look_at_state` answers it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from streamwarden.airflow.web.access import declared
from streamwarden.errors import StreamwardenError
from streamwarden.services.savepoints.saved import Entry, Savepoints
from streamwarden.services.state.gathering import Kept, kept
from streamwarden.services.state.private_documents import Documents
from streamwarden.services.workspace import Workspace

LOOK: Final = "look_at_state"
"""Id of the DAG that answers looks."""

_Of = TypeVar("_Of")
_Documents = TypeVar("_Documents", bound=Documents[Any])


@dataclass(frozen=True, slots=True)
class SeenSavepoints:
    """The folders of savepoints, newest first, and why they cannot be read."""

    entries: Sequence[Entry]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SeenState:
    """What the checkpoint can still show, and why it cannot be read."""

    kept: Kept
    problem: str = ""


def savepoints(space: Workspace, stream: str, query: str | None) -> SeenSavepoints:
    """The savepoints of a stream or a query. Raises HTTPException with 404 if there is no such stream or query."""
    spec = declared(space, stream, query)
    nothing: tuple[Entry, ...] = ()
    found, problem = _read(lambda: tuple(Savepoints.of(spec).entries()), nothing)
    return SeenSavepoints(found, problem)


def state(space: Workspace, stream: str, query: str | None) -> SeenState:
    """Batches and tables of the state. Raises HTTPException with 404 if there is no such stream or query."""
    spec = declared(space, stream, query)
    found, problem = _read(lambda: kept(spec), Kept(batches=(), tables=()))
    return SeenState(found, problem)


def _read(ask: Callable[[], _Of], nothing: _Of) -> tuple[_Of, str]:
    try:
        return ask(), ""
    except StreamwardenError as error:
        return nothing, str(error)


def documents(kind: type[_Documents], space: Workspace, stream: str, query: str | None) -> _Documents:
    """What was asked of the state of a stream or a query; 404 if there is no such stream or query."""
    return kind(space.data, declared(space, stream, query).name)
