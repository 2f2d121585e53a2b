"""A real node of the test's Kubernetes: containerd and runc of Debian, the kubelet and kube-proxy of Kubernetes' own.

The node is a host of `support.hosts`: its processes, mounts and network are its own, and the kernel ends them with it.
Its containers have their limits in control groups of its own below `CGROUPS`, which are removed at the end. Pods have
addresses of a bridge on the node (CNI's plugins `bridge` and `portmap`), and no way out of the test's network: no image
of a registry can be pulled.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from support.airflow.harness import wait_for
from support.hosts.host import LOCAL, Host
from support.servers.kubernetes.control_plane import ADMIN, SERVICE, ControlPlane
from support.servers.kubernetes.images import PAUSE, archive
from support.servers.kubernetes.programs import NODE, programs
from support.servers.programs import unpacked

PACKAGES: Final = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
CGROUPS: Final = Path("/sys/fs/cgroup")
PODS: Final = "10.78.0.0/24"
STARTS_WITHIN, IMPORTS_WITHIN = 120.0, 600.0
OWN: Final = ("/run", "/opt", "/var/lib", "/var/log")
"""Folders in which a container runtime and a kubelet keep files whatever they are told: the node has others there."""

_SOCKET: Final = LOCAL / "containerd.sock"
_CONTAINERD: Final = """\
version = 2
root = "{local}/containerd"
state = "{local}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{programs}/usr/lib/cni"
  conf_dir = "{local}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "{programs}/usr/sbin/runc"
