"""The real node of `support.servers.kubernetes` is what it seems: containers with limits, names and addresses of
services, folders that pods share. Nothing stays on this machine of a cluster that has ended.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes")

from support.airflow.harness import wait_for
from support.hosts.host import SOURCE
from support.servers.kubernetes import cluster as clusters
from support.servers.kubernetes.cluster import Cluster
from support.servers.kubernetes.control_plane import NAME, SERVICE
from support.servers.kubernetes.images import PAUSE
from support.servers.kubernetes.real_node import CGROUPS, OWN

pytestmark = [pytest.mark.full, pytest.mark.timeout(600, func_only=True)]

ENDS_WITHIN = 90.0


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """A first build takes longer than a test may."""
    clusters.require()


@pytest.fixture(scope="module")
def cluster(built: None) -> Iterator[Cluster]:
    with clusters.cluster() as made:
        yield made


def run(cluster: Cluster, name: str, script: str) -> Any:
    """Start a pod of one container with BusyBox, 50 MiB and the shared folder as /shared."""
    container = {
        "name": "shell",
        "image": PAUSE,
        "command": ["sh", "-c", script],
        "resources": {"limits": {"memory": "50Mi"}},
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    }
    volume = {"name": "shared", "hostPath": {"path": str(SOURCE)}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    return cluster.plane.core().create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})


def ended(cluster: Cluster, name: str) -> Any:
    """How its container ended."""

    def state() -> Any:
        statuses = cluster.plane.core().read_namespaced_pod(name, "default").status.container_statuses
        return statuses[0].state.terminated if statuses else None

    return wait_for(f"the end of {name}", state, timeout=ENDS_WITHIN, explain=cluster.node.explain)


def test_a_pod_finds_the_api_server_by_its_name_and_reaches_it(cluster: Cluster) -> None:
    ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 5 {NAME} 443"
    run(cluster, "asks", f"busybox nslookup {NAME}.cluster.local; {ask}")
    ended(cluster, "asks")
    log = cluster.plane.core().read_namespaced_pod_log("asks", "default")
    assert SERVICE in log
    assert "Client sent an HTTP request to an HTTPS server" in log


def test_a_pod_that_takes_more_memory_than_its_limit_is_killed(cluster: Cluster) -> None:
    run(cluster, "hungry", "busybox tail /dev/zero")
    assert ended(cluster, "hungry").reason == "OOMKilled"


def test_a_pod_writes_into_the_shared_folder_and_its_process_is_found(cluster: Cluster) -> None:
    pod = run(cluster, "writes", "echo written >/shared/file; exec busybox tail -f /dev/null")
    file = cluster.shared / "file"
    wait_for("the file", file.exists, timeout=ENDS_WITHIN, explain=cluster.node.explain)
    assert file.read_text() == "written\n"
    (process,) = cluster.node.processes(pod)
    process.kill()
    assert ended(cluster, "writes").exit_code == 137


def traces() -> set[Path]:
    """What a cluster of this process, and a container runtime, would leave."""
    mine = f"streamwarden-{os.getpid()}-*"
    found = {*CGROUPS.glob(f"*/{mine}"), *CGROUPS.glob(mine), *Path("/run/netns").glob("cni-*")}
    found |= {
        Path(line.split()[1])
        for line in Path("/proc/mounts").read_text().splitlines()
        if "streamwarden-cluster" in line
    }
    places = ("cni", "kubelet", "containers", "pods")
    return found | {path for folder in OWN for place in places if (path := Path(folder, place)).exists()}


def test_nothing_stays_of_a_cluster() -> None:
    before = traces()
    with clusters.cluster() as made:
        run(made, "stays", "exec busybox tail -f /dev/null")

        def phase() -> bool:
            return bool(made.plane.core().read_namespaced_pod("stays", "default").status.phase == "Running")

        wait_for("the pod", phase, timeout=ENDS_WITHIN, explain=made.node.explain)
        during = traces()
    assert during > before, "the control groups, at least"
    assert traces() == before
