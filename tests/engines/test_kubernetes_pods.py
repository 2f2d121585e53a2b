"""Streamwarden on a real Kubernetes: its image in the pods of a real kubelet, Airflow installed with its chart, streams
as docs/how-to/kubernetes.md writes them.

1. Airflow's four components become ready.
2. Cluster mode: a stream commits from its own pods. An executor is killed and replaced, the driver's container is
   killed and another driver starts, the driver's pod is deleted and ends at a batch boundary.
3. Drivers that cannot get a pod, for want of memory or of an image, say so in the cluster's own words.
4. Client mode: the driver runs in the scheduler's pod, and an executor is killed and replaced.
5. The scheduler's pod is deleted: the driver in it ends at a batch boundary and is started again by the next one. The
   driver in cluster mode goes on, and the task that follows it holds the pod for a minute and no longer.
6. A stop ends both. Every number of the input is once in each output; the comparison sees one that is not.

`support.servers.kubernetes.cluster` says what is real. Unlike on a cluster of several machines there is one node, the
network of its pods is a bridge, and the volume that all pods mount is one of its folders.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import yaml

pytest.importorskip("kubernetes")

from kubernetes.client import ApiException

from streamwarden.clusters.kubernetes import pod_name
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from support.airflow.harness import REPOSITORY, wait_for
from support.servers.kubernetes import cluster as clusters
from support.servers.kubernetes.ids import Ids
from support.servers.kubernetes.images import product
from support.servers.kubernetes.installation import IMAGE, NAMESPACE, STARTS_WITHIN, USER, Installation, installation
from support.servers.kubernetes.programs import HELM, programs
from support.spark.drivers import QUICK

pytestmark = [pytest.mark.full, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(3600)]

PAGE = (REPOSITORY / "docs" / "how-to" / "kubernetes.md").read_text()
SOON = 300.0
SMALL = QUICK | {
    "spark.kubernetes.driver.request.cores": "0.1",
    "spark.kubernetes.executor.request.cores": "0.1",
}
"""The page's settings are those of a cluster that has more than two cores."""

MODES = ("in_cluster", "in_client")
PATIENCE = 60.0
"""Seconds that the entry point of the scheduler's pod gives tasks that still run when the drivers have ended."""

MEMORY = {"driver_memory": "700 MiB", "executors": {"instances": 2, "cores": 1, "memory": "600 MiB"}}


