"""`/api/v1/`: what the API has, its OpenAPI document, and the documentation that shows it, for logged-in users."""

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from streamwarden.airflow.web.api.operations import PREFIX, answer, api_router, described
from streamwarden.airflow.web.rendering import HEADERS, STATIC, page
from streamwarden.services.overview.models import Model

router = api_router("index")
documents = APIRouter(prefix=PREFIX, include_in_schema=False)

_SWAGGER: Final = "fastapi_swagger.resources"
"""The package whose wheel has Swagger UI: its files, none of its code."""
ASSETS: Final = {
    "swagger-ui.css": "text/css",
    "swagger-ui-bundle.js": "text/javascript",
    "api_docs.js": "text/javascript",
}
"""Files that the documentation loads; there is no other."""


class Operation(Model):
    """One operation of the API."""

    id: str
    """stable: a generated client names its function after it"""
    method: str
    path: str
    """below the address of the plugin"""
    description: str


class Index(Model):
    """What there is. Addresses are below the address of the plugin."""

    name: str
    version: str = Field(description="of Streamwarden")
    openapi: str
    docs: str
    metrics: str
    operations: tuple[Operation, ...]


@router.get("/", operation_id="get_index", response_model=Index)
def index(request: Request) -> Response:
    """What the API has: its operations, and where its description is."""
    document = described(request.app)
    found = Index(
        name="Streamwarden",
        version=version("streamwarden"),
        openapi=f"{PREFIX}/openapi.json",
        docs=f"{PREFIX}/docs",
        metrics="/metrics",
        operations=tuple(
            Operation(id=each["operationId"], method=method.upper(), path=path, description=each["description"])
            for path, methods in document["paths"].items()
            for method, each in methods.items()
        ),
    )
    return answer(found)


@documents.get("/openapi.json")
def openapi(request: Request, user: GetUserDep) -> JSONResponse:
    """The OpenAPI document."""
    return JSONResponse({**described(request.app), "servers": [{"url": request.scope["root_path"]}]}, headers=HEADERS)


@documents.get("/docs")
def docs(request: Request, user: GetUserDep) -> Response:
    """The OpenAPI document for people, shown by Swagger UI."""
    return page(request, "api_docs.html", charts=True)  # it styles its parts itself, as the charts do


@documents.get("/docs/{file}")
def asset(file: str, user: GetUserDep) -> Response:
    """One of `ASSETS`, by its name: no path is ever made of the address."""
    if file not in ASSETS:
        raise HTTPException(404, "there is no such file")
    folder = STATIC if (STATIC / file).is_file() else Path(str(files(_SWAGGER)))
    headers = {**HEADERS, "Cache-Control": "private, max-age=3600"}
    return Response((folder / file).read_bytes(), media_type=ASSETS[file], headers=headers)
