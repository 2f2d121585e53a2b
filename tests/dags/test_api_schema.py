"""Every operation of the API answers whatever its OpenAPI document allows, as that document says.

schemathesis makes the requests from the document: unusual names, numbers at the limits, text in every script, and also
what the document forbids. The examples are the same in each run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from streamwarden.services.workspace import Workspace
from support.airflow_project import add_stream, living_driver
from support.web_server import bearer, served

DOCUMENT = "/streamwarden/api/v1/openapi.json"
EXAMPLES = 15
"""Of each operation and mode."""
CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSchema]:
    with served(tmp_path_factory.mktemp("schema"), _fill) as client:
        yield schemathesis.openapi.from_asgi(DOCUMENT, client.app, headers=bearer("ADMIN"))


def _fill(space: Workspace) -> None:
    add_stream(space.project, "counted")
    living_driver(space, "counted-1", time.time())


def test_the_document_describes_the_operations(schema: BaseSchema) -> None:
    paths = {operation.path for operation in _operations(schema)}
    assert {"/api/v1/streams", "/api/v1/streams/{stream}", "/api/v1/streams/{stream}/charts"} <= paths


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_makes_the_server_fail(schema: BaseSchema, mode: GenerationMode) -> None:
    """POSITIVE: what the document allows. NEGATIVE: what it forbids."""
    for operation in _operations(schema):
        _ask(operation, mode)


def test_a_known_stream_is_asked_for_every_range(schema: BaseSchema) -> None:
    """A generated name is that of no stream: here the rest of the request is generated."""
    for operation in _operations(schema):
        if "{stream}" in operation.path and operation.method == "get":
            _ask(operation, GenerationMode.POSITIVE, stream="counted")


def _operations(schema: BaseSchema) -> list[APIOperation]:
    return [each.ok() for each in schema.get_all_operations()]


def _ask(operation: APIOperation, mode: GenerationMode, **path: str) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case) -> None:
        case.path_parameters = {**case.path_parameters, **path}
        case.call_and_validate(headers=bearer("ADMIN"), checks=CHECKS)

    ask()
