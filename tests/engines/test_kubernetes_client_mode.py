"""A stream in client mode on Kubernetes: a real API server with RBAC, scheduler and garbage collector, real drivers and
real executors. For want of a kubelet, the pod of an executor is a local process of the image's entry point; see
`support.servers.kubernetes.node` for what that does not prove.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from streamwarden.adapters.jvm.java import find_java
from streamwarden.health.checks.driver import resources_pending
from streamwarden.health.signals.resources import WAITED
from streamwarden.health.thresholds import DEFAULTS
from streamwarden.health.verdict import Status, Verdict
from streamwarden.health.window import Window
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.spark.executors.watch import EXECUTOR_LOST
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import StreamSpec
from support.servers.kubernetes.control_plane import ControlPlane, control_plane
from support.servers.kubernetes.namespace import Namespace
from support.servers.kubernetes.node import IMAGE, Node, node
from support.spark.drivers import COUNTS, QUICK, Project, project, until

pytestmark = [pytest.mark.full, pytest.mark.spark, pytest.mark.timeout(900, func_only=True)]

MEMORY = 600 * 2**20


@dataclass
class Cluster:
    plane: ControlPlane
    namespace: Namespace
    node: Node
    home: Project

    def spec(self, name: str, *, account: str | None = None, **spark: Any) -> StreamSpec:
        given: dict[str, Any] = {
            "image": IMAGE,
            "executors": ExecutorsSpec(instances=1, cores=1, memory=MEMORY),
        } | spark
        conf = QUICK | self.namespace.conf(account) | {"spark.executor.heartbeatInterval": "1s"} | given.pop("conf", {})
        return self.home.spec(
            name,
            COUNTS,
            spark=SparkSpec(
                master=f"k8s://{self.plane.url}",
                driver_memory=700 * 2**20,
                namespace=self.namespace.name,
                service_account=self.namespace.account,
                conf=conf,
                **given,
            ),
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kubernetes")
    with control_plane() as plane, project(tmp_path_factory.mktemp("project")) as home:
        namespace = Namespace(plane, folder)
        namespace.make()
        variables = {"JAVA_HOME": str(find_java())}
        with node(plane, folder / "node", environment=variables) as made:
            yield Cluster(plane, namespace, made, home)


@dataclass
class Waits:
    """Drivers whose executors do not come: name of the stream -> driver."""

    specs: dict[str, StreamSpec]
    drivers: dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def waits(cluster: Cluster) -> Waits:
    """They are started before all else, and looked at last: what they wait for is named after a minute."""
    large = ExecutorsSpec(instances=1, cores=1, memory=100 * 2**30)
    specs = {
        "large": cluster.spec("large", executors=large),
        "imageless": cluster.spec("imageless", image="registry.test/missing:1"),
        "powerless": cluster.spec("powerless", account="powerless"),
    }
    return Waits(specs, {name: cluster.home.start(spec) for name, spec in specs.items()})


def told(cluster: Cluster, driver: str) -> str:
    pods = "\n".join(f"{pod}: {cluster.node.log(pod)}" for pod in cluster.node.ran)
    return f"{cluster.home.log(driver)}\n{pods}\n{cluster.node.failed[-3:]}"


@dataclass
class Ran:
    """A stream whose executor was killed."""

    cluster: Cluster
    spec: StreamSpec
    driver: str
    executors: list[Any]
    exit: Any


@pytest.fixture(scope="module")
def ran(cluster: Cluster) -> Ran:
    home, spec = cluster.home, cluster.spec("counts")
    home.publish(3)
    driver = home.start(spec)
    until("three batches", lambda: home.committed(spec) >= 3, told=lambda: told(cluster, driver))
    (first,) = cluster.namespace.pods("executor", driver)
    cluster.node.kill(first.metadata.name)
    home.publish(3)
    until("six batches", lambda: home.committed(spec) >= 6, told=lambda: told(cluster, driver))
    until(
        "the loss as an event",
        lambda: [event for event in home.store.drivers.events(driver) if event.kind == EXECUTOR_LOST],
        told=lambda: told(cluster, driver),
    )
    executors = [first, *cluster.namespace.pods("executor", driver)]
    stopped = home.fleet.stop(spec.name, requested_by="test", reason="all is read")
    assert stopped is not None
    return Ran(cluster, spec, driver, executors, stopped.exit)


def test_executors_run_in_pods_of_the_streams_image_and_account(ran: Ran) -> None:
    pod = ran.executors[0]
    assert pod.spec.containers[0].image == IMAGE
    assert pod.spec.service_account_name == ran.cluster.namespace.account
    assert pod.spec.containers[0].args == ["executor"]
    assert pod.spec.containers[0].resources.limits["memory"] == "984Mi", "600 MiB, and Spark's least overhead"


def test_a_killed_executor_is_replaced_and_the_driver_goes_on(ran: Ran) -> None:
    assert len({pod.metadata.name for pod in ran.executors}) >= 2
    latest = ran.cluster.home.store.drivers.latest(ran.spec.name)
    assert latest is not None
    assert latest.driver_id == ran.driver


def test_a_stop_ends_at_a_boundary_and_leaves_no_pod(ran: Ran) -> None:
    assert ran.exit.kind is ExitKind.STOPPED
    until("no executors", lambda: not ran.cluster.namespace.pods("executor", ran.driver))


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [("large", "Unschedulable", "Insufficient memory"), ("imageless", "ImagePullBackOff", "registry.test/missing:1")],
)
def test_what_executors_wait_for_is_named_after_a_minute(
    cluster: Cluster, waits: Waits, name: str, reason: str, said: str
) -> None:
    """The scheduler's and the node's own words, in the verdict of the check."""
    store, spec = cluster.home.store, waits.specs[name]

    def verdict() -> Verdict | None:
        record = store.drivers.get(waits.drivers[name])
        assert record is not None
        found = tuple(store.measurements.recent(name, 0))
        judged = resources_pending.check(
            Window(spec=spec, now=time.time(), measurements=found, drivers=(record,), driver_alive=True), DEFAULTS
        )
        return judged if judged.status is Status.WARNING else None

    judged = until("a warning", verdict, told=lambda: told(cluster, waits.drivers[name]))
    assert judged is not None
    waited = [each.value for each in store.measurements.recent(name, 0) if each.name == WAITED and each.value >= 60]
    assert min(waited) < 120, "by when it was a warning first; the tests before may have taken longer"
    assert "-exec-" in judged.reason
    assert reason in judged.reason
    assert said in judged.reason


def test_what_the_account_may_not_do_is_the_cause(cluster: Cluster, waits: Waits) -> None:
    end = cluster.home.await_end(waits.drivers["powerless"])
    assert end.kind is ExitKind.FAILED, end
    assert (end.cause, end.curable) == ("kubernetes_access_denied", False), end
    for word in ("configmaps is forbidden", "system:serviceaccount:streams:powerless", "cannot create"):
        assert word in end.message, end
    assert "give the account a role" in end.next_step


def test_a_driver_goes_on_while_the_api_server_is_away(cluster: Cluster) -> None:
    """It is needed for new executors alone. It is the last test: what follows would find the server just started."""
    home, spec = cluster.home, cluster.spec("meanwhile")
    driver = home.start(spec)
    until("a batch", lambda: home.committed(spec) >= 1, told=lambda: told(cluster, driver))
    cluster.plane.kill_api()
    before = home.committed(spec)
    home.publish(2)
    until("two batches", lambda: home.committed(spec) >= before + 2, told=lambda: told(cluster, driver))
    cluster.plane.start_api()
    stopped = home.fleet.stop(spec.name, requested_by="test", reason="all is read")
    assert stopped is not None
    assert stopped.exit is not None
    assert stopped.exit.kind is ExitKind.STOPPED, told(cluster, driver)
    until("no executors", lambda: not cluster.namespace.pods("executor", driver))
