"""`/api/v1` of what is asked of a state without Airflow learning it: deletions of keys, and assignments of values.

A program asks here, and then runs the DAG with the id of the answer.
"""

import time
from typing import Annotated, Any, Self, TypeVar

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import Depends, HTTPException
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from streamwarden.airflow.web.access import ChangedStreamDep, QueryName
from streamwarden.airflow.web.api.handling import from_here, who
from streamwarden.airflow.web.api.operations import answer, answers, api_router
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.state import details
from streamwarden.airflow.web.state.api import Key, LookId, NoAnswer, OneKey, StateEntry, Table, TableName, lines, named
from streamwarden.lifecycle.surgery.assignment import Assigned, Assignment
from streamwarden.lifecycle.surgery.rewriting import Found, Keys, Part
from streamwarden.services.overview.models import Model, derived
from streamwarden.services.state.assigning import Setting, ValueChange
from streamwarden.services.state.deleting import Counted, Deletion
from streamwarden.services.state.requested.assignments import AssignmentRequest, Assignments
from streamwarden.services.state.requested.deletions import DeletionRequest, Deletions

router = api_router("state")

_Request = TypeVar("_Request")

OneValue = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class DeletionOf(Model):
    """The keys that are to be deleted: by their fields, or by a condition."""

    query: Annotated[str, StringConstraints(max_length=200)] = ""
    """one query of several; empty: the stream's only one"""
    operator: Annotated[int | None, Field(ge=0, le=10**6)] = None
    """number of the operator; needed if several keep state"""
    keys: Annotated[tuple[OneKey, ...], Field(max_length=20), BeforeValidator(lines)] = ()
    """fields of the key, each as FIELD=VALUE, or VALUE if the key has one field. A text has one a line"""
    where: Annotated[str | None, StringConstraints(min_length=1, max_length=2000)] = None
    """in place of the fields: a condition of Spark's SQL over `key.FIELD`"""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.keys) == (self.where is not None):
            raise ValueError("expected either a key or a condition, and not both")
        return self

    def deletion(self) -> Deletion:
        return Deletion(keys=Keys(fields=self.keys, where=self.where), operator=self.operator)


@derived(Keys)
class NamedKeys(Model):
    """The keys that were named."""


@derived(Deletion)
class WantedDeletion(Model):
    """What was asked for."""

    keys: NamedKeys


@derived(Part)
class PartOfState(Model):
    """What one part of the state keeps of the keys."""


@derived(Found)
class FoundKeys(Model):
    """The keys that the state has."""

    parts: tuple[PartOfState, ...]
    sample: tuple[Key, ...]


@derived(Counted)
class CountedKeys(Model):
    """What would be deleted."""

    operator: Table
    found: FoundKeys


@derived(DeletionRequest)
class AskedDeletion(Model):
    """A deletion that was asked for. It is removed when it was carried out or nobody approved it, and after a day."""

    wanted: WantedDeletion
    planned: CountedKeys | None
    refusal: NoAnswer | None


def one_or_lines(value: Any) -> Any:
    """A form sends a value as one text: a JSON object, or a field a line."""
    is_object = isinstance(value, str) and value.lstrip().startswith("{")
    return [value.strip()] if is_object else lines(value)


class AssignmentOf(Model):
    """A key, and its new value."""

    query: Annotated[str, StringConstraints(max_length=200)] = ""
    """one query of several; empty: the stream's only one"""
    table: TableName = ""
    """number of the operator, and behind a slash a variable: `0`, `0/count`; empty: the only table"""
    keys: Annotated[tuple[OneKey, ...], Field(min_length=1, max_length=20), BeforeValidator(lines)]
    """each field of the key as FIELD=VALUE, or VALUE if the key has one field. A text has one a line"""
    value: Annotated[tuple[OneValue, ...], Field(min_length=1, max_length=100), BeforeValidator(one_or_lines)]
    """a JSON object with every field, or each field as FIELD=VALUE, or VALUE if the value has one field. A text is the
    object, or has one field a line"""

    def setting(self) -> Setting:
        operator, variable = named(self.table)
        return Setting(assignment=Assignment(keys=self.keys, value=self.value), operator=operator, variable=variable)


