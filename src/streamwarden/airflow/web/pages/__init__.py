"""The pages: fleet, stream, drills, incidents, and the files that they load."""

from fastapi import APIRouter

from streamwarden.airflow.web.pages import assets, drill_run, drills, fleet, incidents, stream

router = APIRouter(include_in_schema=False)
for page in (assets, fleet, stream, incidents, drills, drill_run):  # `/drills/matrix` is no run
    router.include_router(page.router)
