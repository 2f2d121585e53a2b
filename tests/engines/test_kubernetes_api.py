"""What Streamwarden's own client reads of a real API server, as each kind of account; no Spark runs here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from streamwarden.adapters.kubernetes.api import AccessDenied, ApiServer
from streamwarden.adapters.kubernetes.credentials import Credentials, find
from streamwarden.clusters.kubernetes import KUBERNETES, LABEL, label_value
from streamwarden.clusters.waiting import Waiting
from streamwarden.errors import ProcessError
from streamwarden.services.fleet.applications import application_of
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.servers.kubernetes.control_plane import ControlPlane, control_plane
from support.servers.kubernetes.namespace import Namespace
from support.servers.kubernetes.node import IMAGE, Node, node
from support.spark.drivers import until

pytestmark = [pytest.mark.full, pytest.mark.timeout(300, func_only=True)]

DRIVER = "counts-20260102T030405-9f86d081"


@dataclass
class Server:
    plane: ControlPlane
    namespace: Namespace
    node: Node

    def spec(self, account: str | None = None, mode: DeployMode = DeployMode.CLIENT) -> StreamSpec:
        part = "submission." if mode is DeployMode.CLUSTER else ""
        conf = self.namespace.conf(account)
        given = {key.replace("authenticate.", f"authenticate.{part}"): value for key, value in conf.items()}
        spark = SparkSpec(
            master=f"k8s://{self.plane.url}", deploy_mode=mode, image=IMAGE, namespace="streams", conf=given
        )
        return StreamSpec(name="counts", job="/p/counts.py", checkpoint="/c", spark=spark)

    def pod(self, role: str, image: str = IMAGE, memory: str = "1Mi") -> str:
        resources = {"requests": {"memory": memory}}
        container = {"name": "spark", "image": image, "args": ["sleep", "300"], "resources": resources}
        name = f"counts-{role}"
        document = {
            "metadata": {"name": name, "labels": {LABEL: label_value(DRIVER), "spark-role": role}},
            "spec": {"serviceAccountName": "streamwarden", "restartPolicy": "Never", "containers": [container]},
        }
        self.namespace.core.create_namespaced_pod("streams", document)
        return name

    def waits(self, spec: StreamSpec) -> Waiting | None:
        application = application_of(spec, DRIVER, {})
        assert application is not None
        assert KUBERNETES.waits is not None
        description = application.describe()
        return None if description is None else KUBERNETES.waits(description)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def server(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("kubernetes")
    namespace = Namespace(plane, folder)
    namespace.make()
    with node(plane, folder / "node") as made:
        yield Server(plane, namespace, made)


@pytest.fixture(autouse=True)
def no_pods(server: Server) -> Iterator[None]:
    yield
    for pod in server.namespace.core.list_namespaced_pod("streams").items:
        server.namespace.core.delete_namespaced_pod(pod.metadata.name, "streams", grace_period_seconds=0)
    until("no pods", lambda: not server.namespace.core.list_namespaced_pod("streams").items, 20)


@pytest.mark.parametrize("mode", list(DeployMode))
def test_a_pod_without_room_waits_and_one_that_runs_does_not(server: Server, mode: DeployMode) -> None:
    spec = server.spec(mode=mode)
    assert server.waits(spec) is None, "no pod is known"
    server.pod("driver", memory="100Gi")
    found = until("the scheduler's word", lambda: _named(server.waits(spec)))
    assert found.what == "its pod counts-driver: Unschedulable"
    assert "Insufficient memory" in found.said
    server.namespace.core.delete_namespaced_pod("counts-driver", "streams", grace_period_seconds=0)
    server.pod("executor")
    until("a pod that runs", lambda: server.waits(spec) is None)


def _named(found: Waiting | None) -> Waiting | None:
    """The scheduler and the node need a moment before they say why."""
    return None if found is None or "gives no reason" in found.what else found


def test_an_image_that_cannot_be_pulled_is_named(server: Server) -> None:
    server.pod("executor", image="registry.test/missing:1")
    found = until("the node's word", lambda: _named(server.waits(server.spec())))
    assert "ImagePullBackOff" in found.what
    assert "registry.test/missing:1" in found.said


def test_a_driver_is_killed_by_its_pod(server: Server) -> None:
    server.pod("driver")
    until("a process", lambda: server.node.containers)
    application = application_of(server.spec(), DRIVER, {})
    assert application is not None
    assert application.identifier() == "streams:counts-driver"
    assert application.kill()
    assert application.identifier() is None
    until("no process", lambda: not server.node.containers)
    assert not application.kill()


def test_what_the_account_may_not_do_is_said(server: Server) -> None:
    """The four parts: what was refused, to whom, where, and the way on."""
    with pytest.raises(AccessDenied) as refused:
        server.waits(server.spec("powerless"))
    assert 'User "system:serviceaccount:streams:powerless" cannot list resource "pods"' in refused.value.observed
    assert "/api/v1/namespaces/streams/pods" in refused.value.where
    assert refused.value.expected
    assert "Role" in refused.value.next_step


def test_without_the_right_to_events_the_pods_are_read_all_the_same(server: Server) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "pods"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }  # fmt: skip
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "pods"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "streams"}],
    }  # fmt: skip
    server.plane.apply([role, binding], "streams")
    server.pod("driver", memory="100Gi")
    assert until("the scheduler's word", lambda: _named(server.waits(server.spec("reader"))))


def test_a_kubeconfig_is_enough(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"KUBECONFIG": str(server.plane.kubeconfig(server.plane.account("streams", "streamwarden")))}
    credentials = find({}, "spark.kubernetes.authenticate.", environ)
    assert ApiServer(url=server.plane.url, namespace="streams", credentials=credentials).pods(LABEL) == []


def test_a_server_that_is_away_is_no_refusal(server: Server, tmp_path: Path) -> None:
    away = ApiServer(url="https://127.0.0.1:1", namespace="streams", credentials=Credentials(token="x"))
    with pytest.raises(ProcessError, match="does not answer") as error:
        away.pods(LABEL)
    assert not isinstance(error.value, AccessDenied)


def test_what_nothing_was_changed_for_stays(server: Server) -> None:
    """A selector of another driver finds nothing."""
    server.pod("driver")
    other: Any = application_of(server.spec(), "other-20260102T030405-00000000", {})
    assert other.describe() is None
    assert not other.kill()
