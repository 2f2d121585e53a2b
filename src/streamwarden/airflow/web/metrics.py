"""`/metrics`: the streams as Prometheus reads them, for a logged-in user or the holder of the scrape token."""

import hmac
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import Response
from fastapi.security import HTTPAuthorizationCredentials

from streamwarden.airflow.web import readable_fleet
from streamwarden.airflow.web.rendering import HEADERS
from streamwarden.airflow.web.row_cache import board
from streamwarden.errors import ConfigError, StreamwardenError
from streamwarden.services.exporting.openmetrics import Scrape, exposition

router = APIRouter(include_in_schema=False)

TOKEN: Final = "STREAMWARDEN_METRICS_TOKEN"  # noqa: S105 - the name of a variable
"""Variable with the scrape token, whose holder reads the metrics of every stream; unset: only users do."""

TOKEN_FILE: Final = f"{TOKEN}_FILE"
"""Variable with the path of a file that holds the token, read at each scrape, so that a new token needs no restart."""

EVERYONE: Final = object()
"""In place of a user: the holder of the scrape token."""

_LOG_IN: Final = f"log in to Airflow, or send the token that the API server has as {TOKEN}: `Authorization: Bearer …`"


def scrape_token(environ: Mapping[str, str]) -> str | None:
    """The token that is configured. Raises ConfigError if its file cannot be read."""
    file = environ.get(TOKEN_FILE)
    if environ.get(TOKEN) or not file:
        return environ.get(TOKEN) or None
    try:
        return Path(file).read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the file of the scrape token cannot be read: {type(error).__name__}",
            expected="a readable text file that holds the token",
            where=TOKEN_FILE,
            next_step="create it where the API server runs, or correct the variable",
        ) from error


async def scraper(
    request: Request, bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)]
) -> Any:
    """The logged-in user, or `EVERYONE` for the scrape token. Raises HTTPException 401 for anybody else."""
    token = scrape_token(os.environ)
    if bearer is not None and token and hmac.compare_digest(bearer.credentials.encode(), token.encode()):
        return EVERYONE
    try:
        return await get_user(request, None, bearer)
    except HTTPException as error:
        raise HTTPException(401, _LOG_IN) from error


@router.get("/metrics")
def metrics(request: Request, who: Annotated[Any, Depends(scraper)]) -> Response:
    """The streams that the scraper may read. If they cannot be read, the answer says so in a metric of its own."""
    text, content_type = exposition(_scrape(who, time.time()), request.headers.get("accept", ""))
    return Response(text, media_type=None, headers={**HEADERS, "Content-Type": content_type})


def _scrape(who: Any, now: float) -> Scrape:
    try:
        snapshot = board().snapshot() if who is EVERYONE else readable_fleet.snapshot_for(who)
    except StreamwardenError:
        return Scrape(now=now)
    return Scrape(now=now, rows=snapshot.rows, read_at=snapshot.at, judged_at=snapshot.last.at)
