"""The OpenAPI document generates a client that works: OpenAPI Generator makes it, and it is used over HTTP."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from streamwarden.waiting import wait_until
from support.airflow.known_dags import know
from support.airflow.web_fleet import fill
from support.airflow.web_server import bearer, served, token
from support.servers.programs import program

# The names of operations and the conformity of each answer to the document are held by test_api_operations.py and
# test_api_schema.py. Here a JVM generates for 10 s.
pytestmark = pytest.mark.full

PACKAGE = "streamwarden_client"
PARTS = "models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The generated package's client, logged in to a server with `counted`, its incident and its drill."""
    root = tmp_path_factory.mktemp("client")
    with served(root / "server", fill) as server:
        from streamwarden.airflow.dags.drills import drill_dags

        know(drill_dags(str(root / "server" / "project" / "dags" / "drills.py")).values())
        document = server.get("/streamwarden/api/v1/openapi.json", headers=bearer("ADMIN")).text
        (root / "openapi.json").write_text(document)
        generate(root / "openapi.json", root / "client")
        sys.path.insert(0, str(root / "client"))
        assert isinstance(server.app, FastAPI)
        try:
            generated = importlib.import_module(PACKAGE)
            with listening(server.app) as address:
                configuration = generated.Configuration(host=f"{address}/streamwarden", access_token=token("ADMIN"))
                yield generated.ApiClient(configuration)
        finally:
            sys.path.remove(str(root / "client"))


def generate(document: Path, folder: Path) -> None:
    command = [program("openapi-generator-cli"), "generate", "-g", "python", "--package-name", PACKAGE]
    options = ["-i", str(document), "-o", str(folder), "--global-property", PARTS]
    done = run([*command, *options], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The address at which `app` answers over HTTP, on a free port of this machine."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert wait_until(lambda: server.started, within=30, every=0.05)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def test_streams_are_listed(client: Any) -> None:
    api = importlib.import_module(f"{PACKAGE}.api.streams_api").StreamsApi(client)
    found = api.list_streams(state="down")
    assert [row.stream for row in found.streams] == ["counted"]
    assert found.streams[0].metrics["state_size"].status == "CRITICAL"
    assert found.streams[0].forecast.status == "UNKNOWN"


def test_an_incident_is_acknowledged(client: Any) -> None:
    api = importlib.import_module(f"{PACKAGE}.api.incidents_api").IncidentsApi(client)
    models = importlib.import_module(f"{PACKAGE}.models")
    api.acknowledge_incident("i-1", models.Said(reason="I look at it"))
    (incident,) = api.list_incidents(stream="counted")
    assert incident.acknowledged_by == "ann (Airflow)"


def test_a_drill_is_started(client: Any) -> None:
    api = importlib.import_module(f"{PACKAGE}.api.drills_api").DrillsApi(client)
    models = importlib.import_module(f"{PACKAGE}.models")
    started = api.start_drill(models.DrillRequest(drill="kill_driver"))
    assert (started.dag_id, started.state) == ("drill_kill_driver", "queued")
    assert started.drill_run_id.startswith("kill_driver-")


def test_a_refusal_has_its_four_parts(client: Any) -> None:
    api = importlib.import_module(f"{PACKAGE}.api.drills_api").DrillsApi(client)
    models = importlib.import_module(f"{PACKAGE}.models")
    exceptions = importlib.import_module(f"{PACKAGE}.exceptions")
    with pytest.raises(exceptions.NotFoundException) as caught:
        api.start_drill(models.DrillRequest(drill="nothing"))
    refusal = caught.value.data
    assert refusal.observed == "Airflow has no DAG drill_nothing"
    assert refusal.next_step
