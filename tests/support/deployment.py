"""What docker-compose.yaml says, held against the code that it starts. Needs no container engine, and starts nothing.

`problems` tells every disagreement in words; none is the right answer. What the Dockerfile says is in support/image.py.
"""

from __future__ import annotations

import copy
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

import sqlalchemy as sa
import yaml

from streamwarden.adapters.connections import PREFIX, Connection, connection
from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.adapters.kafka.brokers import client_settings, java_options
from streamwarden.config.loading import load_catalog
from streamwarden.errors import ConfigError
from streamwarden.services.monitoring.notifiers import URLS_VARIABLE
from streamwarden.services.workspace import DATA_VARIABLE, PROJECT_VARIABLE, STORE_VARIABLE
from support.airflow_harness import COMPONENTS, REPOSITORY
from support.command_lines import fault_of
from support.kafka_broker import JARS as BROKER
from support.spark_cluster import master_arguments, worker_arguments

IMAGE: Final = "streamwarden:local"
ONE_SHOT: Final = ("migrate", "first-run", "replay", "replay-to-kafka")
"""Services that do their work and end."""

_SECRET: Final = re.compile(r"SECRET|PASSWORD|SQL_ALCHEMY|STORE_URL|NOTIFY_URLS|CONN_WAREHOUSE")
_PLACE: Final = re.compile(r"(?<![\w.-])([a-z][a-z0-9-]*):(\d{2,5})\b")
_VARIABLES: Final = (PROJECT_VARIABLE, DATA_VARIABLE, STORE_VARIABLE, URLS_VARIABLE)


def interpolated(text: str) -> str:
    """As Compose does it where none of the variables is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@dataclass(frozen=True)
class Deployment:
    """The file, read; `root` is the checkout that it stands in."""

    compose: dict[str, Any]
    root: Path = REPOSITORY

    @classmethod
    def read(cls, root: Path = REPOSITORY) -> Deployment:
        return cls(yaml.safe_load((root / "docker-compose.yaml").read_text()), root)

    def changed(self, change: Callable[[dict[str, Any]], object]) -> Deployment:
        """A copy with `change` done to it."""
        other = copy.deepcopy(self.compose)
        change(other["services"])
        return replace(self, compose=other)

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        services: dict[str, dict[str, Any]] = self.compose["services"]
        return services

    @property
    def ours(self) -> dict[str, dict[str, Any]]:
        """The services that run the image of this repository."""
        return {name: service for name, service in self.services.items() if service["image"] == IMAGE}

    @property
    def airflow(self) -> dict[str, dict[str, Any]]:
        """Those of them with Airflow's and Streamwarden's settings: all but the cluster's."""
        return {name: service for name, service in self.ours.items() if PROJECT_VARIABLE in service["environment"]}

    def environment(self, service: str) -> dict[str, str]:
        return {key: interpolated(value) for key, value in self.services[service].get("environment", {}).items()}

    def command(self, service: str) -> list[str]:
        return [interpolated(word) for word in self.services[service].get("command", ())]

    def option(self, service: str, name: str) -> str:
        """The word after the option `name`; empty if it is not there."""
        words = self.command(service)
        return words[words.index(name) + 1] if name in words[:-1] else ""

    def databases(self) -> set[str]:
        """Those that PostgreSQL's image makes at its first start."""
        script = (self.root / "packaging" / "postgres" / "10-databases.sql").read_text()
        made = re.findall(r"^CREATE DATABASE (\w+) OWNER streamwarden;", script, re.MULTILINE)
        return {*made, self.environment("postgres")["POSTGRES_DB"]}

    def connections(self) -> dict[str, Connection]:
        """By name in small letters; one that cannot be understood is left out, `problems` tells of it."""
        environment = self.environment("scheduler")
        found = {}
        for key in environment:
            if key.startswith(PREFIX):
                name = key.removeprefix(PREFIX).lower()
                try:
                    found[name] = connection(name, environment)
                except ConfigError:
                    continue
        return found

    def listens(self) -> dict[str, set[int]]:
        """Service -> the ports on which it listens, by its own settings."""
        broker = re.findall(r":(\d+)", self.environment("kafka").get("KAFKA_LISTENERS", ""))
        master = self.option("spark-master", "--port"), self.option("spark-master", "--webui-port")
        return {
            "postgres": {5432},
            "kafka": set(map(int, broker)),
            "api-server": {int(self.environment("api-server")["AIRFLOW__API__PORT"])},
            "scheduler": {int(airflow_options()["scheduler"]["scheduler_health_check_server_port"]["default"])},
            "spark-master": {int(port) for port in master if port},
            "spark-worker": {int(self.option("spark-worker", "--webui-port") or 0)},
        }


