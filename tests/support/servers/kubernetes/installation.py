"""Streamwarden on a real cluster, as docs/how-to/kubernetes.md installs it: its chart, by Helm, in pods of its image.

PostgreSQL runs on the host of the control plane. The volume of the chart's claim is a folder of the node, which the
test reads and writes, too: there is one node, so several pods can mount any of its folders.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from kubernetes.stream import stream

from streamwarden.adapters.store import Store
from streamwarden.clusters.kubernetes import LABEL, label_value, pod_name
from streamwarden.lifecycle.driver import DriverRecord
from support.airflow.harness import wait_for
from support.hosts.host import SOURCE
from support.servers import postgres_server
from support.servers.kubernetes.cluster import Cluster
from support.servers.kubernetes.control_plane import ADMIN
from support.servers.kubernetes.images import PRODUCT
from support.servers.kubernetes.namespace import CHART
from support.servers.kubernetes.programs import HELM, programs

IMAGE: Final = "registry.test/streamwarden:1"
NAMESPACE: Final = "streams"
USER: Final = 1000
STARTS_WITHIN: Final = 900.0

_ENV: Final = {
    "STREAMWARDEN_PROJECT": "/data/project",
    # 30 and 50 s are not enough on a machine that is busy with other tests.
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "180",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "200",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
}


@dataclass
class Installation:
    """Airflow's pods. `data` is the folder that they have as `/data`, `database` the URL of Airflow's own."""

    cluster: Cluster
    store: Store
    data: Path
    database: str

    def __post_init__(self) -> None:
        self.core = self.cluster.plane.core()

    def execute(self, component: str, *command: str) -> str:
        """What a command prints in the pod of one of Airflow's components."""
        (pod,) = self.component(component)
        return str(
            stream(
                self.core.connect_get_namespaced_pod_exec, pod.metadata.name, NAMESPACE, command=list(command),
                stdout=True, stderr=True, stdin=False, tty=False, _request_timeout=240,
            )
        )  # fmt: skip

    def knows(self, dag: str) -> bool:
        """Whether Airflow has read the file of a DAG; a command that asks for it takes seconds of processor time."""
        with sa.create_engine(self.database, poolclass=sa.NullPool).connect() as connection:
            found = connection.execute(sa.text("SELECT 1 FROM dag WHERE dag_id = :dag"), {"dag": dag})
            return found.first() is not None

    def component(self, name: str) -> list[Any]:
        """The pods of a component that are not being deleted."""
        selector = f"app=streamwarden,component={name}"
        found = self.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def pods(self, role: str, driver: str) -> list[Any]:
        """The pods of a driver, in which Spark's `driver` or an `executor` runs."""
        selector = f"spark-role={role},{LABEL}={label_value(driver)}"
        found = self.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return [pod for pod in found if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None]

    def pod(self, driver: str) -> Any:
        return self.core.read_namespaced_pod(pod_name(driver), NAMESPACE)

    def driver(self, name: str) -> DriverRecord | None:
        """The newest driver of a stream, once its query has started."""
        record = self.store.drivers.latest(name)
        return record if record is not None and record.run_id else None

    def await_ready(self) -> None:
        """Wait until each of Airflow's four pods is ready."""
        wait_for("Airflow's pods", self._ready, timeout=STARTS_WITHIN, poll=1, explain=self.explain)

    def _ready(self) -> bool:
        names = ("api-server", "dag-processor", "triggerer", "scheduler")
        pods = [pod for name in names for pod in self.component(name)]
        conditions = [condition for pod in pods for condition in pod.status.conditions or []]
        ready = [condition for condition in conditions if (condition.type, condition.status) == ("Ready", "True")]
        return (len(pods), len(ready)) == (4, 4)

    def explain(self) -> str:
        """Pods, events and the last lines of each container."""
        told = []
        for pod in self.core.list_namespaced_pod(NAMESPACE).items:
            states = [str(container.state.to_dict()) for container in pod.status.container_statuses or []]
            told.append(f"== {pod.metadata.name} {pod.status.phase} {states}\n{self._log(pod)}")
        for event in self.core.list_namespaced_event(NAMESPACE).items:
            if event.type != "Normal":
                told.append(f"{event.involved_object.name}: {event.reason}: {event.message}")
        return "\n".join(told)

    def _log(self, pod: Any) -> str:
        try:
            return str(self.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE, tail_lines=25))[-3000:]
        except Exception as error:  # it has no container yet, or its node does not answer
            return f"{type(error).__name__}"


@contextmanager
def installation(cluster: Cluster, image: Path) -> Iterator[Installation]:
    """An installed chart, with an empty project, once all its pods are ready."""
    cluster.node.take(image, PRODUCT, IMAGE)
    with postgres_server.running(cluster.address) as server:
        _prepare(cluster, server)
        _helm(cluster, "install", "streamwarden", str(CHART), f"--set=image={IMAGE}", *_options())
        store = Store(server.url("streamwarden"))
        made = Installation(cluster, store, cluster.shared, server.url("airflow"))
        made.await_ready()
        yield made
        store.close()


def _prepare(cluster: Cluster, server: postgres_server.PostgreSQL) -> None:
    """What is there before the chart: the namespace, the secret, a volume, and databases."""
    for path in (cluster.shared, *cluster.shared.rglob("*")):
        os.chown(path, USER, USER)
    core = cluster.plane.core()
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    airflow = server.create("airflow")
    values = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": airflow,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": airflow,
        "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "STREAMWARDEN_STORE_URL": server.create("streamwarden"),
    }
    core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "streamwarden"}, "stringData": values})
    volume = {
        "capacity": {"storage": "20Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": str(SOURCE), "type": "Directory"},
    }
    core.create_persistent_volume({"metadata": {"name": "data"}, "spec": volume})


def _options() -> list[str]:
    return [f"--set-string=env.{name}={value}" for name, value in _ENV.items()]


def _helm(cluster: Cluster, *arguments: str) -> None:
    config = f"--kubeconfig={cluster.plane.kubeconfig(ADMIN)}"
    command = [programs(HELM)["helm"], *arguments, config, f"--namespace={NAMESPACE}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