def spark(title: str, **changes: Any) -> dict[str, Any]:
    """`spark:` of the stream in a section of the page, with the test's image and less memory."""
    section = PAGE.partition(f"## {title}\n")[2]
    found = re.search(r"^```yaml\n(spark:.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    written = yaml.safe_load(found[1])["spark"]
    return {**written, **MEMORY, "image": IMAGE, "conf": written["conf"] | SMALL} | changes


@dataclass
class Site:
    """The installation, and its streams by name."""

    installed: Installation
    streams: dict[str, Ids]

    def command(self, *words: str) -> str:
        """What a command of a person prints, in the pod of the scheduler."""
        return self.installed.execute("scheduler", *words)

    def unpause(self, name: str) -> None:
        dag = f"stream_{name}"
        wait_for(
            f"the DAG of {name}",
            lambda: self.installed.knows(dag),
            timeout=STARTS_WITHIN,
            poll=2,
            explain=self.installed.explain,
        )
        self.command("airflow", "dags", "unpause", dag)

    def driver(self, name: str, after: DriverRecord | None = None) -> DriverRecord:
        """The newest driver of a stream, once its query has started; another one than `after`."""

        def newer() -> DriverRecord | None:
            found = self.installed.driver(name)
            return found if found is not None and (after is None or found.driver_id != after.driver_id) else None

        found = wait_for(f"a driver of {name}", newer, timeout=SOON, poll=0.5, explain=self.installed.explain)
        assert found is not None
        return found

    def goes_on(self, name: str) -> None:
        """Two batches more are committed."""
        ids = self.streams[name]
        before = ids.committed()
        with ids.producing(every=1.0):
            wait_for(
                f"batches of {name}",
                lambda: ids.committed() >= before + 2,
                timeout=SOON,
                explain=self.installed.explain,
            )

    def executors(self, driver: DriverRecord, count: int, without: frozenset[str] = frozenset()) -> list[Any]:
        """The pods of running executors, so many, without some names."""

        def found() -> list[Any]:
            pods = self.installed.pods("executor", driver.driver_id)
            others = [pod for pod in pods if pod.metadata.name not in without]
            return others if len(others) >= count else []

        return wait_for(f"{count} executors", found, timeout=SOON, poll=0.5, explain=self.installed.explain)

    def kill(self, pod: Any) -> None:
        """SIGKILL to every process of a pod."""
        found = self.installed.cluster.node.processes(pod)
        assert found, f"{pod.metadata.name} has no processes"
        for process in found:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def exit(self, driver: DriverRecord) -> ExitRecord:
        """How a driver ended."""

        def ended() -> ExitRecord | None:
            record = self.installed.store.drivers.get(driver.driver_id)
            return record.exit if record is not None else None

        found = wait_for(f"the end of {driver.driver_id}", ended, timeout=SOON, explain=self.installed.explain)
        assert found is not None
        return found

    def await_gone(self, pod: Any) -> float:
        """How many seconds a deleted pod is still there."""
        began = time.monotonic()
        core = self.installed.core

        def gone() -> bool:
            try:
                found = core.read_namespaced_pod(pod.metadata.name, NAMESPACE)
            except ApiException as error:
                return bool(error.status == 404)
            return bool(found.metadata.uid != pod.metadata.uid)

        wait_for(f"the end of {pod.metadata.name}", gone, timeout=SOON, poll=0.2, explain=self.installed.explain)
        return time.monotonic() - began

    def await_all(self, name: str) -> None:
        """All input of a stream is in its output."""
        ids = self.streams[name]
        wait_for(
            f"all input of {name}",
            lambda: set(ids.delivered()) >= ids.expected,
            timeout=SOON,
            poll=1,
            explain=self.installed.explain,
        )


def faults(expected: set[int], found: Counter[int]) -> tuple[set[int], set[int], set[int]]:
    """Numbers that are lost, that are there more than once, and that nobody published."""
    return expected - set(found), {number for number, count in found.items() if count > 1}, set(found) - expected


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    clusters.require()
    programs(HELM)
    with product(tmp_path_factory.mktemp("image")) as image, clusters.cluster() as made:
        places = (made.shared / "project", made.shared / "streams")
        in_cluster = "A stream in cluster mode"
        declared = {
            "in_cluster": spark(in_cluster),
            "in_client": spark("A stream in client mode"),
            "large": spark(in_cluster, driver_memory="100 GB"),
            "imageless": spark(in_cluster, image="registry.test/missing:1"),
        }
        policy = {"restart": {"initial": "1s"}, "stop": {"batch_deadline": "40s", "term_deadline": "10s"}}
        streams = {name: Ids(*places, name=name, spark=settings, **policy) for name, settings in declared.items()}
        with installation(made, image) as installed:
            yield Site(installed, streams)


def test_airflow_becomes_ready_in_pods_of_the_image(site: Site) -> None:
    """Each process is of the image's user, whom the pods do not let become root."""
    node = site.installed.cluster.node
    for name in ("api-server", "dag-processor", "triggerer", "scheduler"):
        (pod,) = site.installed.component(name)
        assert [container.restart_count for container in pod.status.container_statuses] == [0], site.installed.explain()
        assert {process.uids().real for process in node.processes(pod)} == {USER}
    for name in ("large", "imageless"):
        site.unpause(name)


def test_cluster_mode_runs_driver_and_executors_in_pods_of_the_image(site: Site) -> None:
    site.unpause("in_cluster")
    site.goes_on("in_cluster")
    driver = site.driver("in_cluster")
    (pod,) = site.installed.pods("driver", driver.driver_id)
    executors = site.executors(driver, 2)
    for found, role in ((pod, "driver"), *((executor, "executor") for executor in executors)):
        container = found.spec.containers[0]
        assert (container.image, container.args[0]) == (IMAGE, role)
        assert {process.uids().real for process in site.installed.cluster.node.processes(found)} == {USER}


def test_an_executor_that_is_killed_is_replaced(site: Site) -> None:
    driver = site.driver("in_cluster")
    before = site.executors(driver, 2)
    site.kill(before[0])
    site.executors(driver, 1, without=frozenset(pod.metadata.name for pod in before))
    site.goes_on("in_cluster")
    assert site.driver("in_cluster").driver_id == driver.driver_id


def test_another_driver_starts_where_the_container_of_one_is_killed(site: Site) -> None:
    driver = site.driver("in_cluster")
    began = time.monotonic()
    site.kill(site.installed.pod(driver.driver_id))
    site.driver("in_cluster", after=driver)
    print(f"the next driver's query after {time.monotonic() - began:.0f} s")
    end = site.exit(driver)
    assert (end.kind, end.cause) == (ExitKind.FAILED, "container_lost"), end
    site.goes_on("in_cluster")


def test_the_log_of_a_driver_that_was_killed_is_kept(site: Site) -> None:
    """Its pod is there, too, and says the same."""
    core = site.installed.core
    (driver,) = [record for record in site.installed.store.drivers.history("in_cluster", 0) if record.exit is not None]
    name = pod_name(driver.driver_id)
    written = core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False).data.decode().splitlines()
    shown = site.command("streamwarden", "logs", "in_cluster", "--driver", driver.driver_id, "-n", "1000")
    assert written[-1] in shown


