"""Runs of DAGs, asked of the Airflow that serves this request, as its user.

The request goes through Airflow's own API inside this process: Airflow checks the rights, validates the parameters and
writes its audit log, as if the user had asked for the run on its page.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx
from airflow.api_fastapi.app import cached_app
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select

from streamwarden.airflow.links import base_path
from streamwarden.airflow.web.access import require
from streamwarden.airflow.web.api.refusals import Refused
from streamwarden.errors import AirflowError
from streamwarden.services.overview.models import Model

_CREDENTIALS: Final = ("authorization", "cookie", "host")
"""Headers that Airflow's API gets: who asks, and under which name of this server."""
_BUSY: Final = 500
"""Airflow on SQLite answers so if two of its requests wait for one another's lock."""
_TRIES: Final = 3


class StartedRun(Model):
    """A run of a DAG that was asked for. It goes on by itself."""

    dag_id: str
    dag_run_id: str
    state: str
    """of the run in Airflow: queued, running, success or failed"""
    url: str
    """path of its page in Airflow"""
    follow: str
    """path in Airflow's own API that says how it goes"""
    drill_run_id: str | None = None
    """of a drill: its journal is `/api/v1/drills/` and this id, as soon as the run has begun"""


@dataclass(frozen=True, slots=True)
class AirflowRuns:
    """Asks for runs in the name of the user of `request`."""

    request: Request
    user: Any

    async def start(self, dag_id: str, conf: Mapping[str, Any], *, if_missing: str) -> StartedRun:
        """Trigger a run of the DAG. Raises HTTPException with the status and the four parts of the refusal.

        Args:
            if_missing: what to do if Airflow has no such DAG.
        """
        await run_in_threadpool(_require_ready, dag_id, self.user, if_missing)
        started: dict[str, Any] = await self._begin(f"/api/v2/dags/{quote(dag_id)}/dagRuns", dag_id, conf)
        run_id = str(started["dag_run_id"])
        path = quote(run_id, safe="")
        return StartedRun(
            dag_id=dag_id,
            dag_run_id=run_id,
            state=str(started["state"]),
            url=f"{base_path()}/dags/{quote(dag_id)}/runs/{path}",
            follow=f"{base_path()}/api/v2/dags/{quote(dag_id)}/dagRuns/{path}",
        )

    async def _begin(self, path: str, dag_id: str, conf: Mapping[str, Any]) -> Any:
        """The run as Airflow describes it. Each try asks for the same run, so that no second one begins."""
        run_id = f"manual__{datetime.now(UTC).isoformat()}_{secrets.token_hex(4)}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf)}
        async with self._airflow() as airflow:
            for attempt in range(_TRIES):
                answer = await airflow.post(path, json=body)
                if answer.status_code == httpx.codes.CONFLICT and attempt:  # the try before began it
                    answer = await airflow.get(f"{path}/{quote(run_id, safe='')}")
                if answer.status_code != _BUSY:
                    break
        if answer.is_success:
            return answer.json()
        raise _refused(dag_id, answer)

    def _airflow(self) -> httpx.AsyncClient:
        """A client of the app that this process serves, with the credentials of the request."""
        app = cached_app(apps=os.environ.get("AIRFLOW_API_APPS", "all"))  # as `airflow.api_fastapi.main` has it
        headers = {name: value for name, value in self.request.headers.items() if name in _CREDENTIALS}
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://airflow", headers=headers)


def _require_ready(dag_id: str, user: Any, if_missing: str) -> None:
    """Raises HTTPException: 403 without the right to trigger the DAG, 404 if there is none, 409 if it is paused."""
    require(dag_id, user, "POST")
    with create_session() as session:
        known = select(DagModel.is_paused).where(DagModel.dag_id == dag_id, ~DagModel.is_stale)
        paused = session.scalar(known)
    if paused is None:
        raise Refused(404, AirflowError(f"Airflow has no DAG {dag_id}", where=dag_id, next_step=if_missing))
    if paused:
        raise Refused(409, _paused(dag_id))


def _paused(dag_id: str) -> AirflowError:
    return AirflowError(
        f"the DAG {dag_id} is paused, so its run would wait and do nothing; none was made",
        expected="a DAG that is not paused",
        where=dag_id,
        next_step=f"unpause it with `airflow dags unpause {dag_id}`, with the switch on its page, or with "
        f'PATCH {base_path()}/api/v2/dags/{dag_id} and {{"is_paused": false}}; then ask again',
    )


def _refused(dag_id: str, answer: httpx.Response) -> Refused:
    """Airflow's own words; 422 for parameters that its DAG does not take."""
    try:
        said = answer.json().get("detail", "")
    except ValueError:
        said = ""
    error = AirflowError(
        f"Airflow refused the run with status {answer.status_code}: {said or answer.reason_phrase}",
        where=dag_id,
        next_step="correct the request" if answer.is_client_error else "ask again; the API server's log says more",
    )
    status = {400: 422, 422: 422}.get(answer.status_code, answer.status_code)
    return Refused(status if status < _BUSY else 503, error)


def _of_user(request: Request, user: GetUserDep) -> AirflowRuns:
    return AirflowRuns(request, user)


AirflowRunsDep = Annotated[AirflowRuns, Depends(_of_user)]
