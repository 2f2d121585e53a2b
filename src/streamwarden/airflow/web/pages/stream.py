"""The page of one stream: a route for each of its tabs, and the end of a driver's log."""

from collections.abc import Callable
from typing import Annotated, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web import readable_fleet, stream_details
from streamwarden.airflow.web.access import DriverId, LoggedStreamDep, StreamDep, allowed
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.tabs import TABS
from streamwarden.airflow.web.tabs.head import head
from streamwarden.airflow.web.tabs.tab import Asked, Of, Opened, Tab
from streamwarden.health.check_relations import DRILL
from streamwarden.lifecycle.queries import identity
from streamwarden.services.workspace import Workspace

router = APIRouter()

HEAD: Final = "head"
"""The part that every tab has."""


def _shown(tab: Tab) -> Callable[..., Response]:
    def show(
        request: Request, stream: StreamDep, user: GetUserDep, space: SpaceDep, asked: Annotated[Asked, Query()]
    ) -> Response:
        """The tab, or one part of it to refresh it."""
        opened = _opened(space, user, stream, asked)
        part = asked.part if asked.part in (HEAD, *tab.parts) else ""
        return page(
            request,
            "stream_head.html" if part == HEAD else tab.parts.get(part, tab.page),
            charts=tab.draws and not part,
            tab=tab,
            tabs=TABS,
            per_query=tab.of is Of.QUERY,
            whole=tab.of is Of.STREAM,
            stream=stream,
            query=asked.query,
            asked=asked,
            row=opened.row,
            queries=[row for row in opened.rows if row.is_query],
            now=opened.at,
            head=head(space, user, opened.row, opened.rows),
            changes=opened.changes,
            **({} if part == HEAD else tab.read(opened, part)),
        )

    return show


for tab in TABS:
    path = f"/streams/{{stream}}/{tab.name}".rstrip("/")
    router.add_api_route(path, _shown(tab), methods=["GET"], name=f"stream_{tab.name}", response_class=Response)


def _opened(space: Workspace, user: object, stream: str, asked: Asked) -> Opened:
    """Raises HTTPException with 404 if there is no such stream or query."""
    at, rows = readable_fleet.rows_of(stream)
    name = identity(stream, asked.query or "")
    row = next((candidate for candidate in rows if candidate.stream == name), None)
    if row is None:
        raise HTTPException(404, f"there is no stream {name}")
    changes = allowed(row.dag_id, user, "PUT")
    return Opened(space=space, user=user, stream=stream, row=row, rows=rows, at=at, changes=changes, asked=asked)


@router.get("/streams/{stream}/drivers/{driver_id}/log")
def log(request: Request, stream: LoggedStreamDep, driver_id: DriverId, space: SpaceDep) -> Response:
    """The end of a driver's log: read when a person opens it."""
    end = stream_details.end_of(space, stream, driver_id)
    return page(request, "stream_log.html", lines=end.lines, folder=end.folder, problem=end.problem)


@router.get("/dags/{dag_id}")
def of_dag(dag_id: str, request: Request, user: GetUserDep) -> Response:
    """The page that belongs to a DAG: Airflow shows it as a tab of each."""
    prefix = request.scope["root_path"]
    if dag_id.startswith(PREFIX):
        return RedirectResponse(f"{prefix}/streams/{dag_id.removeprefix(PREFIX)}")
    if dag_id.startswith(DRILL):
        return RedirectResponse(f"{prefix}/drills?drill={dag_id.removeprefix(DRILL)}")
    return RedirectResponse(f"{prefix}/")
