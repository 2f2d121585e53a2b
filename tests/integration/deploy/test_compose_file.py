"""docker-compose.yaml, the Dockerfile and the example streams agree with the code: and each disagreement is seen.

What the file starts runs in tests/integration/test_compose.py, natively.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamwarden.config.loading import load_catalog, load_drills
from streamwarden.lint.finding import Severity
from streamwarden.services.analysis.lint_facts import lint_declared
from streamwarden.units import parse_size
from support import deployment, image
from support.airflow_harness import REPOSITORY
from support.deployment import Deployment
from support.image import Image

COMPOSE = Deployment.read()
IMAGE = Image.read()
EXAMPLES = REPOSITORY / "packaging" / "compose"
DOCKERFILE, IGNORED = ((REPOSITORY / name).read_text() for name in ("Dockerfile", ".dockerignore"))


def test_the_compose_file_agrees_with_the_code() -> None:
    assert deployment.problems(COMPOSE) == []


def test_the_image_agrees_with_the_repository_and_with_the_compose_file() -> None:
    assert image.problems(IMAGE, COMPOSE) == []


# Negative controls: each change is a mistake that somebody could make, and the words by which it is told.

Change = Callable[[dict[str, Any]], object]


def replaced(service: str, old: str, new: str) -> Change:
    """The command of a service with one word changed."""

    def change(services: dict[str, Any]) -> None:
        words = services[service]["command"]
        words[words.index(old)] = new

    return change


def environment(service: str, key: str, value: str) -> Change:
    # Not an update: YAML's merge gives all services one and the same mapping.
    return lambda services: services[service].update(environment={**services[service]["environment"], key: value})


def everywhere(key: str, value: str | None) -> Change:
    """In the environment of all of Airflow's services; None: the variable is taken away."""

    def change(services: dict[str, Any]) -> None:
        for service in services.values():
            own = service.get("environment", {})
            if "STREAMWARDEN_PROJECT" in own:
                own.pop(key, None)
                own.update({} if value is None else {key: value})

    return change


def entry(service: str, key: str, value: object) -> Change:
    return lambda services: services[service].update({key: value})


def health(service: str, *test: str) -> Change:
    return lambda services: services[service]["healthcheck"].update({"test": ["CMD", *test]})


