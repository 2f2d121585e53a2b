"""What every operation of the API does: it refuses parameters that it does not have, answers as JSON without secrets,
and leaves out the fields that nobody asked for."""

import json
from collections.abc import Callable, Coroutine, Iterable
from threading import Lock
from typing import Any, Final

from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from streamwarden.airflow.web.api.fields import PARAMETER, Schema, Shape, picked, wanted
from streamwarden.airflow.web.api.refusals import REFUSALS, Refused
from streamwarden.airflow.web.rendering import HEADERS
from streamwarden.errors import ConfigError
from streamwarden.redaction import redacted
from streamwarden.services.overview.models import Model

PREFIX: Final = "/api/v1"

_describing: Final = Lock()

_PARAMETER: Final[dict[str, Any]] = {
    "name": PARAMETER,
    "in": "query",
    "required": False,
    "schema": {"type": "string", "default": ""},
    "description": "Names of the wanted fields, separated by commas: `at,streams.stream,streams.forecast.seconds`. A "
    "dot leads into an object, or into each item of a list. The answer has these fields alone; default: all.",
}
"""FastAPI takes the fields of a model as parameters only if an operation declares no other parameter."""


class _Route(APIRoute):
    """A route whose answer has the fields alone that were asked for, and whose title is its operation's id in words."""

    def __init__(self, path: str, endpoint: Callable[..., Any], *, operation_id: str, **options: Any) -> None:
        title = operation_id.replace("_", " ").capitalize()
        more = {"summary": title, "openapi_extra": {"parameters": [_PARAMETER]}}
        super().__init__(path, endpoint, operation_id=operation_id, **{**options, **more})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def narrowed(request: Request) -> Response:
            response = await handle(request)
            fields = getattr(request.state, PARAMETER)
            if not fields or response.status_code >= 300:
                return response
            content = picked(json.loads(bytes(response.body)), fields)
            return JSONResponse(content, status_code=response.status_code, headers=HEADERS)

        return narrowed


def api_router(tag: str, *dependencies: Callable[..., Any]) -> APIRouter:
    """A router of the API.

    Args:
        tag: the section of its operations in the documentation, and the package that a generated client has for them.
        dependencies: what each request has to fulfil, before its parameters are read.
    """
    return APIRouter(
        prefix=PREFIX,
        route_class=_Route,
        tags=[tag],
        responses=REFUSALS,
        dependencies=[Depends(each) for each in (*dependencies, understood)],
    )


def understood(request: Request, user: GetUserDep) -> None:
    """Raises HTTPException with 422 for a parameter that the operation does not have, or a field that its answer lacks.

    The OpenAPI document says what there is. `user`: nobody learns that without a login.
    """
    document = described(request.app)
    operation = document["paths"][request.scope["route"].path_format][request.method.lower()]
    try:
        _require_known(request.query_params.keys(), operation)
        shape = Shape(_answer_of(operation), document["components"]["schemas"])
        setattr(request.state, PARAMETER, wanted(request.query_params.get(PARAMETER, ""), shape))
    except ConfigError as error:
        raise Refused(422, error) from error


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document. The first request builds it; FastAPI's own models break if two requests do so at once."""
    with _describing:
        return app.openapi()


def _require_known(given: Iterable[str], operation: Schema) -> None:
    """Raises ConfigError."""
    allowed = sorted(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query")
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise ConfigError(
            f"unknown {'parameter' if len(unknown) == 1 else 'parameters'} {', '.join(map(repr, unknown))}",
            expected=f"only: {', '.join(allowed)}" if allowed else "no parameter",
            where=f"operation {operation['operationId']}",
            next_step="correct its name, or leave it out",
        )


def _answer_of(operation: Schema) -> Schema:
    """The schema of the answer if the request succeeds."""
    responses = (answer for status, answer in operation["responses"].items() if status.startswith("2"))
    schema: Schema = next(responses)["content"]["application/json"]["schema"]
    return schema


def answer(content: Model, status: int = 200) -> JSONResponse:
    """The model as JSON, without secrets: an earlier version may have stored some."""
    return JSONResponse(redacted(content.model_dump(mode="json")), status_code=status, headers=HEADERS)


def clean(content: Model) -> Response:
    """The model as JSON: its texts were redacted when it was made (`Text`)."""
    return Response(content.model_dump_json(), media_type="application/json", headers=HEADERS)


def answers(found: Iterable[Model]) -> JSONResponse:
    """Several models as a JSON list."""
    return JSONResponse(redacted([model.model_dump(mode="json") for model in found]), headers=HEADERS)
