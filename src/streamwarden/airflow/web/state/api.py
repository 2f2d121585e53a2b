"""`/api/v1` of savepoints and state. Times are Unix seconds, sizes bytes; a manifest has those of its own schema.

The contents of a state are data: only who may change the runs of the stream's DAG may ask for a look at them, or read
one. `streamwarden savepoint show --json` and `streamwarden state show --json` say the same.
"""

import time
from typing import Annotated, Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException, Path
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field, StringConstraints

from streamwarden.airflow.web.access import ChangedStreamDep, QueryName, StreamDep, declared
from streamwarden.airflow.web.api.handling import from_here, who
from streamwarden.airflow.web.api.operations import answer, answers, api_router
from streamwarden.airflow.web.api.refusals import Refused
from streamwarden.airflow.web.rendering import HEADERS
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.state import details
from streamwarden.errors import CheckpointError, ConfigError
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.time_travel import answers as seen
from streamwarden.lifecycle.time_travel.tables import StateTable
from streamwarden.redaction import redacted
from streamwarden.services.overview.models import Model, Text, derived
from streamwarden.services.savepoints.documents import document
from streamwarden.services.savepoints.saved import Condition, Entry, Savepoints
from streamwarden.services.state.looks import Looks, Seen, Wanted
from streamwarden.services.state.private_documents import ID

router = api_router("state")

SavepointId = Annotated[str, Path(pattern="^[0-9]{8}T[0-9]{6}Z$")]
LookId = Annotated[str, Path(pattern=f"^{ID.pattern}$")]
Batch = Annotated[int | None, Field(ge=0, le=2**62)]
Key = tuple[str | None, ...]
TableName = Annotated[str, StringConstraints(pattern=r"^([0-9]{1,6}(/.{1,200})?)?$")]
OneKey = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class SavepointRow(Model):
    """A folder of a savepoint. What its manifest says is None unless it is complete."""

    id: str
    condition: Condition
    problem: Text
    """why its manifest cannot be read"""
    batch: int | None = None
    taken_at: float | None = None
    files: int | None = None
    bytes: int | None = None
    by: Text | None = None
    reason: Text | None = None
    scheduled: bool | None = None
    """whether the stream's schedule took it"""


class SavepointList(Model):
    """The savepoints of a stream or a query, newest first; `problem`: why they cannot be read."""

    savepoints: tuple[SavepointRow, ...]
    problem: Text


@derived(StateTable)
class Table(Model):
    """What can be looked at by itself."""


class State(Model):
    """What the checkpoint can still show; `problem`: why it cannot be read."""

    first_batch: int | None
    """the oldest batch after which the state can be shown; None: there is none"""
    last_batch: int | None
    batches: int
    """how many can be shown; fewer than from the first to the last if some are missing"""
    tables: tuple[Table, ...]
    problem: Text


