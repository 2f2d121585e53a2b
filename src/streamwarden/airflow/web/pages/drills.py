"""The pages of drills."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from streamwarden.airflow.web.access import RunDep
from streamwarden.airflow.web.pages._old_drill import drill_page
from streamwarden.airflow.web.place import SpaceDep
from streamwarden.airflow.web.rendering import HEADERS
from streamwarden.drills.report import build_report

router = APIRouter()


@router.get("/drills/{run_id}")
def run(run: RunDep, space: SpaceDep) -> HTMLResponse:
    """The report of a drill run."""
    report = build_report(run, space.store.journals.entries(run.run_id))
    return HTMLResponse(drill_page(report), headers=HEADERS)
