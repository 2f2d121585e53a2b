"""The pages: fleet, stream, drills, incidents, and the files that they load."""

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

from streamwarden.airflow.web.pages import drill_run, drills, fleet, incidents, stream
from streamwarden.airflow.web.rendering import ASSETS, fingerprint

router = APIRouter(include_in_schema=False)
for page in (
    fleet,
    stream,
    incidents,
    drills,
    drill_run,
):  # drill_run last: it takes any name for a run
    router.include_router(page.router)

_FOR_A_YEAR = "private, max-age=31536000, immutable"


@router.get("/static/{version}/{name}")
def asset(version: str, name: str, user: GetUserDep) -> Response:
    """One of `ASSETS`, by its name: no path is ever made of the address."""
    if name not in ASSETS or version != fingerprint():
        raise HTTPException(404, "there is no such file")
    path, media = ASSETS[name]
    headers = {"Cache-Control": _FOR_A_YEAR, "X-Content-Type-Options": "nosniff"}
    return Response(path.read_bytes(), media_type=media, headers=headers)
