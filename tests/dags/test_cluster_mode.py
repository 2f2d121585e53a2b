"""A stream in cluster mode, in the hands of the Spark provider's durable mode.

The provider's code and the store are real; spark-submit is a script that keeps what it was given, the ResourceManager
and Kubernetes' API are what the tests let them say. No YARN and no Kubernetes run here.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit as provider
from airflow.providers.apache.spark.operators import spark_submit as provider_operator
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped, TaskDeferred

from streamwarden.airflow import cluster_mode
from streamwarden.airflow.operators import StreamOperator
from streamwarden.airflow.triggers import DriverTrigger, StandbyTrigger
from streamwarden.clusters.kubernetes import pod_name
from streamwarden.errors import ConfigError
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.services.workspace import Workspace
from support.spark.names import knows, options

APPLICATION = "application_1700000000000_0001"
SUBMIT = """#!/bin/sh
cd "$(dirname "$0")"
printf '%s\\n' "$@" > "arguments-$(ls | grep -c arguments)"
echo "INFO Client: Submitted application {application}"
echo "INFO Deployed Spark application counted with submission ID streams:counted-0a1b-driver into Kubernetes"
exit $(cat fails 2>/dev/null || echo 0)
"""
STREAM = """
name: counted
job: spark_jobs/counting.py
source: {{path: input/counted}}
sink: {{path: output/counted}}
checkpoint: checkpoints/counted
restart: {{initial: 30s}}
spark: {{deploy_mode: cluster, executors: {{instances: 2, memory: 2 GiB}}, {more}}}
"""
YARN = "master: yarn, connection: yarn_cluster, queue: etl"
KUBERNETES = "master: 'k8s://https://api:6443', image: 'streamwarden:1', namespace: streams"


class TaskState(dict[str, Any]):
    """What Airflow keeps of a task between its tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        del self[key]


class Cluster:
    """A cluster that moves on whenever the provider waits: it says `states` in turn, the last one for ever."""

    def __init__(self, space: Workspace, binaries: Path) -> None:
        self.space, self.binaries = space, binaries
        self.states: list[str] = ["ACCEPTED"]
        self.down = False
        self.ends_as: ExitRecord | None = None
        self.remembered = TaskState()
        self.dag_run = SimpleNamespace(start_date=datetime.now(UTC))
        self.waits: Callable[[float], None] = self.move_on

    @property
    def state(self) -> str:
        return self.states[0]

    def move_on(self, seconds: float) -> None:
        before = self.state
        if len(self.states) > 1:
            self.states.pop(0)
        if self.state == "RUNNING" and before != "RUNNING":
            self.bind()
        if self.state in ("SUCCEEDED", "FAILED") and self.ends_as is not None:
            files.write_outcome(Path(self.driver().folder), self.ends_as)

    def bind(self) -> None:
        """What a runner does first, on a host of the cluster."""
        lease = files.read_lease(Path(self.driver().folder))
        assert lease is not None
        process = ProcessIdentity(host="node1/boot/1", pid=7, started_at=1)
        self.space.store.leases.bind(lease, process, ttl=30, now=lease.acquired_at + 5)
        self.space.store.drivers.bound(self.driver().driver_id, process)

    def driver(self) -> DriverRecord:
        latest = self.space.store.drivers.latest("counted")
        assert latest is not None
        return latest

    def submissions(self) -> list[list[str]]:
        return [path.read_text().splitlines() for path in sorted(self.binaries.glob("bin/arguments-*"))]

    def run(self, **kwargs: Any) -> Any:
        """One try of the task; the trigger that it waits for, if it waits."""
        operator = StreamOperator(task_id="run", stream="counted", project=str(self.space.project), **kwargs)
        ti = SimpleNamespace(dag_id="stream_counted", run_id="r", try_number=1, stats_tags={})
        try:
            return operator.execute({"ti": ti, "dag_run": self.dag_run, "task_state_store": self.remembered})
        except TaskDeferred as deferred:
            return deferred.trigger
        except DownstreamTasksSkipped:  # all input is processed
            return None