def problems(deployment: Deployment) -> list[str]:
    """Every disagreement between the file and the code, in words."""
    expected = {*COMPONENTS, *ONE_SHOT, "postgres", "kafka", "spark-master", "spark-worker"}
    if others := sorted(expected ^ set(deployment.services)):
        return [f"{name}: a service that is missing, or that nothing here knows of" for name in others]
    checks = (_services, _commands, _health, _ports, _places, _settings, _connections, _mounts, _broker, _cluster)
    return [problem for check in checks for problem in check(deployment)]


@cache
def airflow_options() -> dict[str, Any]:
    """Section -> option -> its description, of the installed Airflow, by names in small letters; it is not imported."""
    found = find_spec("airflow")
    assert found is not None
    assert found.origin is not None
    text = (Path(found.origin).parent / "config_templates" / "config.yml").read_text()
    return {name: section["options"] for name, section in yaml.load(text, yaml.CSafeLoader).items()}


def _services(it: Deployment) -> Iterator[str]:
    for name, service in it.services.items():
        if name in ONE_SHOT:
            if service["restart"] not in ("no", "on-failure:5"):
                yield f"{name}: it ends, and would be started again for ever"
        elif service["restart"] != "unless-stopped":
            yield f"{name}: nobody starts it again"
        for needed, how in service.get("depends_on", {}).items():
            if needed not in it.services:
                yield f"{name}: waits for {needed}, which is no service"
            elif how["condition"] == "service_healthy" and "healthcheck" not in it.services[needed]:
                yield f"{name}: waits for the health of {needed}, which nobody checks"
            elif how["condition"] == "service_completed_successfully" and needed not in ONE_SHOT:
                yield f"{name}: waits for the end of {needed}, which does not end"
    for name, service in it.ours.items():
        if service.get("init") is not True:
            yield f"{name}: nobody reaps the keepers of its drivers (init)"
    if len({str(service["environment"]) for service in it.airflow.values()}) > 1:
        yield "Airflow's services differ in their environment"


def _commands(it: Deployment) -> Iterator[str]:
    for name in COMPONENTS:
        if it.command(name) != ["airflow", name]:
            yield f"{name}: its command is not `airflow {name}`"
    for name in it.ours:
        program, *words = it.command(name)
        if program == "streamwarden":
            yield from (f"{name}: {fault}" for fault in [fault_of(words)] if fault)
            yield from _replay(it, name)
        elif program == "spark-class":
            if words[0] not in _spark_classes():
                yield f"{name}: Spark's jars have no class {words[0]}"
        elif program == "sh":
            yield from _script(it, name, words)
        elif [program, *words] not in (["airflow", "db", "migrate"], *(["airflow", each] for each in COMPONENTS)):
            yield f"{name}: nothing knows the command {program} {' '.join(words)}"


def _replay(it: Deployment, name: str) -> Iterator[str]:
    stream, topic = it.option(name, "--stream"), it.option(name, "--to")
    if stream and stream not in _streams(it.root):
        yield f"{name}: there is no stream {stream}"
    if topic:
        known = re.fullmatch(r"kafka:(\w+)/[\w.-]+", topic)
        if known is None or known[1] not in it.connections():
            yield f"{name}: {topic} is not a topic at a connection of this file"


def _script(it: Deployment, name: str, words: list[str]) -> Iterator[str]:
    script, mark, *dags = words
    if not (it.root / script).is_file():
        yield f"{name}: there is no script {script}"
    if not mark.startswith("/data/"):
        yield f"{name}: {mark} is not on the volume: the first run would be repeated"
    for dag in dags:
        if dag != "health" and dag.removeprefix("stream_") not in _streams(it.root):
            yield f"{name}: there is no DAG {dag}"


