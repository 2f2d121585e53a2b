"""Every operation of the API answers whatever its OpenAPI document allows, as that document says.

schemathesis makes the requests from the document: unusual names, numbers at the limits, text in every script, and also
what the document forbids. The examples are the same in each run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from streamwarden.drills.records.journal import DrillRun, DrillStep, JournalEntry
from streamwarden.health.incidents.incident import Incident
from streamwarden.health.verdict import Status
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream, living_driver
from support.airflow.web_server import bearer, served

DOCUMENT = "/streamwarden/api/v1/openapi.json"
EXAMPLES = 8
"""Of each operation and mode."""
CHECKS = [not_a_server_error, response_schema_conformance, content_type_conformance]
PARTIAL = [not_a_server_error, content_type_conformance]
"""Of an answer with some of its fields, beside those of the whole one."""


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseSchema]:
    with served(tmp_path_factory.mktemp("schema"), _fill) as client:
        yield schemathesis.openapi.from_asgi(DOCUMENT, client.app, headers=bearer("ADMIN"))


def _fill(space: Workspace) -> None:
    add_stream(space.project, "counted")
    living_driver(space, "counted-1", time.time())
    run = DrillRun(run_id="run-1", drill="kill_driver", stream="counted", started_at=1.0, facts={})
    space.store.journals.save(run)
    space.store.journals.append("run-1", JournalEntry(step=DrillStep.FAULT, at=1.0, kind="note", message="hit"))
    space.store.incidents.save(
        Incident(
            incident_id="i-1",
            stream="counted",
            check="backlog",
            status=Status.WARNING,
            opened_at=1.0,
            updated_at=1.0,
            reason="behind",
            evidence={"seconds": 7.5},
        )
    )


def test_the_document_describes_the_operations(schema: BaseSchema) -> None:
    paths = {operation.path for operation in _operations(schema)}
    assert {"/api/v1/streams", "/api/v1/streams/{stream}", "/api/v1/streams/{stream}/charts"} <= paths


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_request_makes_the_server_fail(schema: BaseSchema, mode: GenerationMode) -> None:
    """POSITIVE: what the document allows. NEGATIVE: what it forbids."""
    operations = _operations(schema)
    assert operations
    for operation in operations:
        _ask(operation, mode)


@pytest.mark.parametrize(("name", "value"), [("stream", "counted"), ("run_id", "run-1"), ("incident_id", "i-1")])
def test_what_exists_is_asked_for_in_every_way(schema: BaseSchema, name: str, value: str) -> None:
    """A generated name is that of no stream, run or incident: here the rest of the request is generated."""
    asked = [each for each in _operations(schema) if f"{{{name}}}" in each.path and each.method == "get"]
    assert asked
    for operation in asked:
        _ask(operation, GenerationMode.POSITIVE, **{name: value})


def _operations(schema: BaseSchema) -> list[APIOperation]:
    return [each.ok() for each in schema.get_all_operations()]


def _ask(operation: APIOperation, mode: GenerationMode, **path: str) -> None:
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    def ask(case: schemathesis.Case) -> None:
        case.path_parameters = {**case.path_parameters, **path}
        fields = case.query.pop("fields", None) if case.query else None
        whole = case.call_and_validate(headers=bearer("ADMIN"), checks=CHECKS)
        if fields is None:
            return
        case.query["fields"] = fields
        some = case.call_and_validate(headers=bearer("ADMIN"), checks=PARTIAL)
        assert some.status_code != 200 or _is_part(some.json(), whole.json()), (some.text, whole.text)

    ask()


def _is_part(some: Any, whole: Any) -> bool:
    """Whether each object of `some` has fields of the same one of `whole` alone."""
    if isinstance(some, dict):
        return some.keys() <= whole.keys()
    return len(some) == len(whole) and all(map(_is_part, some, whole))


def test_an_answer_with_a_field_that_the_whole_one_lacks_is_noticed() -> None:
    assert _is_part([{"a": 1}], [{"a": 1, "b": 2}])
    assert not _is_part([{"c": 1}], [{"a": 1, "b": 2}])
    assert not _is_part([], [{"a": 1}])