@derived(Assignment)
class NamedValue(Model):
    """The key and the value that were named."""


@derived(Setting)
class WantedAssignment(Model):
    """What was asked for."""

    assignment: NamedValue


@derived(Assigned, without={"written"})
class KeyValues(Model):
    """The value before and after."""

    before: StateEntry | None
    after: StateEntry


@derived(ValueChange)
class PlannedValue(Model):
    """What would be set."""

    table: Table
    assigned: KeyValues


@derived(AssignmentRequest)
class AskedAssignment(Model):
    """An assignment that was asked for. It is removed when it was carried out or not approved, and after a day."""

    wanted: WantedAssignment
    planned: PlannedValue | None
    refusal: NoAnswer | None


@router.get("/streams/{stream}/deletions", operation_id="list_deletions", response_model=list[AskedDeletion])
def deletions(stream: ChangedStreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The deletions that wait, newest first. Needs the right to change the runs of the stream's DAG."""
    kept = details.documents(Deletions, space, stream, query)
    return answers(map(AskedDeletion.model_validate, kept.newest()))


@router.get("/streams/{stream}/deletions/{request_id}", operation_id="get_deletion", response_model=AskedDeletion)
def deletion(stream: ChangedStreamDep, request_id: LookId, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """A deletion that waits. Needs the right to change the runs of the stream's DAG."""
    kept = details.documents(Deletions, space, stream, query)
    return answer(AskedDeletion.model_validate(_there(kept.get(request_id))))


@router.post(
    "/streams/{stream}/deletions",
    operation_id="ask_for_deletion",
    response_model=AskedDeletion,
    dependencies=[Depends(from_here)],
)
def asking(stream: ChangedStreamDep, asked: DeletionOf, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Ask for a deletion. Then run the DAG `delete_keys` with `stream`, `reason` and the `id` as `deletion`. It counts
    the keys, waits for an approval, and deletes them. So Airflow keeps no key."""
    kept = details.documents(Deletions, space, stream, asked.query or None)
    return answer(AskedDeletion.model_validate(kept.ask(who(user), asked.deletion(), time.time())))


@router.get("/streams/{stream}/assignments", operation_id="list_assignments", response_model=list[AskedAssignment])
def assignments(stream: ChangedStreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The assignments that wait, newest first. Needs the right to change the runs of the stream's DAG."""
    kept = details.documents(Assignments, space, stream, query)
    return answers(map(AskedAssignment.model_validate, kept.newest()))


@router.get("/streams/{stream}/assignments/{request_id}", operation_id="get_assignment", response_model=AskedAssignment)
def assignment(stream: ChangedStreamDep, request_id: LookId, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """An assignment that waits. Needs the right to change the runs of the stream's DAG."""
    kept = details.documents(Assignments, space, stream, query)
    return answer(AskedAssignment.model_validate(_there(kept.get(request_id))))


@router.post(
    "/streams/{stream}/assignments",
    operation_id="ask_for_assignment",
    response_model=AskedAssignment,
    dependencies=[Depends(from_here)],
)
def assigning(stream: ChangedStreamDep, asked: AssignmentOf, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Ask for another value of a key. Then run the DAG `set_value` with `stream`, `reason` and the `id` as
    `assignment`. It reads the present value, waits for an approval, and sets the new one. So Airflow keeps neither."""
    kept = details.documents(Assignments, space, stream, asked.query or None)
    return answer(AskedAssignment.model_validate(kept.ask(who(user), asked.setting(), time.time())))


def _there(found: _Request | None) -> _Request:
    if found is None:
        raise HTTPException(404, "there is no such request: it was carried out or given up, or its time is over")
    return found
