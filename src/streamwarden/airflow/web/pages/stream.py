"""The page of one stream: is it alive, is it right, will it hold; then what happened and what to do."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from streamwarden.adapters.airflow_server import PREFIX
from streamwarden.airflow.web import readable_drills, readable_fleet, stream_details
from streamwarden.airflow.web.access import DriverId, LoggedStreamDep, QueryName, StreamDep, allowed
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.airflow.web.stream_head import head
from streamwarden.drills.records.sections import DOCUMENTED_CHECKS
from streamwarden.health.check_relations import DRILL
from streamwarden.health.incidents.consequences import folded, grouped
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.queries import identity, owner
from streamwarden.services.analysis.history import history
from streamwarden.services.incidents.handling import handling
from streamwarden.services.overview.anatomy import facts
from streamwarden.services.overview.rows import StreamRow
from streamwarden.services.overview.standing import told_by
from streamwarden.services.workspace import Workspace

router = APIRouter()

RANGES: Final = {"15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "90d": 7776000}
"""Name -> seconds of the ranges that can be chosen."""
EVENTS: Final = 50
"""Newest events that are shown."""
PAST: Final = 20
"""Newest incidents and drills that are shown."""

Range = Annotated[str, Query(pattern="^(" + "|".join(RANGES) + ")$")]


@router.get("/streams/{stream}")
def stream(
    request: Request,
    stream: StreamDep,
    user: GetUserDep,
    space: SpaceDep,
    query: QueryName = None,
    range: Range = "1h",
    part: str = "",
) -> Response:
    """The page, or one part of it to refresh it."""
    at, rows = readable_fleet.rows_of(stream)
    name = identity(stream, query or "")
    row = next((candidate for candidate in rows if candidate.stream == name), None)
    if row is None:
        raise HTTPException(404, f"there is no stream {name}")
    return page(
        request,
        _PARTS.get(part, "stream.html"),
        charts=not part,
        now=at,
        row=row,
        head=head(space, user, row, rows),
        stream=stream,
        queries=[other for other in rows if other.is_query],
        query=query,
        range=range,
        ranges=RANGES,
        documented=DOCUMENTED_CHECKS,
        alarms=_alarms(row),
        told=told_by(row.state),
        advised=_advised(space, row.stream),
        drills=() if part else readable_drills.configured(space, user, at, stream),
        changes=allowed(row.dag_id, user, "PUT"),
        declaration=stream_details.declaration(space, stream),
        **_of_part(space, row, rows, part),
    )


_PARTS: Final = {"head": "stream_head.html", "live": "stream_live.html", "happened": "stream_happened.html"}


def _of_part(space: Workspace, row: StreamRow, rows: Sequence[StreamRow], part: str) -> dict[str, Any]:
    """Content of the page from the store, beyond the row.

    Args:
        rows: of the stream and its queries: the stream's page has the incidents of all of them.
    """
    if part in ("head", "live"):
        return {}
    stream = owner(row.stream)
    events = history(space.store, stream, time.time() - RANGES["7d"])
    concerned = [row.stream] if row.is_query else [other.stream for other in rows]
    incidents = space.store.incidents.recent_of(concerned, PAST)
    drivers, ui = stream_details.drivers(space, stream, time.time() - RANGES["7d"])
    return {
        "events": events[-EVENTS:][::-1],
        "incidents": grouped(incidents),
        "handling": handling(space.store, time.time(), since=0.0),
        "runs": space.store.journals.recent(stream=stream, limit=PAST),
        "drivers": drivers[:PAST],
        "ui": ui,
    }


def _alarms(row: StreamRow) -> dict[str, tuple[str, ...]]:
    """The alarming checks that are causes, the worst first, each with its consequences: one box for each cause. What
    follows from a dead driver stands below the state, which says why it died."""
    if not row.shows_health:
        return {}
    metrics = sorted(row.metrics.values(), key=lambda metric: -metric.status.rank)
    return folded((*told_by(row.state), *(metric.check for metric in metrics if metric.status.alarms)))


def _advised(space: Workspace, stream: str) -> dict[str, Incident]:
    """The open incidents of settings that cost too much, by the health check that judges the same."""
    incidents = space.store.incidents.open(stream)
    return {str(found.evidence.get("cures")): found for found in incidents if found.status is Status.ADVICE}


@router.get("/streams/{stream}/advice")
def advice(request: Request, stream: StreamDep, space: SpaceDep, query: QueryName = None) -> Response:
    """The findings of the linter, and advice from the stream's history: read when a person opens it."""
    details = stream_details.advice(space, stream, query)
    return page(
        request,
        "stream_advice.html",
        findings=details.findings,
        pieces=details.recommendations,
        problems=details.problems,
    )


@router.get("/streams/{stream}/checkpoint")
def checkpoint(request: Request, stream: StreamDep, space: SpaceDep, query: QueryName = None) -> Response:
    """Report of `inspect` on the checkpoint: read when a person opens it."""
    report, problem = stream_details.checkpoint(space, stream, query)
    return page(
        request,
        "stream_checkpoint.html",
        found=report,
        facts=facts(report, time.time()) if report else (),
        problem=problem,
    )


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
