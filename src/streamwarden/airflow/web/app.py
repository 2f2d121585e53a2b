"""The app that the plugin mounts in Airflow's API server: pages, API and metrics."""

from html import escape

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from streamwarden.airflow.web import actions, api, metrics, pages, stream_api
from streamwarden.airflow.web.rendering import HEADERS, page
from streamwarden.airflow.web.state import api as state_api
from streamwarden.airflow.web.state import changes_api, requests_api
from streamwarden.errors import StreamwardenError
from streamwarden.redaction import redacted_text

_TITLES = {
    401: "You are not logged in",
    403: "You may not see this",
    404: "There is no such page",
    422: "This address cannot be read",
    503: "The store does not answer",
}


def build_app() -> FastAPI:
    """The app, without the documentation pages that FastAPI would serve without authentication: the OpenAPI document
    is `/api/v1/openapi.json`, for users who are logged in."""
    app = FastAPI(title="Streamwarden", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    for module in (api, stream_api, state_api, changes_api, requests_api, actions):
        app.include_router(module.router, responses=api.REFUSALS)
    app.include_router(metrics.router)
    app.include_router(pages.router)

    @app.exception_handler(StreamwardenError)
    def unavailable(request: Request, error: Exception) -> Response:
        return _answer(request, 503, redacted_text(str(error)))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        return _answer(request, status, str(error.detail) if isinstance(error, HTTPException) else "error")

    @app.exception_handler(RequestValidationError)
    def unreadable(request: Request, error: Exception) -> Response:
        problems = error.errors() if isinstance(error, RequestValidationError) else []
        said = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in problems)
        return _answer(request, 422, said)

    return app


def _answer(request: Request, status: int, detail: str) -> Response:
    """The error as a page for a browser, as JSON for everything else."""
    if "text/html" in request.headers.get("accept", "") and "part" not in request.query_params:
        return page(request, "error.html", status=status, title=_TITLES.get(status, "It failed"), detail=detail)
    return JSONResponse({"detail": escape(detail, quote=False)}, status_code=status, headers=HEADERS)
