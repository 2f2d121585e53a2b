"""The pages of all drills: running, overdue, the history, the resilience matrix, two runs side by side."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from streamwarden.airflow.web import readable_drills
from streamwarden.airflow.web.access import DrillName, QueryName, RunIdQuery, readable_run
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.reporting.comparison import compare
from streamwarden.drills.reporting.listing import PAGE, DrillVerdict, RunFilter
from streamwarden.drills.reporting.resilience import cells, faults_of
from streamwarden.errors import DrillError

router = APIRouter()

CHOICE: Final = 200
"""Newest runs that can be picked for a comparison."""
TREND: Final = 12
"""Newest runs whose recoveries the matrix draws."""


@router.get("/drills")
def drills(
    request: Request,
    user: GetUserDep,
    space: SpaceDep,
    stream: QueryName = None,
    drill: DrillName = None,
    verdict: DrillVerdict | None = None,
    offset: Annotated[int, Query(ge=0, le=10**6)] = 0,
    part: str = "",
) -> Response:
    """The page, or one part of it to refresh it."""
    now = time.time()
    if part == "running":
        return page(request, "drills_running.html", now=now, running=readable_drills.running(space, user, now))
    pairs = readable_drills.drilled(space, user)
    selected = {name for name, _ in pairs if drill in (None, name)}
    chosen = RunFilter(drills=selected, stream=stream, verdict=verdict, offset=offset)
    runs, total = space.store.journals.listed(chosen)
    history: dict[str, Any] = {
        "now": now,
        "chosen": chosen,
        "drill": drill,
        "runs": runs,
        "found": total,
        "turn": lambda pages: _query(stream, drill, verdict, max(0, offset + pages * PAGE)),
        "ever": bool(pairs),
    }
    if part == "history":
        return page(request, "drills_history.html", **history)
    configured = readable_drills.configured(space, user, now)
    return page(
        request,
        "drills.html",
        running=readable_drills.running(space, user, now),
        configured=configured,
        overdue=[row for row in configured if row.due is not None],
        streams=sorted({drilled for _, drilled in pairs} | {row.spec.stream for row in configured}),
        names=sorted({name for name, _ in pairs} | {row.spec.name for row in configured}),
        verdicts=list(DrillVerdict),
        **history,
    )


def _query(stream: str | None, drill: str | None, verdict: DrillVerdict | None, offset: int) -> str:
    values = {"stream": stream, "drill": drill, "verdict": verdict, "offset": offset}
    return urlencode({key: value for key, value in values.items() if value})


@router.get("/drills/matrix")
def matrix(request: Request, user: GetUserDep) -> Response:
    """A line for each stream, a column for each fault."""
    at, rows = readable_drills.resilience_for(user)
    return page(
        request,
        "drills_matrix.html",
        now=at,
        faults=faults_of(rows),
        streams=list(dict.fromkeys(row.stream for row in rows)),
        cells={(cell.stream, cell.fault): cell for cell in cells(rows)},
        trend=_trend,
    )


def _trend(recoveries: tuple[float, ...]) -> list[tuple[float, float]]:
    """The newest recoveries, oldest first, evenly apart."""
    return [(float(number), seconds) for number, seconds in enumerate(reversed(recoveries[:TREND]))]


@router.get("/drills/compare")
def side_by_side(
    request: Request, user: GetUserDep, space: SpaceDep, a: RunIdQuery = None, b: RunIdQuery = None
) -> Response:
    """Two runs side by side, or a choice of runs."""
    first, second = (None if run_id is None else readable_run(run_id, user, space) for run_id in (a, b))
    readable = {name for name, _ in readable_drills.drilled(space, user)}
    choice, _ = space.store.journals.listed(RunFilter(drills=readable, limit=CHOICE))
    return page(
        request,
        "drills_compare.html",
        first=first,
        second=second,
        choice=_with(choice, first, second),
        **_compared(first, second),
    )


def _with(choice: Sequence[DrillRun], *chosen: DrillRun | None) -> list[DrillRun]:
    """The runs that can be picked, with those that were picked, also if they are older."""
    listed = {run.run_id for run in choice}
    return [*choice, *(run for run in chosen if run is not None and run.run_id not in listed)]


def _compared(first: DrillRun | None, second: DrillRun | None) -> dict[str, Any]:
    if first is None or second is None:
        return {"found": None, "problem": ""}
    try:
        return {"found": compare(first, second), "problem": ""}
    except DrillError as error:
        return {"found": None, "problem": str(error)}
