"""The Compose files are valid by the specification's own schema, as check-jsonschema ships it, and fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema import Draft202012Validator

from streamwarden.airflow.unpausing import CONNECTION
from streamwarden.stream.spec import StopPolicy
from support.servers.deployment import Deployment, airflow_options

SCHEMA = Draft202012Validator(get_builtin_schema("vendor.compose-spec"))
COMPOSE, USERS = Deployment.read(), Deployment.read("docker-compose.users.yaml")
AIRFLOW = ("migrate", "api-server", "scheduler", "dag-processor", "triggerer", "first-run")


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


def test_one_service_builds_the_image_and_the_others_use_it() -> None:
    """Compose runs all builds at once: two that export one tag fail with "already exists"."""
    ours = {name: service for name, service in COMPOSE.services.items() if "streamwarden" in service["image"]}
    assert [name for name, service in ours.items() if "build" in service] == ["migrate"]
    assert {service["pull_policy"] for service in ours.values()} == {"never"}


def test_postgresql_is_ready_only_when_it_answers_over_tcp() -> None:
    """The server that runs the first scripts listens on its socket alone."""
    assert "127.0.0.1" in COMPOSE.services["postgres"]["healthcheck"]["test"]


@pytest.mark.parametrize("name", COMPOSE.services)
def test_the_memory_of_each_service_is_limited(name: str) -> None:
    assert COMPOSE.services[name]["deploy"]["resources"]["limits"]["memory"]


def test_the_scheduler_has_time_to_stop_the_drivers() -> None:
    policy = StopPolicy()
    assert COMPOSE.services["scheduler"]["stop_grace_period"] == "3m"
    assert policy.batch_deadline + policy.term_deadline < 180


def test_no_connection_of_the_file_hides_the_one_that_users_add() -> None:
    """Airflow reads a connection from the environment before its database."""
    assert CONNECTION not in COMPOSE.connections()


def test_the_file_for_users_fits_on_top() -> None:
    assert faults(USERS.compose) == []
    assert set(USERS.services) == {"postgres", *AIRFLOW}
    for key in USERS.services["scheduler"]["environment"]:
        _, section, option = key.lower().split("__")
        assert option in airflow_options()[section]


def test_every_airflow_service_has_the_same_secrets() -> None:
    first, *others = (USERS.services[name]["environment"] for name in AIRFLOW)
    assert all(other == first for other in others)


def test_users_with_names_get_no_default_secret() -> None:
    """A variable that is not set makes Compose refuse to start."""
    values = [value for service in USERS.services.values() for value in service["environment"].values()]
    assert all(value == "False" or (value.startswith("${") and ":?" in value) for value in values)
    secrets = {key for key, value in COMPOSE.services["scheduler"]["environment"].items() if "_SECRET:-" in value}
    assert secrets
    assert secrets <= USERS.services["scheduler"]["environment"].keys()


def stopped_before(name: str) -> set[str]:
    """The services that `docker compose down` stops before this one: those that depend on it, and so on."""
    direct = {other for other, service in COMPOSE.services.items() if name in service.get("depends_on", ())}
    return direct.union(*map(stopped_before, direct))


@pytest.mark.parametrize("name", ["kafka", "spark-worker", "spark-master", "postgres", "api-server"])
def test_the_drivers_are_stopped_before_what_they_need(name: str) -> None:
    assert "scheduler" in stopped_before(name)


def test_the_first_run_waits_for_the_tables_alone() -> None:
    """`up` fails as soon as a service that another waits for is unhealthy, and starts nothing further."""
    assert list(COMPOSE.services["first-run"]["depends_on"]) == ["migrate"]


CHECKED = [name for name, service in COMPOSE.services.items() if "healthcheck" in service]


@pytest.mark.parametrize("name", CHECKED)
def test_a_health_check_is_cheap_and_patient(name: str) -> None:
    """It starts no Airflow and no Java, and a slow host has minutes for a start."""
    check = COMPOSE.services[name]["healthcheck"]
    assert check["test"][1] in ("bash", "pg_isready") or check["test"][1:4] == ["python", "-I", "-S"]
    assert check["start_period"] == "10m"


def test_a_service_that_others_wait_for_is_looked_at_more_often() -> None:
    awaited = {
        name
        for service in COMPOSE.services.values()
        for name, wait in service.get("depends_on", {}).items()
        if wait["condition"] == "service_healthy"
    }
    intervals = {name: COMPOSE.services[name]["healthcheck"]["interval"] for name in CHECKED}
    assert {name for name, interval in intervals.items() if interval == "10s"} == awaited
    assert set(intervals.values()) == {"10s", "30s"}
