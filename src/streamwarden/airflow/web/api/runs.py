"""`/api/v1` for what people do with streams and drills: start, stop, restart, audit, drill.

Each is a run of the DAG that the button on the page runs, with the same rights.
"""

from typing import Annotated, Final

from fastapi import Depends, HTTPException
from fastapi.responses import JSONResponse
from pydantic import Field, StringConstraints

from streamwarden.airflow.links import drill_run_id
from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.access import StreamDep
from streamwarden.airflow.web.api.airflow_runs import AirflowRunsDep, StartedRun
from streamwarden.airflow.web.api.handling import Reason, from_here
from streamwarden.airflow.web.api.operations import answer, api_router
from streamwarden.config.loading import DRILLS, STREAMS
from streamwarden.drills.spec import DRILL_NAME
from streamwarden.health.check_relations import DRILL
from streamwarden.services.overview.models import Model

router = api_router("streams", from_here)
of_drills = api_router("drills", from_here)

ACCEPTED: Final = 202
_UNREAD: Final = "wait until Airflow has read the DAG's file, and see its import errors"


class Reasoned(Model):
    """Why it is done: it is recorded."""

    reason: Reason


class StartRequest(Reasoned):
    """A start of a stream that was stopped or left down."""

    begin_anew: Annotated[str | None, Field(max_length=500)] = None
    """only after a refused start: why the stream may begin with its checkpoint as it is, although that contradicts the
    store or the output"""


class DrillRequest(Model):
    """The drill to run."""

    drill: Annotated[str, StringConstraints(pattern=f"^{DRILL_NAME.pattern}$")]


def present_stream(stream: StreamDep) -> str:
    """The stream of the URL, for a user who may read it. Raises HTTPException with 404 if there is none."""
    if not readable_fleet.rows_of(stream)[1]:
        raise HTTPException(404, f"there is no stream {stream}")
    return stream


PresentStreamDep = Annotated[str, Depends(present_stream)]


@router.post("/streams/{stream}/start", operation_id="start_stream", response_model=StartedRun, status_code=ACCEPTED)
async def start(stream: PresentStreamDep, said: StartRequest, airflow: AirflowRunsDep) -> JSONResponse:
    """Let a stream run that was stopped or left down: a run of the DAG `start_stream`. Needs the right to trigger
    it."""
    conf = {"stream": stream, **said.model_dump(exclude_none=True)}
    return answer(await airflow.start("start_stream", conf, if_missing=_UNREAD), ACCEPTED)


@router.post("/streams/{stream}/stop", operation_id="stop_stream", response_model=StartedRun, status_code=ACCEPTED)
async def stop(stream: PresentStreamDep, said: Reasoned, airflow: AirflowRunsDep) -> JSONResponse:
    """Stop a stream at a batch boundary and keep it stopped: a run of the DAG `stop_stream`. Needs the right to trigger
    it."""
    conf = {"stream": stream, "reason": said.reason}
    return answer(await airflow.start("stop_stream", conf, if_missing=_UNREAD), ACCEPTED)


@router.post(
    "/streams/{stream}/restart", operation_id="restart_stream", response_model=StartedRun, status_code=ACCEPTED
)
async def restart(stream: PresentStreamDep, said: Reasoned, airflow: AirflowRunsDep) -> JSONResponse:
    """Stop a stream at a batch boundary and start it again at once: a run of the DAG `restart_stream`. Needs the right
    to trigger it."""
    conf = {"stream": stream, "reason": said.reason}
    return answer(await airflow.start("restart_stream", conf, if_missing=_UNREAD), ACCEPTED)


@router.post("/streams/{stream}/audit", operation_id="audit_stream", response_model=StartedRun, status_code=ACCEPTED)
async def audit(stream: PresentStreamDep, airflow: AirflowRunsDep) -> JSONResponse:
    """Balance the books of a stream now: a run of the DAG `audit_STREAM`. Needs the right to trigger it."""
    missing = f"add `audit.schedule` to {STREAMS}/{stream}.yaml, or {_UNREAD}"
    return answer(await airflow.start(f"audit_{stream}", {}, if_missing=missing), ACCEPTED)


@of_drills.post("/drills", operation_id="start_drill", response_model=StartedRun, status_code=ACCEPTED)
async def drill(wanted: DrillRequest, airflow: AirflowRunsDep) -> JSONResponse:
    """Run a drill: a run of the DAG `drill_NAME`. Needs the right to trigger it."""
    missing = f"name a drill of {DRILLS}, or {_UNREAD}"
    run = await airflow.start(f"{DRILL}{wanted.drill}", {}, if_missing=missing)
    return answer(run.model_copy(update={"drill_run_id": drill_run_id(wanted.drill, run.dag_run_id)}), ACCEPTED)