@pytest.fixture
def cluster(space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    (space.project / "config/streams/counted.yaml").write_text(STREAM.format(more=YARN))
    binaries = tmp_path / "spark"
    (binaries / "bin").mkdir(parents=True)
    script = binaries / "bin" / "spark-submit"
    script.write_text(SUBMIT.format(application=APPLICATION))
    script.chmod(0o755)
    monkeypatch.setattr(cluster_mode, "spark_home", lambda: binaries)
    made = Cluster(space, binaries)
    monkeypatch.setattr(provider, "time", SimpleNamespace(sleep=lambda seconds: made.waits(seconds)))
    with resource_manager(made) as url:
        extra = {"yarn_resourcemanager_webapp_address": url}
        monkeypatch.setenv(
            "AIRFLOW_CONN_YARN_CLUSTER", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})
        )
        yield made


class resource_manager:  # noqa: N801  (a context manager)
    """A ResourceManager's REST API, as <https://hadoop.apache.org/docs/stable/> has it: one application's state."""

    def __init__(self, cluster: Cluster) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ended = cluster.state in ("SUCCEEDED", "FAILED")
                app = {
                    "state": "FINISHED" if ended else cluster.state,
                    "finalStatus": cluster.state if ended else "UNDEFINED",
                }
                found = self.path == f"/ws/v1/cluster/apps/{APPLICATION}" and not cluster.down
                self.send_response(200 if found else 503)
                self.end_headers()
                self.wfile.write(json.dumps({"app": app}).encode())

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def ended(kind: ExitKind) -> ExitRecord:
    return ExitRecord(kind=kind, ended_at=time.time(), message="so it ended")


def test_a_driver_is_submitted_and_followed_to_its_end(cluster: Cluster) -> None:
    cluster.states = ["ACCEPTED", "RUNNING", "SUCCEEDED"]
    cluster.ends_as = ended(ExitKind.COMPLETED)
    assert cluster.run() is None
    driver = cluster.driver()
    assert driver.process is not None
    assert driver.exit is not None
    assert driver.exit.kind is ExitKind.COMPLETED
    lease = cluster.space.store.leases.current(driver.checkpoint)
    assert lease is not None
    assert lease.released_at is not None
    assert cluster.remembered["spark_job_id"] == APPLICATION
    (submitted,) = [each for each in cluster.space.store.drivers.events(driver.driver_id) if each.kind == "submitted"]
    assert submitted.detail["application"] == APPLICATION


