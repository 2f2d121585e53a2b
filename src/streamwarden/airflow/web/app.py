"""The app that the plugin mounts in Airflow's API server: pages, API and metrics."""

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from streamwarden.airflow.web import metrics, pages
from streamwarden.airflow.web.api import fleet, handling, index, runs, stream
from streamwarden.airflow.web.api.refusals import refusal_of
from streamwarden.airflow.web.rendering import HEADERS, page
from streamwarden.airflow.web.state import api as state_api
from streamwarden.airflow.web.state import changes_api, requests_api
from streamwarden.errors import StreamwardenError

_TITLES = {
    401: "You are not logged in",
    403: "You may not see this",
    404: "There is no such page",
    422: "This address cannot be read",
    503: "The store does not answer",
}
_DESCRIPTION = """\
The content of Streamwarden's pages, and what people do on them, for programs. Times are Unix seconds, sizes bytes,
durations seconds, unless a field says otherwise. Every operation takes `fields`; an unknown parameter is refused with
those that there are.
"""
ROUTERS = (
    index.router,
    *fleet.ROUTERS,
    stream.router,
    handling.router,
    runs.router,
    runs.of_drills,
    state_api.router,
    changes_api.router,
    requests_api.router,
)
"""Of the API."""


def build_app() -> FastAPI:
    """The app, without the documentation pages that FastAPI would serve without authentication: those of the API are
    `/api/v1/docs` and `/api/v1/openapi.json`, for users who are logged in."""
    app = FastAPI(
        title="Streamwarden", version="1", description=_DESCRIPTION, docs_url=None, redoc_url=None, openapi_url=None
    )
    for router in (*ROUTERS, index.documents, metrics.router, pages.router):
        app.include_router(router)
    for kind in (StreamwardenError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer)
    return app


def _answer(request: Request, error: Exception) -> Response:
    """The error as a page for a browser, as JSON for everything else."""
    refusal, status = refusal_of(error), _status(error)
    if "text/html" in request.headers.get("accept", "") and "part" not in request.query_params:
        title = _TITLES.get(status, "It failed")
        return page(request, "error.html", status=status, title=title, detail=refusal.detail)
    return JSONResponse(refusal.model_dump(), status_code=status, headers=HEADERS)


def _status(error: Exception) -> int:
    """503: the store, or another system, does not answer."""
    if isinstance(error, HTTPException):
        return error.status_code
    return 422 if isinstance(error, RequestValidationError) else 503
