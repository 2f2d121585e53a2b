"""A stream in cluster mode on Kubernetes, in the hands of Airflow's Spark provider: a real API server with RBAC,
scheduler and garbage collector, the real spark-submit, a real driver that asks for its executors from within. For want
of a kubelet, a pod is a local process of the image's entry point; see `support.servers.kubernetes.node` for what that
does not prove.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("kubernetes")

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-home-"))
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")

from airflow.providers.apache.spark.hooks import spark_submit as provider
from airflow.sdk.exceptions import AirflowSkipException, DownstreamTasksSkipped, TaskDeferred

from streamwarden.adapters.jvm.java import find_java
from streamwarden.airflow import notes
from streamwarden.airflow.operators import StreamOperator
from streamwarden.airflow.triggers import DriverTrigger
from streamwarden.airflow.workspaces import workspace
from streamwarden.clusters.kubernetes import pod_name
from streamwarden.health.signals.resources import WAITED
from streamwarden.health.window import Measurement
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.services.workspace import Workspace
from support.airflow.project import make_project
from support.servers.kubernetes.control_plane import ControlPlane, control_plane
from support.servers.kubernetes.namespace import Namespace
from support.servers.kubernetes.node import IMAGE, Node, node
from support.spark.drivers import COUNTS, QUICK, Project, until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(600, func_only=True)]

ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount"


class TaskState(dict[str, Any]):
    """What Airflow keeps of a task between its tries."""

    def set(self, key: str, value: Any) -> None:
        self[key] = value

    def delete(self, key: str) -> None:
        del self[key]


class WorkerDies(BaseException):
    """The end of the process that follows a driver."""


@dataclass
class Try:
    """One try of the stream's task, in a thread. `outcome`: the trigger that it waits for, or what it raised."""

    space: Workspace
    state: TaskState
    stream: str = "counted"
    dies: threading.Event = field(default_factory=threading.Event)
    outcome: Any = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        DYING[threading.get_ident()] = self.dies
        operator = StreamOperator(task_id="run", stream=self.stream, project=str(self.space.project))
        ti = SimpleNamespace(dag_id=f"stream_{self.stream}", run_id="r", try_number=1, stats_tags={})
        dag_run = SimpleNamespace(start_date=datetime.now(UTC))
        try:
            operator.execute({"ti": ti, "dag_run": dag_run, "task_state_store": self.state})
        except TaskDeferred as deferred:
            self.outcome = deferred.trigger
        except DownstreamTasksSkipped as skipped:
            self.outcome = skipped
        except BaseException as error:
            self.outcome = error

    def ended(self) -> Any:
        """Its outcome."""
        self._thread.join(timeout=240)
        assert not self._thread.is_alive(), "the try goes on"
        return self.outcome


DYING: dict[int, threading.Event] = {}


def soon(seconds: float) -> None:
    """In place of the provider's waits, of 20 s at least."""
    time.sleep(min(seconds, 1.0))
    if DYING[threading.get_ident()].is_set():
        raise WorkerDies


@dataclass
class Cluster:
    plane: ControlPlane
    namespace: Namespace
    node: Node
    space: Workspace
    input: Path

    def driver(self, stream: str = "counted") -> DriverRecord:
        latest = self.space.store.drivers.latest(stream)
        assert latest is not None
        return latest

    def committed(self) -> int:
        commits = Path(self.space.stream("counted").checkpoint) / "commits"
        return len([path for path in commits.iterdir() if path.name.isdigit()]) if commits.is_dir() else 0

    def told(self) -> str:
        logs = "\n".join(f"== {pod}: {self.node.log(pod)}" for pod in self.node.ran)
        return f"{logs}\n{self.node.failed[-3:]}"

    def await_batches(self, count: int) -> None:
        until(f"{count} batches", lambda: self.committed() >= count, told=self.told)