URL = "${POSTGRES_PASSWORD:-for-this-machine-alone}@postgres:5432"
WRONG: dict[str, tuple[Change, str]] = {
    "a component is missing": (lambda services: services.pop("triggerer"), "triggerer: a service that is missing"),
    "a component of another Airflow": (
        replaced("api-server", "api-server", "webserver"),
        "is not `airflow api-server`",
    ),
    "a verb that is not there": (replaced("replay", "replay", "publish"), "No such command 'publish'"),
    "an option that is not there": (replaced("replay", "--speedup", "--speed"), "No such option: --speed"),
    "a stream that is not there": (replaced("replay", "flight_departures", "flights"), "there is no stream flights"),
    "a topic at an unknown connection": (
        replaced("replay-to-kafka", "kafka:events_broker/flights", "kafka:broker/flights"),
        "not a topic at a connection of this file",
    ),
    "a DAG that is not there": (replaced("first-run", "health", "healthy"), "there is no DAG healthy"),
    "a script that is not there": (
        replaced("first-run", "packaging/compose/first-run.sh", "packaging/first-run.sh"),
        "there is no script",
    ),
    "a mark that is lost with its container": (
        replaced("first-run", "/data/first-run", "/tmp/first-run"),
        "the first run would be repeated",
    ),
    "a class that Spark does not have": (
        replaced("spark-master", "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.Master"),
        "no class org.apache.spark.deploy.Master",
    ),
    "an option that the tests do not start a master with": (
        lambda services: services["spark-master"]["command"].append("--properties-file"),
        "not the arguments that the tests start a master with",
    ),
    "another port of the master": (
        replaced("spark-master", "7077", "7078"),
        "spark-master:7077, where nothing listens",
    ),
    "another port of the master's page": (replaced("spark-master", "8090", "8088"), "publishes 8090"),
    "a worker of another master": (
        replaced("spark-worker", "spark://spark-master:7077", "spark://master:7077"),
        "names the host master, which is no service",
    ),
    "a port that other machines reach": (entry("spark-worker", "ports", ["8091:8091:8091"]), "open to other machines"),
    "a port twice": (entry("spark-worker", "ports", ["127.0.0.1:8090:8091"]), "the port 8090 is that of spark-master"),
    "a page at another port": (entry("api-server", "ports", ["127.0.0.1:8081:8080"]), "not where it is published"),
    "an API server on another port": (
        environment("api-server", "AIRFLOW__API__PORT", "8888"),
        "api-server:8080, where nothing listens",
    ),
    "a health check of another port": (
        health("scheduler", "python", "-c", "import urllib.request as r; r.urlopen('http://localhost:8793/health')"),
        "scheduler: localhost:8793, where nothing listens",
    ),
    "a health check that cannot fail": (health("spark-master", "python", "-c", "print('well')"), "asks nobody"),
    "a health check of another job": (
        health("triggerer", "airflow", "jobs", "check", "--job-type", "SchedulerJob", "--local"),
        "triggerer: its health check looks at another job",
    ),
    "no health check": (lambda services: services["kafka"].pop("healthcheck"), "waits for the health of kafka"),
    "a wait without an end": (
        entry("scheduler", "depends_on", {"kafka": {"condition": "service_completed_successfully"}}),
        "kafka, which does not end",
    ),
    "a one-shot service that is started for ever": (entry("replay", "restart", "always"), "again for ever"),
    "a driver that nobody reaps": (entry("scheduler", "init", False), "scheduler: nobody reaps"),
    "an environment that differs": (
        environment("triggerer", "STREAMWARDEN_DATA", "/data/x"),
        "differ in their environ",
    ),
    "an option that Airflow lost": (
        everywhere("AIRFLOW__WEBSERVER__BASE_URL", "http://localhost:8080"),
        "no option AIRFLOW__WEBSERVER__BASE_URL",
    ),
    "a variable that nobody reads": (
        everywhere("STREAMWARDEN_DATABASE", "x"),
        "reads no variable STREAMWARDEN_DATABASE",
    ),
    "a password for everybody": (
        everywhere("STREAMWARDEN_STORE_URL", "postgresql+psycopg://streamwarden:x@postgres:5432/streamwarden"),
        "one value for everybody",
    ),
    "a store that nobody makes": (
        everywhere("STREAMWARDEN_STORE_URL", f"postgresql+psycopg://streamwarden:{URL}/store"),
        "STREAMWARDEN_STORE_URL: no such database",
    ),
    "data that dies with its container": (
        everywhere("STREAMWARDEN_DATA", "/srv/streams"),
        "STREAMWARDEN_DATA: not on the volume",
    ),
    "a connection that cannot be read": (everywhere("AIRFLOW_CONN_EVENTS_BROKER", "{kafka:9092}"), "cannot be underst"),
    "a connection without a broker": (
        everywhere("AIRFLOW_CONN_EVENTS_BROKER", '{"conn_type": "kafka", "extra": {}}'),
        "AIRFLOW_CONN_EVENTS_BROKER: the connection 'events_broker' names no broker",
    ),
    "a broker at another port": (
        everywhere("AIRFLOW_CONN_EVENTS_BROKER", '{"conn_type": "kafka", "host": "kafka:9095"}'),
        "kafka:9095, where nothing listens",
    ),
    "a connection that is missing": (
        everywhere("AIRFLOW_CONN_WAREHOUSE", None),
        "warehouse: the connection is missing",
    ),
    "a sink in a database that nobody makes": (
        everywhere("AIRFLOW_CONN_WAREHOUSE", f"postgresql://streamwarden:{URL}/sink"),
        "AIRFLOW_CONN_WAREHOUSE: another password, or a database that nobody makes",
    ),
    "a folder that is not there": (
        lambda services: services["scheduler"]["volumes"].append("./jobs:/opt/streamwarden/jobs:ro"),
        "there is no folder ./jobs",
    ),
    "a folder at another place": (
        entry("dag-processor", "volumes", ["data:/data", "./dags:/opt/airflow/dags:ro"]),
        "mounted where nothing looks for it",
    ),
    "a worker that cannot see the checkpoints": (
        entry("spark-worker", "volumes", ["./spark_jobs:/opt/streamwarden/spark_jobs:ro"]),
        "spark-worker: does not share the volume",
    ),
    "a worker that knows passwords": (environment("spark-worker", "POSTGRES_PASSWORD", "${X:-y}"), "does not need"),
    "a broker of another version": (
        entry("kafka", "image", "apache/kafka:latest"),
        "not the version that the tests run",
    ),
    "a broker that tells a wrong port": (
        environment("kafka", "KAFKA_ADVERTISED_LISTENERS", "INSIDE://kafka:9092,OUTSIDE://localhost:9095"),
        "kafka: tells clients of OUTSIDE a port",
    ),
    "a controller that votes elsewhere": (
        environment("kafka", "KAFKA_CONTROLLER_QUORUM_VOTERS", "1@kafka:9092"),
        "its controller votes as 1@kafka:9092",
    ),
    "records that die with their container": (
        environment("kafka", "KAFKA_LOG_DIRS", "/tmp/kraft"),
        "its records are not on its volume",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_in_the_compose_file_is_told(mistake: str) -> None:
    change, words = WRONG[mistake]
    found = deployment.problems(COMPOSE.changed(change))
    assert any(words in problem for problem in found), found


WRONG_IMAGE = {
    "another Python": (DOCKERFILE.replace("python:3.11", "python:3.9"), IGNORED, "not the Python of pyproject.toml"),
    "another Java": (DOCKERFILE.replace("openjdk-17", "openjdk-11"), IGNORED, "another Java"),
    "a target that is not there": (
        DOCKERFILE.replace("make setup", "make install"),
        IGNORED,
        "make install: there is no",
    ),
    "an option that is not there": (DOCKERFILE.replace("--kafka", "--kafkas"), IGNORED, "No such option: --kafkas"),
    "no jars of the connector": (
        DOCKERFILE.replace("prepare --kafka", "status"),
        IGNORED,
        "kafka.xml: its jars are not",
    ),
    "a volume over the jars": (DOCKERFILE.replace("VOLUME /data", "VOLUME /opt"), IGNORED, "hides the prepared jars"),
    "root": (DOCKERFILE.replace("USER streamwarden", "USER root"), IGNORED, "its processes are root"),
    "a user that nobody made": (DOCKERFILE.replace("USER streamwarden", "USER spark"), IGNORED, "its user is not made"),
    "a step after the user": (f"{DOCKERFILE}RUN make setup\n", IGNORED, "a step is left to a user"),
    "no data folder": (DOCKERFILE.replace("/data/streams", ""), IGNORED, "/data/streams: nobody makes it"),
    "another home": (
        DOCKERFILE.replace("WORKDIR /opt/streamwarden", "WORKDIR /app"),
        IGNORED,
        "the services' project is",
    ),
    "a folder of other permissions": (DOCKERFILE.replace("chmod -R a+rX .", "true"), IGNORED, "a strict umask"),
    "passwords in the image": (DOCKERFILE, IGNORED.replace(".env\n", ""), ".env: .dockerignore lets it in"),
    "a set-up that is left out": (DOCKERFILE, f"{IGNORED}scripts\n", "scripts/setup.sh: .dockerignore leaves it out"),
}


@pytest.mark.parametrize("mistake", WRONG_IMAGE)
def test_a_mistake_in_the_image_is_told(mistake: str) -> None:
    dockerfile, ignored, words = WRONG_IMAGE[mistake]
    assert (dockerfile, ignored) != (DOCKERFILE, IGNORED), "the change did not change anything"
    found = image.problems(Image.of(dockerfile, ignored), COMPOSE)
    assert any(words in problem for problem in found), found


# The example streams for these servers


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The repository's project with the examples copied into it, as docs/deploy.md says."""
    for folder in ("config", "spark_jobs"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    for kind in ("streams", "drills"):
        for file in (EXAMPLES / kind).glob("*.yaml"):
            assert not (tmp_path / "config" / kind / file.name).exists(), "a file of the catalogue would be overwritten"
            shutil.copy(file, tmp_path / "config" / kind)
    return tmp_path


def test_an_example_stream_names_what_is_there(project: Path) -> None:
    catalog = load_catalog(project, Path(COMPOSE.environment("scheduler")["STREAMWARDEN_DATA"]))
    drills, broken = load_drills(project)
    assert (catalog.broken, broken) == ({}, {})
    examples = [file.stem for file in (EXAMPLES / "streams").glob("*.yaml")]
    assert examples
    cores, memory = (COMPOSE.option("spark-worker", option) for option in ("--cores", "--memory"))
    for spec in (catalog.streams[name] for name in examples):
        assert set(spec.connections) <= set(COMPOSE.connections())
        assert f"kafka:{spec.source.connection}/{spec.source.topic}" in COMPOSE.command("replay-to-kafka")
        assert spec.spark.master == COMPOSE.command("spark-worker")[-1]
        assert spec.spark.conf["spark.driver.host"] == "scheduler", "its workers start the drivers"
        assert spec.checkpoint.startswith("/data/"), "on the volume that driver and executors share"
        wanted = 2 * int(spec.spark.conf["spark.cores.max"])  # the stream, and the fork of its drill
        assert wanted <= int(cores)
        assert wanted * parse_size("1 GiB") <= parse_size(f"{memory[:-1]} GiB")
        assert spec.spark.conf["spark.executor.memory"] == "1g"
        own = [drill for drill in drills.values() if drill.stream == spec.name]
        assert own, "an example is drilled"
        assert [each for each in lint_declared(spec, own) if each.severity is not Severity.WARNING] == []


def test_the_catalogue_itself_needs_no_server() -> None:
    for file in (REPOSITORY / "config" / "streams").glob("*.yaml"):
        raw = yaml.safe_load(file.read_text())
        assert "connection" not in {**raw["source"], **raw["sink"]}, file.name
        assert raw["spark"]["master"].startswith("local"), file.name
