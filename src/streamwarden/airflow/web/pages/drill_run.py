"""The page of one run of a drill: the verdict, the course, the evidence; and the states of a run without a verdict."""

import time
from collections.abc import Sequence
from typing import Any

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Request
from fastapi.responses import Response

from streamwarden.airflow.web.access import RunDep, allowed
from streamwarden.airflow.web.rendering import page
from streamwarden.airflow.web.shared_workspace import SpaceDep, catalogs
from streamwarden.drills.records.journal import DrillRun, JournalEntry
from streamwarden.drills.reporting.listing import RunFilter
from streamwarden.drills.reporting.report import build_report
from streamwarden.drills.reporting.stages import stages
from streamwarden.drills.reporting.timeline import Moment
from streamwarden.drills.state import RunState
from streamwarden.errors import DrillError
from streamwarden.health.check_relations import DRILL
from streamwarden.services.incidents.drill_incidents import longest_run
from streamwarden.services.workspace import Workspace

router = APIRouter()


@router.get("/drills/{run_id}")
def run(request: Request, run: RunDep, user: GetUserDep, space: SpaceDep, part: str = "") -> Response:
    """The page, or the report alone to refresh it during the run."""
    entries, problems = _entries(space, run)
    shown = {"run": run, "entries": entries, **_readable(run, entries, problems, time.time())}
    if part == "report":
        return page(request, "drill_report.html", **shown)
    configured = run.drill in catalogs().newest(space).drills
    may_run = configured and allowed(f"{DRILL}{run.drill}", user, "POST")
    return page(request, "drill.html", before=_before(space, run), configured=configured, may_run=may_run, **shown)


def _entries(space: Workspace, run: DrillRun) -> tuple[Sequence[JournalEntry], list[str]]:
    try:
        return space.store.journals.entries(run.run_id), []
    except DrillError as error:
        return (), [str(error)]


def _readable(run: DrillRun, entries: Sequence[JournalEntry], problems: list[str], now: float) -> dict[str, Any]:
    """The run's facts as read at `now`. Another version may have written them in a form that this one cannot read."""
    lasted = (now if run.ended_at is None else run.ended_at) - run.started_at
    try:
        state, report = RunState.of(run), build_report(run, entries)
    except DrillError as error:
        state, report, problems = None, None, [*problems, str(error)]
    return {
        "state": state,
        "report": report,
        "course": stages([*report.timeline, *_so_far(run, now)]) if report else (),
        "late": state is not None and run.ended_at is None and lasted > longest_run(state.drill),
        "problems": problems,
        "lasted": lasted,
    }


def _so_far(run: DrillRun, now: float) -> list[Moment]:
    """The end of the line during the run."""
    return [] if run.ended_at is not None else [Moment(now, "The drill is still running.", label="now")]


def _before(space: Workspace, run: DrillRun) -> DrillRun | None:
    runs, _ = space.store.journals.listed(RunFilter(drills=[run.drill], before=run.started_at, limit=1))
    return next(iter(runs), None)