STREAM = """
name: {name}
job: spark_jobs/counting.py
source: {{path: {input}, max_files_per_trigger: 1}}
sink: {{path: output/{name}}}
checkpoint: checkpoints/{name}
trigger: {{processing_time: 1 second}}
state: {{shuffle_partitions: 1}}
stop: {{batch_deadline: 40s, term_deadline: 10s}}
restart: {{initial: 1s}}
spark:
  master: k8s://{url}
  deploy_mode: cluster
  image: {image}
  namespace: streams
  service_account: {account}
  driver_memory: {memory}
  executors: {{instances: 1, cores: 1, memory: 600 MB}}
  conf:
{conf}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes")
    root = make_project(tmp_path_factory.mktemp("project") / "project")
    with control_plane() as plane, pytest.MonkeyPatch.context() as patch:
        namespace = Namespace(plane, folder)
        namespace.make()
        data, given = folder / "data", folder / "input"
        given.mkdir()
        patch.setenv("STREAMWARDEN_PROJECT", str(root))
        patch.setenv("STREAMWARDEN_DATA", str(data))
        patch.delenv("STREAMWARDEN_STORE_URL", raising=False)
        patch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER", "False")
        config = plane.kubeconfig(plane.account("streams", "streamwarden"), "streams")
        patch.setenv("AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE", str(config))
        patch.setattr(provider, "time", SimpleNamespace(sleep=soon, time=time.time))
        patch.setattr(notes, "annotate", lambda ti, note, **_: None)
        (root / "spark_jobs" / "counting.py").write_text(COUNTS)
        streams = root / "config/streams"
        for path in streams.glob("*.yaml"):
            path.unlink()
        for name, account, memory in (
            ("counted", "streamwarden", "700 MB"),
            ("large", "streamwarden", "100 GB"),
            ("refused", "powerless", "700 MB"),
        ):
            conf = QUICK | {
                "spark.kubernetes.authenticate.submission.caCertFile": str(plane.certificate),
                "spark.kubernetes.authenticate.submission.oauthTokenFile": str(namespace.token(account)),
                "spark.kubernetes.driver.master": plane.url,  # the name kubernetes.default.svc is the cluster's own
                "spark.kubernetes.authenticate.driver.mounted.caCertFile": f"{ACCOUNT_FILES}/ca.crt",
                "spark.kubernetes.authenticate.driver.mounted.oauthTokenFile": f"{ACCOUNT_FILES}/token",
            }
            lines = "\n".join(f'    {key}: "{value}"' for key, value in conf.items())
            (streams / f"{name}.yaml").write_text(
                STREAM.format(
                    name=name,
                    input=given,
                    url=plane.url,
                    image=IMAGE,
                    account=namespace.account,
                    memory=memory,
                    conf=lines,
                )
            )
        workspace.cache_clear()
        space = workspace(str(root))
        variables = {"JAVA_HOME": str(find_java())}
        with node(plane, folder / "node", environment=variables) as made:
            yield Cluster(plane, namespace, made, space, given)
        space.close()
        workspace.cache_clear()


class Input(Project):
    """Only the part of a project that publishes files."""

    def __init__(self, folder: Path) -> None:
        self.input, self.published, self.began = folder, 0, int(time.time()) - 3600


@pytest.fixture(scope="module", autouse=True)
def large(cluster: Cluster) -> Try:
    """A driver for which no node has room: it is submitted before all else, and looked at last."""
    return Try(cluster.space, TaskState(), "large")


@dataclass
class Lived:
    cluster: Cluster
    first: DriverRecord
    pods: list[Any]
    followed: int
    """Drivers that were submitted until the pod was deleted."""
    by_lease: Any
    end: Any


@pytest.fixture(scope="module")
def lived(cluster: Cluster) -> Lived:
    """A driver whose follower dies, which other tries find, and whose pod is deleted."""
    files, state = Input(cluster.input), TaskState()
    files.publish(3)
    first = Try(cluster.space, state)
    cluster.await_batches(3)
    driver = cluster.driver()
    pods = cluster.namespace.pods("driver", driver.driver_id)
    first.dies.set()
    first.ended()
    another_run = Try(cluster.space, TaskState()).ended()
    second = Try(cluster.space, state)
    files.publish(2)
    cluster.await_batches(5)
    submitted = len(cluster.space.store.drivers.history("counted", 0))
    (pod,) = pods
    cluster.namespace.core.delete_namespaced_pod(pod.metadata.name, "streams")
    until("the next driver", lambda: cluster.driver().driver_id != driver.driver_id, told=cluster.told)
    files.publish(1)
    cluster.await_batches(6)
    cluster.space.fleet.request_stop("counted", requested_by="test", reason="all is read")
    return Lived(cluster, driver, pods, submitted, another_run, second.ended())


def test_the_pod_is_the_drivers_with_the_streams_image_and_account(lived: Lived) -> None:
    (pod,) = lived.pods
    assert pod.metadata.name == pod_name(lived.first.driver_id)
    assert pod.spec.containers[0].image == IMAGE
    assert pod.spec.service_account_name == lived.cluster.namespace.account


def test_the_next_try_follows_the_pod_and_submits_none(lived: Lived) -> None:
    assert len(lived.pods) == 1
    assert lived.followed == 1, "the second try found what the first one had submitted"


def test_another_run_follows_it_by_its_lease(lived: Lived) -> None:
    assert isinstance(lived.by_lease, DriverTrigger), lived.by_lease
    assert lived.by_lease.driver_id == lived.first.driver_id


def test_a_deleted_pod_ends_at_a_batch_boundary(lived: Lived) -> None:
    grace = lived.pods[0].spec.termination_grace_period_seconds
    assert grace > 50, "a stop may take 50 s"
    record = lived.cluster.space.store.drivers.get(lived.first.driver_id)
    assert record is not None
    assert record.exit is not None
    assert record.exit.kind is ExitKind.STOPPED, (record.exit, lived.cluster.told())
    assert "Kubernetes" in record.exit.message
    assert record.exit.cut_batch is False


def test_the_task_submits_the_next_driver_which_a_stop_ends_at_a_boundary(lived: Lived) -> None:
    newest = lived.cluster.driver()
    assert newest.driver_id != lived.first.driver_id
    assert newest.exit is not None
    assert (newest.exit.kind, newest.exit.cut_batch) == (ExitKind.STOPPED, False), newest.exit
    assert newest.exit.message == "stopped by test: all is read"
    assert isinstance(lived.end, AirflowSkipException), lived.end


def test_a_pod_without_room_is_named_while_the_task_waits(cluster: Cluster, large: Try) -> None:
    def sample() -> Measurement | None:
        found = [each for each in cluster.space.store.measurements.recent("large", 0) if each.name == WAITED]
        return found[-1] if found and found[-1].value >= 60 else None

    waited = until("a minute", sample, told=lambda: repr(large.outcome))
    assert waited is not None
    assert waited.source.startswith(f"its pod {pod_name(cluster.driver('large').driver_id)}: Unschedulable (0/1 nodes")
    large.dies.set()
    large.ended()


def test_a_submission_that_is_refused_names_account_verb_and_resource(cluster: Cluster) -> None:
    Try(cluster.space, TaskState(), "refused").ended()
    end = cluster.driver("refused").exit
    assert end is not None
    assert (end.kind, end.cause, end.curable) == (ExitKind.FAILED, "kubernetes_access_denied", False), end
    assert "system:serviceaccount:streams:powerless" in end.message, end
    assert 'resource "' in end.message
    assert "give the account a role" in end.next_step
