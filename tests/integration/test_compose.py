"""docker-compose.yaml without a container engine: it agrees with the code, and what it starts runs here as it stands.

Each service's own command runs natively, with the file's own environment (hosts, ports and folders translated), against
a real PostgreSQL; then each health check runs, and a stream is started as its DAG.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamwarden.adapters.workspace import Workspace
from streamwarden.lifecycle.driver import ExitKind
from support.airflow_harness import COMPONENTS, REPOSITORY, Airflow, free_port, running, wait_for
from support.postgres_server import USER, PostgreSQL
from support.postgres_server import running as postgresql

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

LONG = 240.0
COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("streamwarden")}
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()
STREAM = "event_windows"
Installation = tuple[Airflow, Workspace, dict[str, list[str]]]
"""What runs, where its streams live, and the command of each service's health check."""


def interpolated(text: str) -> str:
    """As Compose does it where none of the variables is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


# What the file says


def test_every_component_of_airflow_is_a_service_and_nothing_else_is() -> None:
    assert set(SERVICES) == {"postgres", "migrate", *COMPONENTS}
    for component in COMPONENTS:
        assert OURS[component]["command"] == ["airflow", component]
    assert OURS["migrate"]["command"] == ["airflow", "db", "migrate"]


def test_services_wait_for_what_they_need_and_say_whether_they_are_well() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            healthy = how["condition"] == "service_healthy"
            assert healthy == ("healthcheck" in SERVICES[needed]), f"{name} waits for {needed}"
        if name != "migrate":
            assert service["healthcheck"]["test"][0] == "CMD"
            assert service["restart"] == "unless-stopped"
    assert all(service["init"] is True for service in OURS.values()), "somebody has to reap the drivers' keepers"


def test_ports_are_open_to_this_machine_alone() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published == ["127.0.0.1:8080:8080"]


def test_no_secret_stands_in_the_file_that_cannot_be_set_from_outside() -> None:
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"SECRET|PASSWORD|SQL_ALCHEMY|STORE_URL", key):
                assert re.search(r"\$\{\w+:-", value), f"{key} has one value for everybody"


def test_mounted_folders_are_there_and_where_the_settings_say() -> None:
    environment = OURS["scheduler"]["environment"]
    targets = {}
    for volume in OURS["scheduler"]["volumes"]:
        source, target, *_ = volume.split(":")
        targets[target] = source
        assert source in COMPOSE["volumes"] or (REPOSITORY / source).is_dir()
    assert environment["AIRFLOW__CORE__DAGS_FOLDER"] in targets
    assert environment["AIRFLOW__CORE__PLUGINS_FOLDER"] in targets
    assert f"{environment['STREAMWARDEN_PROJECT']}/config" in targets
    for key in ("STREAMWARDEN_DATA", "AIRFLOW_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER"):
        assert environment[key].startswith("/data/"), "on the volume that all of them share"
        assert environment[key] in DOCKERFILE, "a folder that the image's user owns"


def test_the_image_is_built_as_a_person_builds_the_environment() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    base = re.search(r"^FROM python:(\d+\.\d+)-", DOCKERFILE, re.MULTILINE)
    assert base is not None
    assert base[1] in project["requires-python"]
    assert "RUN make setup" in DOCKERFILE
    java = re.search(r"openjdk-\d+-jre-headless", DOCKERFILE)
    assert java is not None
    assert java[0] in (REPOSITORY / "scripts" / "setup.sh").read_text()
    assert DOCKERFILE.index("USER streamwarden") > DOCKERFILE.index("make setup"), "nothing runs as root"
    place = OURS["scheduler"]["environment"]["STREAMWARDEN_PROJECT"]
    assert f"WORKDIR {place}\n" in DOCKERFILE
    assert f"ENV PATH={place}/.venv/bin:" in DOCKERFILE


def test_postgresql_makes_the_two_databases_that_are_asked_for() -> None:
    environment = OURS["scheduler"]["environment"]
    script = (REPOSITORY / "packaging" / "postgres" / "10-store.sql").read_text()
    made = {SERVICES["postgres"]["environment"]["POSTGRES_DB"], *re.findall(r"CREATE DATABASE (\w+)", script)}
    asked = {
        environment[key].rpartition("/")[2] for key in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "STREAMWARDEN_STORE_URL")
    }
    assert made == asked


# What it starts


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql() as it:
        for name in ("airflow", "streamwarden"):
            it.create(name)
        yield it


@pytest.fixture(scope="module")
def installation(server: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    root = tmp_path_factory.mktemp("compose")
    airflow = Airflow(root / "airflow", REPOSITORY, root / "streams")
    health_port = free_port()
    own_ports = {key: value for key, value in airflow.env.items() if key.endswith("LOG_SERVER_PORT")}
    translate = {
        f"{USER}:for-this-machine-alone@postgres:5432": f"{USER}:{server.password}@127.0.0.1:{server.port}",
        "api-server:8080": f"127.0.0.1:{airflow.port}",
        "localhost:8080": f"127.0.0.1:{airflow.port}",
        "localhost:8974": f"127.0.0.1:{health_port}",
        "/opt/streamwarden": str(REPOSITORY),
        "/data": str(root),
    }

    def translated(text: str) -> str:
        text = interpolated(text)
        for there, here in translate.items():
            text = text.replace(there, here)
        return text

    declared = {key: translated(value) for key, value in OURS["scheduler"]["environment"].items()}
    assert all(service["environment"] == OURS["scheduler"]["environment"] for service in OURS.values())
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "STREAMWARDEN"))}
    airflow.env = {
        **inherited,
        **declared,
        **own_ports,
        "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(airflow.port),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(health_port),
    }
    space = Workspace.open(REPOSITORY, root / "streams", store_url=declared["STREAMWARDEN_STORE_URL"], environ={})
    checks = {
        name: [translated(part) for part in service["healthcheck"]["test"][1:]]
        for name, service in OURS.items()
        if "healthcheck" in service
    }
    try:
        with running(airflow):
            yield airflow, space, checks
    finally:
        space.fleet.stop(STREAM, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
        space.close()


def test_all_streams_are_dags_on_postgresql(installation: Installation) -> None:
    airflow, space, _ = installation
    wanted = {f"stream_{name}" for name in space.catalog().streams}
    wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
    assert airflow.import_errors() == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_health_check_succeeds(name: str, installation: Installation) -> None:
    airflow, _, checks = installation

    def well() -> bool:
        return subprocess.run(checks[name], env=airflow.env, capture_output=True, timeout=60).returncode == 0

    wait_for(f"{name} to be well", well, timeout=LONG, poll=2.0, explain=lambda: airflow.tail(name))


def test_a_stream_runs_with_its_store_on_postgresql(installation: Installation) -> None:
    airflow, space, _ = installation
    folder = Path(space.stream(STREAM).source.folders[0])
    folder.mkdir(parents=True)
    event = {"event_time": "2026-01-05T09:00:00.000Z", "user_id": 7, "action": "login"}
    (folder / ".0.part").write_text(json.dumps(event) + "\n")
    (folder / ".0.part").rename(folder / "0.json")
    airflow.pause(f"stream_{STREAM}", False)
    wait_for("a committed batch", lambda: space.store.batches.summary(STREAM).rows > 0, timeout=LONG)
    airflow.pause(f"stream_{STREAM}", True)
    seen = space.fleet.stop(STREAM, requested_by="test", reason="it runs")
    assert seen is not None
    assert seen.exit is not None
    assert seen.exit.kind is ExitKind.STOPPED