def _health(it: Deployment) -> Iterator[str]:
    for name, service in it.services.items():
        if name in ONE_SHOT:
            continue
        check = service.get("healthcheck")
        if check is None:
            yield f"{name}: nobody checks its health"
            continue
        how, program, *words = check["test"]
        if how != "CMD":
            yield f"{name}: its health check is not a command"
        if program == "python":
            compile(words[1], name, "exec")
            # What a page says has to become the command's status: `urlopen` raises for what is no success.
            if words[0] != "-c" or "urlopen('http://localhost:" not in words[1]:
                yield f"{name}: its health check asks nobody"
        elif program == "airflow":
            kinds = {"dag-processor": "DagProcessorJob", "triggerer": "TriggererJob"}
            if words != ["jobs", "check", "--job-type", kinds.get(name, ""), "--local"]:
                yield f"{name}: its health check looks at another job"
        elif program == "pg_isready":
            if words != ["-U", it.environment(name)["POSTGRES_USER"], "-d", "streamwarden"]:
                yield f"{name}: its health check asks for another user or database"
        elif program != "/opt/kafka/bin/kafka-broker-api-versions.sh":
            yield f"{name}: nothing knows the health check {program}"


def _ports(it: Deployment) -> Iterator[str]:
    listens = it.listens()
    published: dict[str, str] = {}
    for name, service in it.services.items():
        for port in service.get("ports", ()):
            address, outside, inside = port.split(":")
            if address != "127.0.0.1":
                yield f"{name}: the port {outside} is open to other machines"
            if int(inside) not in listens.get(name, ()):
                yield f"{name}: publishes {inside}, on which it does not listen"
            if outside in published:
                yield f"{name}: the port {outside} is that of {published[outside]}"
            published[outside] = name
    base = urlsplit(it.environment("api-server")["AIRFLOW__API__BASE_URL"])
    if base.hostname != "localhost" or published.get(str(base.port)) != "api-server":
        yield "api-server: its base URL is not where it is published"
    address = re.search(r"OUTSIDE://localhost:(\d+)", it.environment("kafka")["KAFKA_ADVERTISED_LISTENERS"])
    if address is None or f"127.0.0.1:{address[1]}:{address[1]}" not in it.services["kafka"]["ports"]:
        yield "kafka: what it tells clients on this machine is not what is published"


def _places(it: Deployment) -> Iterator[str]:
    """Every `host:port` is a service that listens there."""
    listens = it.listens()
    for name, service in it.services.items():
        texts = [text for key, text in it.environment(name).items() if key != "AIRFLOW__API__BASE_URL"]
        texts += [*it.command(name), *service.get("healthcheck", {}).get("test", ())]
        for text in texts:
            for host, port in _PLACE.findall(text):
                at = name if host == "localhost" else host
                if at not in it.services:
                    yield f"{name}: names the host {host}, which is no service"
                elif int(port) not in listens.get(at, ()):
                    yield f"{name}: {host}:{port}, where nothing listens"


def _settings(it: Deployment) -> Iterator[str]:
    for name, service in it.services.items():
        for key, value in service.get("environment", {}).items():
            if _SECRET.search(key) and not re.search(r"\$\{\w+:-", value):
                yield f"{name}: {key} has one value for everybody"
            option = re.fullmatch(r"AIRFLOW__([A-Z_]+?)__([A-Z_]+)", key)
            if option and option[2].lower() not in airflow_options().get(option[1].lower(), ()):
                yield f"{name}: Airflow has no option {key}"
            if key.startswith("STREAMWARDEN_") and key not in _VARIABLES:
                yield f"{name}: Streamwarden reads no variable {key}"
    environment, user = it.environment("scheduler"), it.environment("postgres")["POSTGRES_USER"]
    for key in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC", STORE_VARIABLE):
        url = sa.engine.make_url(environment[key])
        if (url.host, url.username) != ("postgres", user) or url.database not in it.databases():
            yield f"{key}: no such database is made"
    for key in (DATA_VARIABLE, "AIRFLOW_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER"):
        if not environment[key].startswith("/data/"):
            yield f"{key}: not on the volume that all of them share"


def _connections(it: Deployment) -> Iterator[str]:
    environment = it.environment("scheduler")
    password = it.environment("postgres")["POSTGRES_PASSWORD"]
    for key in (key for key in environment if key.startswith(PREFIX)):
        name = key.removeprefix(PREFIX).lower()
        try:
            known = connection(name, environment)
            if known.kind == "kafka":
                client_settings(known), java_options(known)
        except ConfigError as error:
            yield f"{key}: {error.observed}"
            continue
        if known.kind == "postgresql" and (known.password != password or known.schema not in it.databases()):
            yield f"{key}: another password, or a database that nobody makes"
        elif known.kind not in ("kafka", "postgresql", "spark", "http"):
            yield f"{key}: nothing here takes a connection of the kind {known.kind!r}"
    wanted = {"events_broker", "warehouse", "spark_default", "streamwarden_airflow"}
    yield from (f"{name}: the connection is missing" for name in sorted(wanted - set(it.connections())))


