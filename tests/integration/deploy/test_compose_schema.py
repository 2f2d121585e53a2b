"""docker-compose.yaml is valid by the Compose specification's own schema, as check-jsonschema ships it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft202012Validator

from support.airflow_harness import REPOSITORY
from support.deployment import Deployment, airflow_options
from support.guides import Page

SCHEMA = Draft202012Validator(get_builtin_schema("vendor.compose-spec"))
COMPOSE = Deployment.read()


OVERRIDES = [
    content
    for path, content in Page((REPOSITORY / "docs" / "deploy.md").read_text()).files()
    if path == "docker-compose.override.yaml"
]


def faults(compose: dict[str, Any]) -> list[str]:
    return [error.message for error in SCHEMA.iter_errors(compose)]


def test_the_file_is_valid() -> None:
    assert faults(COMPOSE.compose) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda services: services["scheduler"].update(comand=["airflow"]),
        lambda services: services["scheduler"].update(restart=True),
        lambda services: services["kafka"].update(ports="9094"),
        lambda services: services["kafka"]["healthcheck"].update(retries=[3]),
        lambda services: services["kafka"]["healthcheck"].update(every="5s"),
        lambda services: services["replay"].update(depends_on={"kafka": {"condition": "started"}}),
        lambda services: services["postgres"].update(environment=[{"POSTGRES_DB": "airflow"}]),
    ],
)
def test_an_invalid_file_is_reported(change: Callable[[dict[str, Any]], object]) -> None:
    assert faults(COMPOSE.changed(change).compose)


def test_the_override_files_of_the_guide_are_valid() -> None:
    assert OVERRIDES
    for override in OVERRIDES:
        assert faults(override) == []
        for name, service in override["services"].items():
            assert name in COMPOSE.services
            for key in service["environment"]:
                _, section, option = key.lower().split("__")
                assert option in airflow_options()[section]
