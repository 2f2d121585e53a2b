"""The read-only pages that the plugin adds to Airflow's API server.

Airflow mounts a plugin's app outside its own authentication, so every route here carries the check itself: a user who
may read the DAG runs of a stream or a drill may read its status and its report. Names from the URL are validated.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import lru_cache
from html import escape
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, HTTPException, Path
from fastapi.responses import HTMLResponse, JSONResponse

from streamwarden.airflow.pages import drill_page
from streamwarden.drills.journal import DrillRun
from streamwarden.drills.report import build_report, document
from streamwarden.drills.runs import RUN_ID
from streamwarden.errors import StreamwardenError
from streamwarden.health.consequences import grouped
from streamwarden.health.current import current_health
from streamwarden.health.evaluations import last_round
from streamwarden.lifecycle.queries import Part, StreamPart, owner, stream_parts
from streamwarden.redaction import redacted, redacted_text
from streamwarden.services.workspace import Workspace

RunId = Annotated[str, Path(pattern=f"^{RUN_ID.pattern}$")]

_HEADERS = {
    # The page shows text from jobs and input data: no script may run in it, and nothing is loaded from elsewhere.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@lru_cache(maxsize=1)
def _workspace() -> Workspace:
    from streamwarden.airflow.projects import plugin_project

    return Workspace.open(project=plugin_project())


def space() -> Workspace:
    """The workspace of this server. Raises StreamwardenError if there is none."""
    return _workspace()


SpaceDep = Annotated[Workspace, Depends(space)]


def may_read(dag_id: str, user: Any) -> bool:
    """Whether `user` may read the runs of this DAG."""
    team = DagModel.get_team_name(dag_id) if conf.getboolean("core", "multi_team") else None
    return bool(
        get_auth_manager().is_authorized_dag(
            method="GET", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id, team_name=team), user=user
        )
    )


def drill_run(run_id: RunId, user: GetUserDep, space: SpaceDep) -> DrillRun:
    """The run, for a user who may read its drill's DAG; 404 in every other case, so that ids cannot be probed."""
    run = space.store.journals.get(run_id)
    if run is None or not may_read(f"drill_{run.drill}", user):
        raise HTTPException(404, "no such drill run")
    return run


DrillRunDep = Annotated[DrillRun, Depends(drill_run)]


def build_app() -> FastAPI:
    """The app, without the documentation pages that FastAPI would serve without authentication."""
    app = FastAPI(title="Streamwarden", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/api/streams")
    def streams(user: GetUserDep, space: SpaceDep) -> JSONResponse:
        """Status of every stream that the user may see."""
        shown = [_status(space, name) for name in _names(space) if may_read(f"stream_{name}", user)]
        return _answer({**_last_round(space, user), "streams": shown})

    @app.get("/api/drills/{run_id}")
    def journal(run: DrillRunDep, space: SpaceDep) -> JSONResponse:
        """The journal of a drill run."""
        return _answer(document(run, space.store.journals.entries(run.run_id)))

    @app.get("/drills/{run_id}")
    def page(run: DrillRunDep, space: SpaceDep) -> HTMLResponse:
        """The report of a drill run as a page."""
        report = build_report(run, space.store.journals.entries(run.run_id))
        return HTMLResponse(drill_page(report), headers=_HEADERS)

    @app.exception_handler(StreamwardenError)
    def unavailable(_: Any, error: Exception) -> JSONResponse:
        return _answer({"detail": escape(redacted_text(str(error)), quote=False)}, 503)

    @app.exception_handler(HTTPException)
    def refused(_: Any, error: Exception) -> JSONResponse:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = str(error.detail) if isinstance(error, HTTPException) else "error"
        return _answer({"detail": escape(detail, quote=False)}, status)

    return app


def _answer(content: Any, status: int = 200) -> JSONResponse:
    """JSON without secrets: an earlier version may have stored some."""
    return JSONResponse(redacted(content), status_code=status, headers=_HEADERS)


def _last_round(space: Workspace, user: Any) -> dict[str, Any]:
    """When the streams were judged last, for a user who may read the runs of the health DAG."""
    if not may_read("health", user):
        return {}
    return {"last_evaluation": asdict(last_round(space.store.evaluations.all(), time.time()))}


def _names(space: Workspace) -> list[str]:
    catalog = space.catalog()
    return sorted({*catalog.streams, *catalog.broken})


def _status(space: Workspace, name: str) -> dict[str, Any]:
    store = space.store
    driver, state = store.drivers.latest(name), store.stops.desired(name)
    spec = space.catalog().streams.get(name)
    parts = stream_parts(spec, store.queries.of(name), time.time()) if spec is not None else ()
    queries = [part for part in parts if part.part is Part.QUERY]
    return {
        "stream": name,
        "desired": str(state.desired) if state else "running",
        "driver": None
        if driver is None
        else {
            "driver_id": driver.driver_id,
            "launched_at": driver.launched_at,
            "exit": None if driver.exit is None else {"kind": str(driver.exit.kind), "message": driver.exit.message},
        },
        **_judged(space, name),
        "queries": [{"query": part.spec.name, **_run(part), **_judged(space, part.spec.name)} for part in queries],
    }


def _judged(space: Workspace, name: str) -> dict[str, Any]:
    """The result of the last evaluation of a stream, or of one of its queries."""
    stopped = owner(name) in space.store.stops.wanted_stopped()
    last = current_health(space.store.verdicts.latest(name), time.time(), stopped=stopped)
    return {
        "health": str(last.status),
        "judged_at": last.judged_at,
        "stale": last.stale,
        "checks": {verdict.check: str(verdict.status) for verdict in last.verdicts},
        "incidents": [
            {
                "check": group.root.check,
                "status": str(group.status),
                "reason": group.root.reason,
                "consequences": [each.check for each in group.consequences],
            }
            for group in grouped(space.store.incidents.alarming())
            if group.root.stream == name and group.root.is_root
        ],
    }


def _run(part: StreamPart) -> dict[str, Any]:
    """A query's newest run; empty before its first."""
    query = part.query
    if query is None:
        return {}
    return {"started_at": query.started_at, "ended_at": query.ended_at, "error": query.error}
