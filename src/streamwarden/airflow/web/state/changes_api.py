"""`/api/v1` of changes to a stream's state: what an operation would do.

A change itself is a run of its DAG, for which programs ask Airflow's own API.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query
from fastapi.responses import JSONResponse
from pydantic import Field

from streamwarden.airflow.dags.state.compacting import Compaction
from streamwarden.airflow.dags.state.operations import Asked, Operation
from streamwarden.airflow.dags.state.repartitioning import Repartition
from streamwarden.airflow.dags.state.rewinding import Rewind
from streamwarden.airflow.web.access import QueryName, StreamDep, declared
from streamwarden.airflow.web.api.operations import answer, api_router
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.state.api import NoAnswer
from streamwarden.errors import CheckpointError, StreamwardenError
from streamwarden.lifecycle.queries import owner
from streamwarden.redaction import redacted_text
from streamwarden.services.overview.models import Model, Text
from streamwarden.services.state.private_documents import refusal
from streamwarden.services.workspace import Workspace
from streamwarden.stream.spec import StreamSpec

router = api_router("state")

Planned = Literal["rewind_stream", "repartition_stream", "compact_state"]
_QUICK: Final[Mapping[str, Operation]] = {found.dag_id: found for found in (Rewind(), Repartition(), Compaction())}
"""Operations whose check reads a few small files alone. That of an upgrade runs forks, those of a deletion and an
assignment start Spark, and that of a restore reads all of the savepoint."""


class Plan(Model):
    """What a run of the DAG would do now, as its request for an approval says it; or why it would be refused."""

    subject: Text = ""
    """the question to the person who approves; empty if it would be refused"""
    said: dict[str, Text] = Field(default_factory=dict)
    """heading -> sentences"""
    refusal: NoAnswer | None = None


@router.get("/streams/{stream}/plans/{dag_id}", operation_id="plan_change", response_model=Plan)
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
