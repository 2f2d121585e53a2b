"""`/api/v1` of changes to a stream's state: what an operation would do, and the keys of a deletion.

A change itself is a run of its DAG, for which programs ask Airflow's own API.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, HTTPException, Query
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from streamwarden.airflow.dags.state.compacting import Compaction
from streamwarden.airflow.dags.state.operations import Asked, Operation
from streamwarden.airflow.dags.state.repartitioning import Repartition
from streamwarden.airflow.dags.state.rewinding import Rewind
from streamwarden.airflow.web.access import ChangedStreamDep, QueryName, StreamDep, declared
from streamwarden.airflow.web.actions import from_here, who
from streamwarden.airflow.web.api import answer, answers
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.state import details
from streamwarden.airflow.web.state.api import Key, LookId, NoAnswer, OneKey, Table, lines
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.queries import owner
from streamwarden.lifecycle.surgery.rewriting import Found, Keys, Part
from streamwarden.redaction import redacted_text
from streamwarden.services.overview.models import Model, Text, derived
from streamwarden.services.state.deleting import Counted, Deletion
from streamwarden.services.state.private_documents import refusal
from streamwarden.services.state.requested_deletions import DeletionRequest
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

router = APIRouter(prefix="/api/v1")

Planned = Literal["rewind_stream", "repartition_stream", "compact_state"]
_QUICK: Final[Mapping[str, Operation]] = {found.dag_id: found for found in (Rewind(), Repartition(), Compaction())}
"""Operations whose check reads a few small files alone. That of an upgrade runs forks, that of a deletion starts Spark,
and that of a restore reads all of the savepoint."""


class Plan(Model):
    """What a run of the DAG would do now, as its request for an approval says it; or why it would be refused."""

    subject: Text = ""
    """the question to the person who approves; empty if it would be refused"""
    said: dict[str, Text] = Field(default_factory=dict)
    """heading -> sentences"""
    refusal: NoAnswer | None = None


@router.get("/streams/{stream}/plans/{dag_id}", response_model=Plan)
def plan(
    stream: StreamDep,
    dag_id: Planned,
    space: SpaceDep,
    query: QueryName = None,
    batch: Annotated[int | None, Query(ge=0, le=2**62)] = None,
    time: datetime | None = None,
    partitions: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> JSONResponse:
    """What a rewind, a repartition or a compaction would do, as `--dry-run` says it. Nothing is changed. `batch` or
    `time`: of a rewind; `partitions`: of a repartition."""
    spec = declared(space, stream, query)
    if spec.connections:
        unknown = (
            "the stream has connections of Airflow, which only a run reads. Its first task says what would be done."
        )
        return answer(Plan(subject=f"What would {dag_id} do?", said={"Not known here": unknown}))
    at = None if time is None else (time if time.tzinfo else time.replace(tzinfo=UTC)).isoformat()
    params = {"batch": batch, "time": at, "partitions": partitions, "stop_first": True}
    return answer(_plan(space, spec, _QUICK[dag_id], params))


def _plan(space: Workspace, spec: StreamSpec, operation: Operation, params: Mapping[str, Any]) -> Plan:
    latest = space.store.drivers.latest(owner(spec.name))
    runs = latest is not None and latest.exit is None  # its process may be on a host that this server does not see
    try:
        found = operation.checked(
            Asked(space=space, spec=spec, params=params, by="", runs=runs, tell=_no, note=_no, supervise=_no)
        )
    except (StreamwardenError, OSError, ValueError) as error:  # the last two: Spark purges a file, or it is damaged
        error = error if isinstance(error, StreamwardenError) else CheckpointError(str(error), where=spec.checkpoint)
        return Plan(refusal=NoAnswer.model_validate(refusal(error)))
    return Plan(subject=found.subject, said={name: redacted_text(text) for name, text in found.said.items()})


def _no(*_: object) -> None:
    """A check of these operations neither writes nor starts anything."""


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
    counted: CountedKeys | None
    refusal: NoAnswer | None


@router.get("/streams/{stream}/deletions", response_model=list[AskedDeletion])
def deletions(stream: ChangedStreamDep, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """The deletions that wait, newest first. Needs the right to change the runs of the stream's DAG."""
    return answers(map(AskedDeletion.model_validate, details.deletions(space, stream, query).newest()))


@router.get("/streams/{stream}/deletions/{deletion_id}", response_model=AskedDeletion)
def deletion(stream: ChangedStreamDep, deletion_id: LookId, space: SpaceDep, query: QueryName = None) -> JSONResponse:
    """A deletion that waits. Needs the right to change the runs of the stream's DAG."""
    found = details.deletions(space, stream, query).get(deletion_id)
    if found is None:
        raise HTTPException(404, "there is no such request: it was carried out or given up, or its time is over")
    return answer(AskedDeletion.model_validate(found))


@router.post("/streams/{stream}/deletions", response_model=AskedDeletion, dependencies=[Depends(from_here)])
def asking(stream: ChangedStreamDep, asked: DeletionOf, user: GetUserDep, space: SpaceDep) -> JSONResponse:
    """Ask for a deletion. Then run the DAG `delete_keys` with `stream`, `reason` and the `id` as `deletion`. It counts
    the keys, waits for an approval, and deletes them. So Airflow keeps no key."""
    kept = details.deletions(space, stream, asked.query or None)
    return answer(AskedDeletion.model_validate(kept.ask(who(user), asked.deletion(), time.time())))