"""
_NETWORK: Final = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods0",
            "isGateway": True,
            "ipMasq": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "subnet": PODS,
                "routes": [{"dst": "0.0.0.0/0"}],
                "dataDir": f"{LOCAL}/ipam",
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


@dataclass
class RealNode:
    """A node, on a host that is on.

    Args:
        dns: address of the cluster's server of names.
    """

    plane: ControlPlane
    host: Host
    dns: str

    def __post_init__(self) -> None:
        self.name = self.host.name
        self.cgroup = self.host.plug.namespace
        self._programs = unpacked("containerd", PACKAGES)
        self._servers = programs(NODE)
        self._env = {"PATH": f"{self._programs}/usr/bin:{self._programs}/usr/sbin:{os.environ['PATH']}"}

    def start(self) -> None:
        """Start containerd, the kubelet and kube-proxy, and wait until the node is ready."""
        self._lay_out()
        for folder in OWN:
            self.host.run(["mount", "-t", "tmpfs", "tmpfs", folder]).check_returncode()
        self._start("containerd", [f"{self._programs}/usr/bin/containerd", f"--config={LOCAL}/containerd.toml"])
        wait_for("containerd", lambda: self._ctr("version").returncode == 0, timeout=60, explain=self.explain)
        busybox = {"bin/busybox": (self._programs / "bin/busybox").read_bytes()}
        busybox |= {f"bin/{name}": busybox["bin/busybox"] for name in ("sh", "sleep")}
        self.take(archive(self.host.disk / "pause.tar", PAUSE, busybox, ["sleep", "2147483647"]))
        shutil.copy(self.plane.kubeconfig(ADMIN), self.host.disk / "kubeconfig")
        config, named = f"--kubeconfig={LOCAL}/kubeconfig", f"--hostname-override={self.name}"
        self._start(
            "kubelet",
            [
                self._servers["kubelet"], config, named, f"--config={LOCAL}/kubelet.json",
                f"--root-dir={LOCAL}/kubelet", f"--cert-dir={LOCAL}/certificates", f"--node-ip={self.host.address}",
            ],
        )  # fmt: skip
        self._start(
            "kube-proxy",
            [
                self._servers["kube-proxy"], config, named, "--proxy-mode=iptables", f"--cluster-cidr={PODS}",
                # Only the machine's own network may change these.
                "--conntrack-max-per-core=0", "--conntrack-min=0", "--conntrack-tcp-timeout-established=0",
                "--conntrack-tcp-timeout-close-wait=0",
            ],
        )  # fmt: skip
        wait_for("the node", self._ready, timeout=STARTS_WITHIN, explain=self.explain)

    def take(self, image: Path, *names: str) -> None:
        """Give the node an image, as `docker save` wrote it; `names`: its own, and another one that pods use."""
        with image.open("rb") as file:
            self._done("images", "import", "-", stdin=file)
        if names:
            known, new = names
            self._done("images", "tag", f"docker.io/library/{known}", new)

    def processes(self, pod: Any) -> list[psutil.Process]:
        """Those of a pod, as this machine numbers them; without those that keep its namespaces."""
        found = []
        for file in self._group("pids").rglob("cgroup.procs"):
            if pod.metadata.uid in str(file).replace("_", "-"):
                with contextlib.suppress(psutil.NoSuchProcess, OSError):
                    found += [psutil.Process(int(pid)) for pid in file.read_text().split()]
        return [process for process in found if process.name() != "sleep"]

    def end(self) -> None:
        """Remove the control groups of the node, whose host is off."""
        for group in (CGROUPS / self.cgroup, *CGROUPS.glob(f"*/{self.cgroup}")):
            for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                _remove(folder)
            _remove(group)

    def explain(self) -> str:
        """The last of what the node's servers wrote."""
        logs = sorted(self.host.disk.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in logs)

    def _lay_out(self) -> None:
        disk = self.host.disk
        words = {"local": LOCAL, "socket": _SOCKET, "pause": PAUSE, "programs": self._programs}
        (disk / "containerd.toml").write_text(_CONTAINERD.format(**words))
        (disk / "cni").mkdir()
        (disk / "cni" / "pods.conflist").write_text(json.dumps(_NETWORK))
        (disk / "kubelet.json").write_text(json.dumps(self._kubelet()))
        for group in self._groups():
            group.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):  # a new group of cgroup v1 has no cores
                if (group / setting).exists():
                    (group / setting).write_text((group.parent / setting).read_text())

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.host.address,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "clusterDNS": [self.dns],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,  # of the machine's disk, which others fill
            "podLogsDir": f"{LOCAL}/pods",
            "resolvConf": "",
            "volumePluginDir": f"{LOCAL}/plugins",
        }

    def _ready(self) -> bool:
        nodes = self.plane.core().list_node(field_selector=f"metadata.name={self.name}").items
        conditions = {found.type: found.status for node in nodes for found in node.status.conditions or []}
        ready = conditions.get("Ready") == "True" and not any(node.spec.taints for node in nodes)
        return ready and f"-d {SERVICE}" in self.host.run(["iptables", "-t", "nat", "-S"]).stdout

    def _start(self, name: str, command: Sequence[str]) -> None:
        with (self.host.disk / f"{name}.log").open("ab") as log:
            self.host.start(command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _ctr(self, *arguments: str, **given: Any) -> subprocess.CompletedProcess[bytes]:
        command = [f"{self._programs}/usr/bin/ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *arguments]
        return subprocess.run(self.host.inside(command), capture_output=True, timeout=IMPORTS_WITHIN, **given)

    def _done(self, *arguments: str, **given: Any) -> None:
        done = self._ctr(*arguments, **given)
        assert done.returncode == 0, (arguments, done.stderr, self.explain())

    def _groups(self) -> list[Path]:
        """The node's own groups: one a hierarchy, of which version 2 has one alone."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / self.cgroup]
        kinds = [path for path in CGROUPS.iterdir() if (path / "tasks").exists() and not path.is_symlink()]
        return [kind / self.cgroup for kind in kinds]

    def _group(self, kind: str) -> Path:
        return next((group for group in self._groups() if group.parent.name == kind), self._groups()[0])


def _remove(group: Path) -> None:
    """A group can be removed once its last process is gone."""
    deadline = time.monotonic() + STARTS_WITHIN
    while group.exists():
        try:
            group.rmdir()
        except OSError:
            assert time.monotonic() < deadline, f"{group} still has processes"
            time.sleep(0.05)