def test_the_command_is_one_that_spark_knows_and_holds_no_secret(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.states = ["ACCEPTED", "FAILED"]
    submitted: list[str] = []

    def read_and_move_on(seconds: float) -> None:
        submitted.append((Path(cluster.driver().folder) / files.PROPERTIES).read_text())
        cluster.move_on(seconds)

    cluster.waits = read_and_move_on
    cluster.run(env_vars={"TOKEN": "hush"}, conf={"spark.hadoop.fs.s3a.secret.key": "hush"})
    (arguments,) = cluster.submissions()
    named = [each for each in arguments if each.startswith("--")]
    assert set(named) <= options()
    assert arguments[arguments.index("--master") + 1] == "yarn"
    assert arguments[arguments.index("--deploy-mode") + 1] == "cluster"
    folder = Path(cluster.driver().folder)
    assert arguments[-2].endswith("streamwarden/spark/programs/driver.py")
    assert arguments[-1] == str(folder)
    conf = dict(each.split("=", 1) for each in arguments if each.startswith("spark."))
    assert conf == {"spark.yarn.submit.waitAppCompletion": "false"}
    properties = dict(line.split("=", 1) for line in submitted[0].splitlines())
    assert [key for key in (*conf, *properties) if not knows(key) and not key.startswith("spark.hadoop.")] == []
    assert properties["spark.yarn.queue"] == "etl"
    assert properties["spark.executor.instances"] == "2"
    assert properties["spark.yarn.appMasterEnv.TOKEN"] == "hush"
    assert properties["spark.yarn.appMasterEnv.STREAMWARDEN_STORE_URL"] == cluster.space.store_url
    assert "appMasterEnv" in properties["spark.redaction.regex"], "Spark's UI hides them"
    assert "hush" not in " ".join(arguments)
    assert "hush" not in (folder / files.PROPERTIES).read_text(), "it is redacted when the driver has ended"


def test_a_retry_follows_the_living_application_and_submits_none(cluster: Cluster) -> None:
    """The first try loses its worker while it polls."""
    cluster.states = ["ACCEPTED", "RUNNING", "RUNNING"]

    def killed(seconds: float) -> None:
        cluster.move_on(seconds)
        if cluster.state == "RUNNING":
            raise KeyboardInterrupt

    cluster.waits = killed
    with pytest.raises(KeyboardInterrupt):
        cluster.run()
    cluster.waits = cluster.move_on
    first = cluster.driver()
    assert first.exit is None
    cluster.states = ["RUNNING", "SUCCEEDED"]
    cluster.ends_as = ended(ExitKind.COMPLETED)
    assert cluster.run() is None
    assert len(cluster.submissions()) == 1
    assert cluster.driver().driver_id == first.driver_id


def test_an_application_that_failed_is_waited_for_by_the_streams_own_policy(cluster: Cluster) -> None:
    cluster.states = ["ACCEPTED", "RUNNING", "FAILED"]
    cluster.ends_as = ended(ExitKind.FAILED)
    trigger = cluster.run()
    assert isinstance(trigger, StandbyTrigger)
    assert trigger.until is not None
    driver = cluster.driver()
    assert driver.exit is not None
    assert (driver.exit.kind, driver.exit.message) == (ExitKind.FAILED, "so it ended")
    assert len(cluster.submissions()) == 1


def test_an_application_that_left_no_word_is_told_in_the_clusters(cluster: Cluster) -> None:
    """Its image could not be pulled, its queue was deleted: no runner ever ran."""
    cluster.states = ["ACCEPTED", "FAILED"]
    assert isinstance(cluster.run(), StandbyTrigger)
    exit = cluster.driver().exit
    assert exit is not None
    assert exit.kind is ExitKind.FAILED
    assert f"YARN application {APPLICATION} ended" in exit.message
    assert "yarn logs" in exit.next_step


def test_the_command_line_does_not_start_what_it_cannot_follow(cluster: Cluster) -> None:
    with pytest.raises(ConfigError, match="from Airflow"):
        cluster.space.fleet.start(cluster.space.stream("counted"), launched_by="me")
    assert cluster.space.store.drivers.latest("counted") is None


def test_a_submission_that_fails_leaves_no_claim(cluster: Cluster) -> None:
    (cluster.binaries / "bin" / "fails").write_text("1")
    assert isinstance(cluster.run(), StandbyTrigger)
    driver = cluster.driver()
    assert driver.exit is not None
    assert driver.exit.kind is ExitKind.FAILED
    lease = cluster.space.store.leases.current(driver.checkpoint)
    assert lease is not None
    assert lease.released_at is not None


def test_a_cluster_that_does_not_answer_is_no_reason_to_submit_again(cluster: Cluster) -> None:
    """The try fails, the next one asks again; what runs goes on."""
    test_a_submitted_driver_runs(cluster)
    cluster.down = True
    with pytest.raises(RuntimeError):
        cluster.run()
    assert len(cluster.submissions()) == 1
    assert cluster.driver().exit is None


def test_a_submitted_driver_runs(cluster: Cluster) -> None:
    """A try ends in mid-poll, and its driver lives on."""
    cluster.states = ["ACCEPTED", "RUNNING"]

    def killed(seconds: float) -> None:
        cluster.move_on(seconds)
        raise KeyboardInterrupt

    cluster.waits = killed
    with pytest.raises(KeyboardInterrupt):
        cluster.run()
    cluster.waits = cluster.move_on
    assert cluster.space.fleet.observe(cluster.driver().driver_id).alive, "by its lease: its process is elsewhere"


def test_another_run_follows_a_living_driver_by_its_lease(cluster: Cluster) -> None:
    """Task state belongs to one DAG run; the lease does not."""
    test_a_submitted_driver_runs(cluster)
    cluster.remembered = TaskState()
    trigger = cluster.run()
    assert isinstance(trigger, DriverTrigger)
    assert trigger.driver_id == cluster.driver().driver_id
    assert len(cluster.submissions()) == 1


def test_a_named_connection_without_a_resource_manager_is_told(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_YARN_CLUSTER", json.dumps({"conn_type": "spark", "host": "yarn"}))
    with pytest.raises(AirflowFailException, match="yarn_resourcemanager_webapp_address"):
        cluster.run()
    assert cluster.submissions() == []


def test_an_unknown_connection_is_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_YARN_CLUSTER")
    with pytest.raises(AirflowFailException, match="knows no connection 'yarn_cluster'"):
        cluster.run()


def on_kubernetes(cluster: Cluster, more: str = "") -> None:
    path = cluster.space.project / "config/streams/counted.yaml"
    path.write_text(STREAM.format(more=KUBERNETES + more))


def pods(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of Kubernetes' client that the provider uses."""

    def read(name: str, namespace: str) -> Any:
        assert (name, namespace) == (pod_name(cluster.driver().driver_id), "streams")
        return SimpleNamespace(status=SimpleNamespace(phase=cluster.state.capitalize(), container_statuses=[]))

    client = SimpleNamespace(read_namespaced_pod=read)
    fake = SimpleNamespace(get_kube_client=lambda: client, ApiException=KeyError)
    monkeypatch.setattr(provider, "kube_client", fake, raising=False)
    monkeypatch.setattr(provider_operator, "kube_client", fake)


def test_without_kubernetes_client_it_is_told_which_package_is_missing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_kubernetes(cluster)
    monkeypatch.setattr(provider, "kube_client", None)
    with pytest.raises(AirflowFailException, match="cncf-kubernetes"):
        cluster.run()


def test_a_pod_is_submitted_and_followed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    on_kubernetes(cluster)
    pods(cluster, monkeypatch)
    cluster.states = ["PENDING", "RUNNING", "SUCCEEDED"]
    cluster.ends_as = ended(ExitKind.COMPLETED)
    assert cluster.run() is None
    (arguments,) = cluster.submissions()
    assert {each for each in arguments if each.startswith("--")} <= options()
    assert arguments[-2].startswith("local:///"), "the runner of the image, not one of this host"
    properties = (Path(cluster.driver().folder) / files.PROPERTIES).read_text()
    keys = dict(line.split("=", 1) for line in properties.splitlines())
    assert [key for key in keys if not knows(key)] == []
    assert keys["spark.kubernetes.container.image"] == "streamwarden:1"
    assert keys["spark.kubernetes.driverEnv.STREAMWARDEN_DATA"] == str(cluster.space.data)
    pod = pod_name(cluster.driver().driver_id)
    assert f"spark.kubernetes.driver.pod.name={pod}" in arguments
    assert cluster.remembered["spark_job_id"] == f"streams:{pod}"


def test_that_a_pod_succeeded_says_nothing_of_the_next_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider keeps the word `Succeeded` for a retry; a stream is started again, and found again, all the same."""
    test_a_pod_is_submitted_and_followed(cluster, monkeypatch)
    assert cluster.remembered["k8s_driver_status"] == "Succeeded"
    cluster.states, cluster.ends_as = ["PENDING", "RUNNING"], None
    cluster.waits = raising
    with pytest.raises(KeyboardInterrupt):
        cluster.run()
    assert len(cluster.submissions()) == 2
    with pytest.raises(KeyboardInterrupt):
        cluster.run()
    assert len(cluster.submissions()) == 2, "the second one is found"


def raising(seconds: float) -> None:
    raise KeyboardInterrupt


def test_a_password_does_not_go_into_a_pods_plain_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may see pods could read it: a secret of the cluster is asked for, and then used."""
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgresql://ann:hush@db/flights")
    pods(cluster, monkeypatch)
    stream = STREAM.replace("{{path: output/counted}}", "{{kind: postgresql, connection: warehouse, table: t}}")
    path = cluster.space.project / "config/streams/counted.yaml"
    path.write_text(stream.format(more=KUBERNETES))
    with pytest.raises(AirflowFailException, match="AIRFLOW_CONN_WAREHOUSE holds a secret"):
        cluster.run()
    assert cluster.submissions() == []
    reference = "spark.kubernetes.driver.secretKeyRef.AIRFLOW_CONN_WAREHOUSE"
    path.write_text(stream.format(more=f"{KUBERNETES}, conf: {{{reference}: 'streams:warehouse'}}"))
    cluster.states = ["PENDING", "FAILED"]
    cluster.run()
    properties = (Path(cluster.driver().folder) / files.PROPERTIES).read_text()
    assert f"{reference}=streams:warehouse" in properties
    assert "hush" not in properties
