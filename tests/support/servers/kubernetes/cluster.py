"""A small real cluster on a network of its own: the control plane on one host, a node on another.

Nothing of it can be reached from outside of the network, so the test's own thread is in there, too, on the host of the
control plane. Pods find the API server and one another by the names that CoreDNS and kube-proxy serve, as everywhere.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.airflow.harness import wait_for
from support.hosts import network
from support.hosts.host import Host
from support.servers.kubernetes.control_plane import ADMIN, ControlPlane, control_plane
from support.servers.kubernetes.programs import DNS, KUBERNETES, NODE, programs
from support.servers.kubernetes.real_node import PACKAGES, RealNode
from support.servers.programs import unpacked

NAMES = """\
.:53 {{
    errors
    kubernetes cluster.local {{
        kubeconfig {config}
    }}
}}
"""


@dataclass(frozen=True)
class Cluster:
    """`shared` is a folder of this machine, which the node has as `support.hosts.host.SOURCE`."""

    plane: ControlPlane
    node: RealNode
    shared: Path
    address: str
    """Of the host of the control plane, on which the test can start servers for pods."""


def require() -> None:
    """Build or download everything, which the cluster's network does not allow; skip the test where that fails."""
    network.require()
    if shutil.which("iptables") is None:
        pytest.skip("the addresses of services need iptables: apt-get install iptables")
    for module in (KUBERNETES, NODE, DNS):
        programs(module)
    unpacked("containerd", PACKAGES)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster, of which nothing stays. This thread, and what it starts, is in its network meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-cluster-"))
    try:
        with ExitStack() as stack:
            net = stack.enter_context(network.network())
            here, there = net.plug("control"), net.plug("node-1")
            stack.enter_context(here.inhabited())
            plane = stack.enter_context(control_plane(here.address))
            stack.enter_context(_names(plane, folder))
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{there.address} {there.name}\n")
            shared = folder / "shared"
            shared.mkdir()
            host = Host(there, net, folder / there.name, shared, folder / "hosts")
            node = RealNode(plane, host, dns=here.address)
            stack.callback(node.end)
            stack.callback(host.power_off)
            host.power_on()
            node.start()
            yield Cluster(plane, node, shared, here.address)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _names(plane: ControlPlane, folder: Path) -> Iterator[None]:
    """CoreDNS, the server of the names of services, once it has asked the API server for them."""
    config = folder / "Corefile"
    config.write_text(NAMES.format(config=plane.kubeconfig(ADMIN)))
    log = folder / "coredns.log"
    with log.open("ab") as output:
        served = subprocess.Popen([programs(DNS)["coredns"], f"-conf={config}"], stdout=output, stderr=output)
    try:
        wait_for("CoreDNS", lambda: b"CoreDNS-" in log.read_bytes(), timeout=60, explain=lambda: log.read_text())
        yield
    finally:
        served.terminate()
        served.wait(timeout=30)