def test_a_deleted_pod_ends_at_a_batch_boundary_within_its_grace(site: Site) -> None:
    driver = site.driver("in_cluster")
    pod = site.installed.pod(driver.driver_id)
    with site.streams["in_cluster"].producing(every=1.0):
        site.installed.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)
        took = site.await_gone(pod)
    print(f"the pod was gone after {took:.1f} s")
    assert took < pod.spec.termination_grace_period_seconds
    end = site.exit(driver)
    assert (end.kind, end.cut_batch) == (ExitKind.STOPPED, False), end
    assert "Kubernetes" in end.message
    site.driver("in_cluster", after=driver)
    site.goes_on("in_cluster")


@pytest.mark.parametrize(
    ("name", "reason", "said"),
    [("large", "Unschedulable", "Insufficient memory"), ("imageless", "ImagePullBackOff", "registry.test/missing:1")],
)
def test_what_a_driver_waits_for_is_named_in_the_clusters_own_words(
    site: Site, name: str, reason: str, said: str
) -> None:
    told = wait_for(
        f"a warning of {name}",
        lambda: text if reason in (text := site.command("streamwarden", "check", name)) else "",
        timeout=SOON,
        poll=2,
        explain=site.installed.explain,
    )
    assert "WARNING" in told
    assert said in " ".join(told.split())
    site.command("streamwarden", "stop", name)


def test_client_mode_replaces_an_executor(site: Site) -> None:
    site.unpause("in_client")
    site.goes_on("in_client")
    driver = site.driver("in_client")
    before = site.executors(driver, 2)
    site.kill(before[0])
    site.executors(driver, 1, without=frozenset(pod.metadata.name for pod in before))
    site.goes_on("in_client")
    assert site.driver("in_client").driver_id == driver.driver_id


def test_a_deleted_pod_of_the_scheduler_drains_its_drivers_and_ends_a_minute_later(site: Site) -> None:
    """Airflow's scheduler waits for its tasks for ever, among them the one that follows the driver in cluster mode."""
    inside, outside = site.driver("in_client"), site.driver("in_cluster")
    (pod,) = site.installed.component("scheduler")
    began = time.monotonic()
    with site.streams["in_client"].producing(every=1.0):
        site.installed.core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)
        end = site.exit(inside)
    site.await_gone(pod)
    took, later = time.monotonic() - began, time.time() - end.ended_at
    print(f"the scheduler's pod was gone after {took:.1f} s, {later:.1f} s after its driver")
    assert (end.kind, end.cut_batch) == (ExitKind.STOPPED, False), end
    assert "the scheduler's container stops" in end.message
    assert took < pod.spec.termination_grace_period_seconds
    assert PATIENCE <= later < PATIENCE + 30
    site.driver("in_client", after=inside)
    for name in MODES:
        site.goes_on(name)
    assert site.driver("in_cluster").driver_id == outside.driver_id
    site.installed.await_ready()


@pytest.mark.parametrize("name", MODES)
def test_a_stop_ends_at_a_batch_boundary_and_leaves_no_executor(site: Site, name: str) -> None:
    driver = site.driver(name)
    site.await_all(name)
    site.command("streamwarden", "stop", name, "--reason", "all is read")
    end = site.exit(driver)
    assert (end.kind, end.cut_batch) == (ExitKind.STOPPED, False), end
    wait_for("no executors", lambda: not site.installed.pods("executor", driver.driver_id), timeout=SOON)


@pytest.mark.parametrize("name", MODES)
def test_each_number_was_delivered_once(site: Site, name: str) -> None:
    ids = site.streams[name]
    assert ids.published >= 8, "the tests above waited for batches"
    assert faults(ids.expected, ids.delivered()) == (set(), set(), set())


def test_the_comparison_sees_a_lost_number(site: Site, tmp_path: Path) -> None:
    """In a copy of an output that the test above compared."""
    ids = site.streams["in_cluster"]
    before = ids.delivered()
    given, ids.output = ids.output, tmp_path / "output"
    try:
        shutil.copytree(given, ids.output)
        file = next(path for path in sorted(ids.output.glob("part-*.parquet")) if pq.read_table(path).num_rows > 1)
        table = pq.read_table(file)
        pq.write_table(table.slice(1), file)
        missing = table["id"][0].as_py()
        assert faults(set(before), ids.delivered()) == ({missing}, set(), set())
    finally:
        ids.output = given
