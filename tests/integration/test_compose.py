"""What docker-compose.yaml starts runs here without a container engine.

Each service's own command runs natively, with the file's own environment: Airflow and the replays, a real PostgreSQL
with the databases of its script, a broker set up by the same wrapper as in Kafka's image, and a master and a worker of
Spark. Then each health check runs, the first run unpauses what it should, and the example stream goes from the topic
over the cluster into the table.

Hosts, ports and folders are translated. So this proves nothing about what depends on a name that other containers know
and this host does not: `spark.driver.host: scheduler` is one. tests/engines/test_containers.py runs the file as it is,
in containers. tests/integration/deploy validates it against Compose's schema.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streamwarden.adapters.jvm import maven
from streamwarden.adapters.jvm.java import find_java
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.services.workspace import Workspace
from support.airflow.harness import COMPONENTS, REPOSITORY, Airflow, free_port, running, wait_for
from support.servers.deployment import Deployment
from support.servers.postgres_server import USER, PostgreSQL
from support.servers.postgres_server import running as postgresql
from support.servers.spark_cluster import Cluster, cluster

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

LONG: Final = 240.0
COMPOSE = Deployment.read()
FILES, TABLE = "flight_departures", "departures_to_warehouse"
"""The stream that the first run begins with, and the example."""


@dataclass
class Installation:
    """What runs, where, and how a text of the compose file reads here."""

    root: Path
    airflow: Airflow
    space: Workspace
    server: PostgreSQL
    spark: Cluster
    translations: dict[str, str]
    broker_port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, service: str) -> list[str]:
        return [translated(word, self.translations) for word in COMPOSE.command(service)]

    def health_check(self, service: str) -> list[str]:
        return [translated(word, self.translations) for word in COMPOSE.services[service]["healthcheck"]["test"][1:]]

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """The service's command, beside Airflow's components."""
        with (self.root / f"{service}.log").open("ab") as log:
            process = subprocess.Popen(
                self.command(service), env=self.airflow.env, cwd=REPOSITORY, stdout=log, stderr=log
            )
        self.started.append(process)
        return process

    def log_tail(self, service: str) -> str:
        return (self.root / f"{service}.log").read_text(errors="replace")[-4000:]

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.airflow.env, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False
        )


def translated(text: str, translations: dict[str, str]) -> str:
    for there, here in translations.items():
        text = text.replace(there, here)
    return text


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    root = tmp_path_factory.mktemp("compose")
    with ExitStack() as stack:
        server = stack.enter_context(postgresql())
        server.create(COMPOSE.environment("postgres")["POSTGRES_DB"])
        script = (REPOSITORY / "packaging" / "postgres" / "10-databases.sql").read_text()
        for statement in re.findall(r"^CREATE .*?;", script, re.MULTILINE):
            server.run(statement)
        spark = stack.enter_context(cluster(cores=4))
        made = installed(root, server, spark, stack)
        stack.callback(ended, made)
        made.start("replay")
        made.start("replay-to-kafka")
        stack.enter_context(running(made.airflow))
        made.start("first-run")
        yield made


def installed(root: Path, server: PostgreSQL, spark: Cluster, stack: ExitStack) -> Installation:
    project = project_with_the_example(root / "project", spark)
    airflow = Airflow(root / "airflow", project, root / "streams")
    own_ports = {key: value for key, value in airflow.env.items() if key.endswith("LOG_SERVER_PORT")}
    health_port = free_port()
    inside, controller, outside = (free_port() for _ in range(3))
    translations = {
        f"{USER}:for-this-machine-alone@postgres:5432": f"{USER}:{server.password}@127.0.0.1:{server.port}",
        "api-server:8080": f"127.0.0.1:{airflow.port}",
        "localhost:8080": f"127.0.0.1:{airflow.port}",
        "localhost:8974": f"127.0.0.1:{health_port}",
        "localhost:8090": f"127.0.0.1:{spark.pages[0]}",
        "localhost:8091": f"127.0.0.1:{spark.pages[1]}",
        "spark://spark-master:7077": spark.url,
        "kafka:9092": f"127.0.0.1:{inside}",
        "localhost/9092": f"127.0.0.1/{inside}",
        "kafka:9093": f"127.0.0.1:{controller}",
        "localhost:9094": f"127.0.0.1:{outside}",
        "://:9092": f"://127.0.0.1:{inside}",
        "://:9093": f"://127.0.0.1:{controller}",
        "://:9094": f"://127.0.0.1:{outside}",
        "/var/lib/kafka/data": str(root / "kafka" / "records"),
        "/opt/streamwarden": str(project),
        "/data": str(root),
    }
    stack.enter_context(broker(root / "kafka", translations, f"127.0.0.1:{inside}"))
    declared = {key: translated(value, translations) for key, value in COMPOSE.environment("scheduler").items()}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "STREAMWARDEN"))}
    airflow.env = {
        **inherited,
        **declared,
        **own_ports,
        "PATH": f"{Path(sys.executable).parent}:{inherited['PATH']}",
        "JDK_JAVA_OPTIONS": airflow.env["JDK_JAVA_OPTIONS"],
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(airflow.port),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": str(health_port),
    }
    script = {"packaging/": f"{REPOSITORY}/packaging/"}
    airflow.commands["scheduler"] = [translated(word, script) for word in COMPOSE.command("scheduler")]
    space = Workspace.open(project, root / "streams", store_url=declared["STREAMWARDEN_STORE_URL"], environ={})
    return Installation(root, airflow, space, server, spark, translations, inside)


def project_with_the_example(project: Path, spark: Cluster) -> Path:
    """The repository's project, and the example stream as docs/deploy.md has it copied."""
    for folder in ("config", "dags", "plugins", "spark_jobs"):
        shutil.copytree(REPOSITORY / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (REPOSITORY / "packaging" / "compose" / "streams" / f"{TABLE}.yaml").read_text()
    here = {"spark://spark-master:7077": spark.url, "spark.driver.host: scheduler": "spark.driver.host: 127.0.0.1"}
    assert all(there in text for there in here)
    (project / "config" / "streams" / f"{TABLE}.yaml").write_text(translated(text, here))
    return project


@contextmanager
def broker(folder: Path, translations: dict[str, str], servers: str) -> Iterator[None]:
    """As Kafka's image does it: its wrapper turns the environment into settings and formats the folder."""
    settings = {key: translated(value, translations) for key, value in COMPOSE.environment("kafka").items()}
    for name in ("default", "mounted", "final"):
        (folder / name).mkdir(parents=True)
    heap = settings["KAFKA_HEAP_OPTS"]
    java = [str(find_java() / "bin" / "java"), heap, "-cp", ":".join(map(str, maven.resolve(maven.KAFKA_BROKER)))]
    wrapper = [*java, "kafka.docker.KafkaDockerWrapper", "setup"]
    for name in ("default", "mounted", "final"):
        wrapper += [f"--{name}-configs-dir", str(folder / name)]
    subprocess.run(wrapper, env=settings, check=True, timeout=120, cwd=folder)
    with (folder / "log").open("wb") as log:
        command = [*java, "kafka.Kafka", str(folder / "final" / "server.properties")]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def answers() -> bool:
        try:
            return bool(AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    try:
        wait_for("the broker", answers, timeout=120, explain=(folder / "log").read_text)
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


def ended(made: Installation) -> None:
    """Nothing that the fixture or a test started lives on."""
    for process in made.started:
        process.terminate()
        process.wait(timeout=30)
    for stream in (FILES, TABLE):
        made.space.fleet.stop(stream, requested_by="test", reason="the end", batch_deadline=5, term_deadline=5)
    made.space.close()


def test_all_streams_are_dags_on_postgresql(installation: Installation) -> None:
    airflow = installation.airflow
    wanted = {f"stream_{name}" for name in installation.space.catalog().streams}
    assert f"stream_{TABLE}" in wanted
    wait_for("the DAGs", lambda: wanted <= airflow.dag_ids(), timeout=LONG)
    assert airflow.import_errors() == []


@pytest.mark.parametrize("name", [*COMPONENTS, "kafka", "spark-master", "spark-worker"])
def test_a_health_check_succeeds(name: str, installation: Installation) -> None:
    check = installation.health_check(name)
    explain = (lambda: installation.airflow.tail(name)) if name in COMPONENTS else str
    wait_for(f"{name} to be well", lambda: installation.run(check).returncode == 0, timeout=LONG, explain=explain)


def test_a_health_check_fails_where_nobody_answers(installation: Installation) -> None:
    for name, port in {"spark-master": installation.spark.pages[0], "kafka": installation.broker_port}.items():
        check = [word.replace(str(port), "1") for word in installation.health_check(name)]
        assert installation.run(check).returncode != 0


def test_the_first_run_begins_with_flights(installation: Installation) -> None:
    """A person types `docker compose up`, and nothing else."""
    airflow, space = installation.airflow, installation.space
    (first_run,) = installation.started[2:]
    code = wait_for(
        "the first run",
        lambda: {first_run.poll()} - {None},
        timeout=LONG,
        explain=lambda: installation.log_tail("first-run"),
    )
    assert code == {0}, installation.log_tail("first-run")
    assert not airflow.is_paused(f"stream_{FILES}")
    assert not airflow.is_paused("health")
    assert airflow.is_paused(f"stream_{TABLE}")
    wait_for("a committed batch", lambda: space.store.batches.summary(FILES).rows > 0, timeout=LONG)


@pytest.mark.full  # in the first tier deploy/test_scheduler_script: drained on SIGTERM; airflow/test_up starts again
def test_an_update_stops_the_drivers_at_a_batch_boundary_and_starts_them_again(installation: Installation) -> None:
    """Compose stops the scheduler's container and starts a new one; the drivers live in it."""
    airflow, space = installation.airflow, installation.space
    before = space.store.drivers.latest(FILES)
    assert before is not None
    airflow.stop("scheduler", within=180)
    ended = space.fleet.observe(before.driver_id)
    assert ended.exit is not None, airflow.tail("scheduler")
    assert ended.exit.kind is ExitKind.STOPPED
    airflow.start("scheduler")

    def runs_again() -> bool:
        newest = space.store.drivers.latest(FILES)
        return newest is not None and newest.driver_id != before.driver_id and newest.started_at is not None

    wait_for("the next driver", runs_again, timeout=LONG, explain=lambda: airflow.tail("scheduler"))


def test_the_first_run_is_not_repeated(installation: Installation) -> None:
    airflow, space = installation.airflow, installation.space
    airflow.pause(f"stream_{FILES}", True)
    assert installation.run(installation.command("first-run")).returncode == 0
    assert airflow.is_paused(f"stream_{FILES}"), "it was paused: it stays paused"
    stopped(space, FILES)


@pytest.mark.full  # in the first tier test_standalone_cluster runs on a cluster, a drill from a topic into a table
def test_the_example_goes_from_the_topic_over_the_cluster_into_the_table(installation: Installation) -> None:
    """Unpaused as a task does it: through the connection to Airflow itself."""
    code = f"from streamwarden.airflow.unpausing import unpause; raise SystemExit(unpause('stream_{TABLE}'))"
    done = installation.run([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    engine = sa.create_engine(installation.server.url("warehouse"), poolclass=sa.NullPool)

    def rows() -> int:
        try:
            with engine.connect() as connection:
                return int(connection.exec_driver_sql("SELECT count(*) FROM flights.departures").scalar_one())
        except sa.exc.ProgrammingError:  # the sink makes the table with its first batch
            return 0

    wait_for("rows in the table", rows, timeout=LONG, explain=lambda: installation.log_tail("replay-to-kafka"))
    assert installation.spark.launched() > 0, "its tasks ran on an executor"
    installation.airflow.pause(f"stream_{TABLE}", True)
    stopped(installation.space, TABLE)


def stopped(space: Workspace, stream: str) -> None:
    seen = space.fleet.stop(stream, requested_by="test", reason="it runs")
    assert seen is not None
    assert seen.exit is not None
    assert seen.exit.kind is ExitKind.STOPPED