def _mounts(it: Deployment) -> Iterator[str]:
    home = it.environment("scheduler")[PROJECT_VARIABLE]
    for name, service in it.services.items():
        for volume in service.get("volumes", ()):
            source, target, *_ = volume.split(":")
            if source.startswith("./"):
                if not (it.root / source).is_dir():
                    yield f"{name}: there is no folder {source}"
                if name in it.ours and target != f"{home}/{source.removeprefix('./')}":
                    yield f"{name}: {source} is mounted where nothing looks for it"
            elif source not in it.compose["volumes"]:
                yield f"{name}: the volume {source} is not declared"
    targets = {volume.split(":")[1] for volume in it.services["scheduler"]["volumes"]}
    environment = it.environment("scheduler")
    for folder in (environment["AIRFLOW__CORE__DAGS_FOLDER"], environment["AIRFLOW__CORE__PLUGINS_FOLDER"]):
        if folder not in targets:
            yield f"scheduler: {folder} is not mounted"
    for name in (*it.airflow, "spark-worker"):
        if "data:/data" not in it.services[name].get("volumes", ()):
            yield f"{name}: does not share the volume of checkpoints and outputs"
    where = it.environment("kafka")["KAFKA_LOG_DIRS"]
    if f"kafka:{where}" not in it.services["kafka"]["volumes"]:
        yield "kafka: its records are not on its volume"


def _broker(it: Deployment) -> Iterator[str]:
    environment, image = it.environment("kafka"), it.services["kafka"]["image"]
    tested = ElementTree.parse(BROKER).findtext(".//{*}dependency/{*}version")
    if image != f"apache/kafka:{tested}":
        yield f"kafka: {image} is not the version that the tests run, {tested}"
    names = _named(environment["KAFKA_LISTENERS"])
    mapped = dict(pair.split(":") for pair in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    if set(mapped) != set(names):
        yield "kafka: a listener without a protocol, or a protocol without a listener"
    for listener, port in _named(environment["KAFKA_ADVERTISED_LISTENERS"]).items():
        if names.get(listener) != port:
            yield f"kafka: tells clients of {listener} a port on which it does not listen"
    if environment["KAFKA_INTER_BROKER_LISTENER_NAME"] not in names:
        yield "kafka: brokers talk over a listener that is not there"
    voter = f"{environment['KAFKA_NODE_ID']}@kafka:{names.get(environment['KAFKA_CONTROLLER_LISTENER_NAMES'])}"
    if environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] != voter:
        yield f"kafka: its controller votes as {environment['KAFKA_CONTROLLER_QUORUM_VOTERS']}, and not as {voter}"
    if not re.fullmatch(r"[\w-]{22}", environment["CLUSTER_ID"]):
        yield "kafka: its cluster's id is not 16 bytes in base64"


def _named(listeners: str) -> dict[str, str]:
    """Listener -> port."""
    return dict(re.findall(r"(\w+)://[\w-]*:(\d+)", listeners))


def _cluster(it: Deployment) -> Iterator[str]:
    port, page = it.option("spark-master", "--port"), it.option("spark-master", "--webui-port")
    if it.command("spark-master")[1:] != master_arguments(host="spark-master", port=int(port), page=int(page)):
        yield "spark-master: not the arguments that the tests start a master with"
    url = f"spark://spark-master:{port}"
    offers = worker_arguments(
        host="spark-worker",
        cores=int(it.option("spark-worker", "--cores")),
        memory=it.option("spark-worker", "--memory"),
        page=int(it.option("spark-worker", "--webui-port")),
        work=it.option("spark-worker", "--work-dir"),
        url=url,
    )
    if it.command("spark-worker")[1:] != offers:
        yield "spark-worker: not the arguments that the tests start a worker with, or another master"
    master = it.connections().get("spark_default")
    if master is not None and f"spark://{master.host}:{master.port}" != url:
        yield "spark_default: not this cluster's master"
    for name in ("spark-master", "spark-worker"):
        if any(_SECRET.search(key) for key in it.environment(name)):
            yield f"{name}: knows passwords that it does not need"


@cache
def _spark_classes() -> frozenset[str]:
    """The names in the jar of Spark's core."""
    (jar,) = (spark_home() / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        return frozenset(name.removesuffix(".class").replace("/", ".") for name in archive.namelist())


@cache
def _streams(root: Path) -> frozenset[str]:
    return frozenset(load_catalog(root, root / "var").streams)