def lines(value: Any) -> Any:
    """A form sends the keys as one text."""
    return [line.strip() for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


def named(table: str) -> tuple[int | None, str | None]:
    """Operator and variable of a table."""
    operator, _, variable = table.partition("/")
    return int(operator) if operator else None, variable or None


class LookRequest(Model):
    """What to look at; the default is the whole state after the newest batch."""

    query: Annotated[str, StringConstraints(max_length=200)] = ""
    """one query of several; empty: the stream's only one"""
    table: TableName = ""
    """number of the operator, and behind a slash a variable: `0`, `1/left`; empty: the only table"""
    keys: Annotated[tuple[OneKey, ...], Field(max_length=20), BeforeValidator(lines)] = ()
    """each as FIELD=VALUE, or VALUE if the key has one field; empty: all keys. A text has one a line"""
    batch: Batch = None
    """the state after it; default: the newest that is kept"""
    since: Batch = None
    """an earlier batch, to which the state is compared"""
    history: bool = False
    """the keys after each of the newest batches"""

    def wanted(self) -> Wanted:
        """Raises ConfigError if the parts do not fit together."""
        operator, variable = named(self.table)
        return Wanted(
            operator=operator,
            variable=variable,
            keys=self.keys,
            batch=self.batch,
            since=self.since,
            history=self.history,
        )


@derived(Wanted)
class Question(Model):
    """What was asked."""


@derived(seen.Entry)
class StateEntry(Model):
    """A row of state."""


@derived(seen.Share)
class Share(Model):
    """Rows of a partition or a key."""


@derived(seen.Shown)
class Shown(Model):
    """The state after one batch."""

    entries: tuple[StateEntry, ...]
    partitions: tuple[Share, ...]
    largest: tuple[Share, ...]


@derived(seen.Moment)
class Moment(Model):
    """Rows of the keys after one batch."""

    entries: tuple[StateEntry, ...]


@derived(seen.History)
class History(Model):
    """The keys after each batch."""

    moments: tuple[Moment, ...]


@derived(seen.Change)
class Change(Model):
    """A key in the state of two batches."""


@derived(seen.Difference)
class Difference(Model):
    """The difference between the states of two batches."""

    growth: tuple[Change, ...]
    sample: tuple[Change, ...]


@derived(seen.Refused, without={"usage"})
class NoAnswer(Model):
    """Why there is no answer."""


@derived(Seen)
class StateLook(Model):
    """A look at state. It is kept for an hour."""

    wanted: Question
    table: Table | None
    shown: Shown | None
    history: History | None
    difference: Difference | None
    refusal: NoAnswer | None


@router.get("/streams/{stream}/savepoints", operation_id="list_savepoints", response_model=SavepointList)
def savepoints(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The savepoints of a stream, or of one of its queries. Their folder is read now."""
    found = details.savepoints(space, stream, query)
    return answer(SavepointList(savepoints=tuple(map(_row, found.entries)), problem=found.problem))


def _row(entry: Entry) -> SavepointRow:
    saved = entry.savepoint
    row = SavepointRow(id=entry.id, condition=entry.condition, problem=str(entry.problem or ""))
    if saved is None:
        return row
    found = {name: getattr(saved, name) for name in ("batch", "bytes", "by", "reason", "scheduled")}
    return row.model_copy(update={**found, "taken_at": saved.taken_at.timestamp(), "files": len(saved.files)})


@router.get("/streams/{stream}/savepoints/{savepoint}", operation_id="get_savepoint", response_model=Savepoint)
def manifest(stream: StreamDep, savepoint: SavepointId, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The manifest of a savepoint, as `streamwarden savepoint show --json` prints it: without secrets."""
    try:
        found = Savepoints.of(declared(space, stream, query)).get(savepoint)
    except CheckpointError as error:
        raise HTTPException(404, error.observed) from error
    return JSONResponse(redacted(document(found)), headers=HEADERS)


@router.get("/streams/{stream}/state", operation_id="get_state", response_model=State)
def state(stream: StreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The batches whose state can be shown, and the tables of the state. The checkpoint is read now."""
    found = details.state(space, stream, query)
    batches = found.kept.batches
    return answer(
        State(
            first_batch=batches[0] if batches else None,
            last_batch=batches[-1] if batches else None,
            batches=len(batches),
            tables=tuple(map(Table.model_validate, found.kept.tables)),
            problem=found.problem,
        )
    )


@router.get("/streams/{stream}/looks", operation_id="list_looks", response_model=list[StateLook])
def looks(stream: ChangedStreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The looks at the state that are kept, newest first. Needs the right to change the runs of the stream's DAG."""
    return answers(map(StateLook.model_validate, details.documents(Looks, space, stream, query).newest()))


@router.get("/streams/{stream}/looks/{look_id}", operation_id="get_look", response_model=StateLook)
def look(stream: ChangedStreamDep, look_id: LookId, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """A look at the state. Needs the right to change the runs of the stream's DAG."""
    found = details.documents(Looks, space, stream, query).get(look_id)
    if found is None:
        raise HTTPException(404, "there is no such look, or its time is over: ask again")
    return answer(StateLook.model_validate(found))


@router.post(
    "/streams/{stream}/looks", operation_id="ask_for_look", response_model=StateLook, dependencies=[Depends(from_here)]
)
def asking(stream: ChangedStreamDep, asked: LookRequest, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Ask for a look at the state. Then run the DAG `look_at_state` with `stream`, `query` and the `id` as `look`: it
    reads the state, and its answer is here. So Airflow keeps no key and no value with the run."""
    kept = details.documents(Looks, space, stream, asked.query or None)
    try:
        return answer(StateLook.model_validate(kept.ask(who(user), asked.wanted(), time.time())))
    except ConfigError as error:
        raise Refused(422, error) from error
