"""A node of the test's Kubernetes, and a stand-in for its kubelet: each pod that the scheduler binds to it becomes a
local process of the image's own entry point.

What it does as a kubelet does: variables (values, fields of the pod, keys of secrets), config maps, tokens, phase and
states of the container, exit codes, SIGTERM at a deletion and SIGKILL after the grace period, events of an image that
cannot be pulled. What it does not: images, cgroups, mounts, networks, probes. A pod's files are those of this host, its
address is 127.0.0.1, and a volume is a folder of the node's, which takes its path's place in arguments and variables.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from kubernetes import client as api

from support.servers.kubernetes.control_plane import ControlPlane

IMAGE = "registry.test/streamwarden:1"
"""The one image that the node has."""

ENTRYPOINT = Path(__file__).parents[4] / "packaging" / "kubernetes" / "entrypoint.sh"
EVERY = 0.2


@dataclass
class Container:
    """The process of a pod."""

    process: subprocess.Popen[bytes]
    log: Path
    uid: str
    end_by: float | None = None
    told: bool = False

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


@dataclass
class Node:
    """A node with some cores and memory. `containers` are the pods that run, by name; `ran` has ended ones too."""

    plane: ControlPlane
    folder: Path
    name: str = "node-1"
    cpu: str = "4"
    memory: str = "8Gi"
    environment: Mapping[str, str] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._core = self.plane.core()
        self._ended = threading.Event()
        self._deadlines: dict[str, float] = {}
        self._refused: set[str] = set()
        self._thread = threading.Thread(target=self._run, name=f"kubelet of {self.name}", daemon=True)

    def start(self) -> None:
        """Register with the API server, ready, and run pods from now on."""
        self._core.create_node({"metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}}})
        capacity = {"cpu": self.cpu, "memory": self.memory, "pods": "50"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a stand-in"}
        times = {"lastHeartbeatTime": _now(), "lastTransitionTime": _now()}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready | times]}
        self._core.patch_node_status(self.name, {"status": status})
        self._core.patch_node(self.name, {"spec": {"taints": None}})  # not-ready, which admission adds
        self._thread.start()

    def end(self) -> None:
        """End every process of it."""
        self._ended.set()
        self._thread.join(timeout=30)
        for container in self.containers.values():
            container.signal(signal.SIGKILL)
            container.process.wait(timeout=20)

    def log(self, pod: str) -> str:
        """The last of what the pod's process wrote."""
        path = self.folder / pod / "log"
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    def kill(self, pod: str) -> None:
        """SIGKILL to the pod's processes, as the kernel does when memory runs out."""
        self.containers[pod].signal(signal.SIGKILL)

    def processes(self, pod: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self.containers[pod].process.pid)
            return [first, *first.children(recursive=True)]
        return []

    def _run(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                self._look()
            except Exception as error:  # the API server may be away, which its client says in many ways; pods go on
                self.failed.append(f"{type(error).__name__}: {error}"[:500])

    def _look(self) -> None:
        pods = self._core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={self.name}").items
        present = {pod.metadata.uid for pod in pods}
        for name in [name for name, made in self.containers.items() if made.uid not in present]:  # with no grace
            self.containers.pop(name).signal(signal.SIGKILL)
        for pod in pods:
            self._serve(pod)

    def _serve(self, pod: Any) -> None:
        name, container = pod.metadata.name, self.containers.get(pod.metadata.name)
        if pod.metadata.deletion_timestamp is not None:
            self._delete(pod, container)
        elif container is not None and container.process.poll() is not None:
            self._report_end(pod, self.containers.pop(name).process.returncode)
        elif container is None and pod.status.phase == "Pending":
            self._begin(pod)

    def _begin(self, pod: Any) -> None:
        name, image = pod.metadata.name, pod.spec.containers[0].image
        if image != IMAGE:
            self._refuse(pod, image)
            return
        self.containers[name] = self._start(pod)
        self.ran.append(name)
        self._status(pod, "Running", {"running": {"startedAt": _now()}})

    def _refuse(self, pod: Any, image: str) -> None:
        if pod.metadata.uid in self._refused:
            return
        self._refused.add(pod.metadata.uid)
        said = f'Back-off pulling image "{image}": ErrImagePull: {image}: not found'
        self._status(pod, "Pending", {"waiting": {"reason": "ImagePullBackOff", "message": said}})
        self._event(pod, "Failed", f'Failed to pull image "{image}": not found')

    def _start(self, pod: Any) -> Container:
        folder, spec = self.folder / pod.metadata.name, pod.spec.containers[0]
        folder.mkdir(exist_ok=True)
        moved = self._volumes(pod, folder)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            **self.environment,
            **{each.name: _moved(self._value(pod, each), moved) for each in spec.env or []},
        }
        arguments = [_moved(argument, moved) for argument in spec.args or []]
        log = folder / "log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [str(ENTRYPOINT), *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=folder, start_new_session=True,
            )  # fmt: skip
        return Container(process, log, pod.metadata.uid)

    def _value(self, pod: Any, variable: Any) -> str:
        if variable.value_from is None:
            return variable.value or ""
        source = variable.value_from
        if source.field_ref is not None:
            known = {"status.podIP": "127.0.0.1", "metadata.name": pod.metadata.name, "spec.nodeName": self.name}
            return str(known[source.field_ref.field_path])
        reference = source.secret_key_ref
        secret = self._core.read_namespaced_secret(reference.name, pod.metadata.namespace)
        return base64.b64decode(secret.data[reference.key]).decode()

    def _volumes(self, pod: Any, folder: Path) -> dict[str, str]:
        """Path in the container -> path of this host, of each volume; a volume of the host is where it is."""
        sources = {volume.name: volume for volume in pod.spec.volumes or [] if volume.host_path is None}
        mounts = [mount for mount in pod.spec.containers[0].volume_mounts or [] if mount.name in sources]
        moved = {mount.mount_path: str(folder / "volumes" / mount.name) for mount in mounts}
        for mount in mounts:
            place, volume = Path(moved[mount.mount_path]), sources[mount.name]
            place.mkdir(parents=True, exist_ok=True)
            if volume.config_map is not None:
                self._lay_out(place, volume.config_map.name, pod.metadata.namespace, moved)
            for source in volume.projected.sources if volume.projected is not None else []:
                if source.config_map is not None:
                    self._lay_out(place, source.config_map.name, pod.metadata.namespace, moved)
                if source.service_account_token is not None:
                    token = self.plane.account(pod.metadata.namespace, pod.spec.service_account_name)
                    (place / source.service_account_token.path).write_text(token)
        return moved

    def _lay_out(self, place: Path, config_map: str, namespace: str, moved: Mapping[str, str]) -> None:
        for file, text in (self._core.read_namespaced_config_map(config_map, namespace).data or {}).items():
            (place / file).write_text(_moved(text, moved))

    def _delete(self, pod: Any, container: Container | None) -> None:
        """SIGTERM at first, SIGKILL at the end of the grace period; then the pod is gone."""
        name = pod.metadata.name
        if container is not None and container.process.poll() is None:
            passed = (datetime.now(UTC) - pod.metadata.deletion_timestamp).total_seconds()
            if not container.told:
                container.told = True
                container.process.send_signal(signal.SIGTERM)
            if passed > 0:  # the timestamp is that of the end of the grace period
                container.signal(signal.SIGKILL)
            if container.process.poll() is None:
                return
        self.containers.pop(name, None)
        with contextlib.suppress(api.ApiException):
            self._core.delete_namespaced_pod(name, pod.metadata.namespace, grace_period_seconds=0)

    def _report_end(self, pod: Any, code: int) -> None:
        code = 128 - code if code < 0 else code
        reason = "Completed" if code == 0 else "Error"
        state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": _now()}}
        self._status(pod, "Succeeded" if code == 0 else "Failed", state)

    def _status(self, pod: Any, phase: str, state: dict[str, Any]) -> None:
        spec = pod.spec.containers[0]
        container = {
            "name": spec.name, "image": spec.image, "imageID": spec.image, "restartCount": 0, "state": state,
            "ready": "running" in state,
        }  # fmt: skip
        status = {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [container]}
        self._core.patch_namespaced_pod_status(pod.metadata.name, pod.metadata.namespace, {"status": status})

    def _event(self, pod: Any, reason: str, message: str) -> None:
        where = {"kind": "Pod", "name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
        event = {
            "metadata": {"generateName": f"{pod.metadata.name}."}, "involvedObject": {"apiVersion": "v1", **where},
            "reason": reason, "message": message, "type": "Warning", "firstTimestamp": _now(), "lastTimestamp": _now(),
            "source": {"component": "kubelet", "host": self.name}, "count": 1,
        }  # fmt: skip
        self._core.create_namespaced_event(pod.metadata.namespace, event)


@contextmanager
def node(plane: ControlPlane, folder: Path, **given: Any) -> Iterator[Node]:
    """A node, whose processes are ended at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Node(plane, folder, **given)
    made.start()
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def _moved(text: str, moved: Mapping[str, str]) -> str:
    for inside, outside in sorted(moved.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(inside, outside)
    return text


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
