"""A real control plane of Kubernetes for tests: etcd, the API server with RBAC, the scheduler, and of the controllers
those that a stream's objects need. Each listens on a free port of the loopback and ends with the test; the API server
of a plane with nodes listens on the network that it shares with them.

`support.servers.kubernetes.node` stands in for a kubelet, `support.servers.kubernetes.real_node` has one.
"""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from kubernetes import client as api

from support.airflow.harness import free_port
from support.servers.certificates import Authority
from support.servers.kubernetes.programs import KUBERNETES, programs

STARTS_WITHIN = 120.0
ADMIN = "administrator"
LOOPBACK = "127.0.0.1"
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
OF_NODES = (
    "deployment-controller",
    "endpointslice-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "statefulset-controller",
)
"""Those whose work is in vain where no kubelet runs pods."""

SERVICES = "10.96.0.0/24"
SERVICE, NAME = "10.96.0.1", "kubernetes.default.svc"
"""Of the API server, inside of the cluster."""


class ControlPlane:
    """Running servers. `url` is the API server's, `certificate` that of the authority that signed its own."""

    def __init__(self, folder: Path, address: str = LOOPBACK) -> None:
        self._folder, self._address = folder, address
        self._programs = programs(KUBERNETES)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: free_port() for name in ("etcd", "peers", "api", "scheduler", "controllers")}
        authority = Authority(folder / "certificates", "authority")
        self.certificate = authority.certificate
        self._certificate, self._key = authority.issue("api", address, SERVICE, NAME)
        self._signing_key()
        self.url = f"https://{address}:{self._ports['api']}"
        tokens = folder / "tokens.csv"
        tokens.write_text(f"{ADMIN},{ADMIN},0,system:masters\n")

    def start(self) -> None:
        """Start all of it, and wait until each server says that it is ready."""
        self._start_etcd()
        self.start_api()
        config = self.kubeconfig(ADMIN)
        self._start(
            "kube-scheduler",
            [f"--kubeconfig={config}", "--leader-elect=false", *self._listening("scheduler")],
        )
        self._start(
            "kube-controller-manager",
            [
                f"--kubeconfig={config}",
                "--leader-elect=false",
                *self._listening("controllers"),
                f"--controllers={','.join((*CONTROLLERS, *(() if self._alone else OF_NODES)))}",
                f"--root-ca-file={self.certificate}",
                f"--service-account-private-key-file={self._folder / 'accounts.key'}",
            ],
        )
        self._await("default", lambda: self.core().read_namespaced_service_account("default", "default"))

    def start_api(self) -> None:
        """Start the API server, again after `kill_api`: etcd has kept everything."""
        accounts = self._folder / "accounts"
        self._start(
            "kube-apiserver",
            [
                f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
                f"--bind-address={self._address}",
                f"--secure-port={self._ports['api']}",
                f"--tls-cert-file={self._certificate}",
                f"--tls-private-key-file={self._key}",
                f"--token-auth-file={self._folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={accounts}.pub",
                f"--service-account-signing-key-file={accounts}.key",
                f"--service-cluster-ip-range={SERVICES}",
                "--kubelet-preferred-address-types=InternalIP",  # only the node knows its name
                # An address of the loopback is refused as one of a service.
                f"--endpoint-reconciler-type={'none' if self._alone else 'lease'}",
            ],
        )
        self._await("the API server", self._ready)

    @property
    def _alone(self) -> bool:
        return self._address == LOOPBACK

    def kill_api(self) -> None:
        """SIGKILL to the API server alone."""
        self._running["kube-apiserver"].kill()
        self._running.pop("kube-apiserver").wait(timeout=20)

    def client(self, token: str = ADMIN) -> api.ApiClient:
        """A client of whoever has that token."""
        configuration = api.Configuration(host=self.url)
        configuration.ssl_ca_cert = str(self.certificate)
        configuration.api_key = {"authorization": f"Bearer {token}"}
        configuration.proxy = None
        configuration.retries = False
        return api.ApiClient(configuration)

    def core(self, token: str = ADMIN) -> api.CoreV1Api:
        return api.CoreV1Api(self.client(token))

    def account(self, namespace: str, name: str) -> str:
        """The token of a service account of an existing namespace, which is made if it is not there."""
        core = self.core()
        try:
            core.create_namespaced_service_account(namespace, {"metadata": {"name": name}})
        except api.ApiException as error:
            if error.status != 409:  # it is there
                raise
        request = {"spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}}
        token: str = core.create_namespaced_service_account_token(name, namespace, request).status.token
        return token

    def kubeconfig(self, token: str, namespace: str = "default") -> Path:
        """A kubeconfig with that token."""
        path = self._folder / f"kubeconfig-{abs(hash((token, namespace)))}"
        authority = base64.b64encode(self.certificate.read_bytes()).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "test", "cluster": cluster}],
                    "users": [{"name": "user", "user": {"token": token}}],
                    "contexts": [{"name": "c", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
                    "current-context": "c",
                }
            )
        )
        return path

    def apply(self, documents: Sequence[dict[str, Any]], namespace: str, *, dry_run: bool = False) -> None:
        """Create objects, as `kubectl create` does; the API server checks every field. Raises ApiException."""
        from kubernetes.dynamic import DynamicClient

        dynamic = DynamicClient(self.client())
        more = {"dry_run": "All"} if dry_run else {}
        for document in documents:
            resource = dynamic.resources.get(api_version=document["apiVersion"], kind=document["kind"])
            place = {"namespace": namespace} if resource.namespaced else {}
            resource.create(body=document, **place, **more, query_params=[("fieldValidation", "Strict")])

    def end(self) -> None:
        """End all of it. The servers would take 20 s to end in order, and nobody needs their data."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait(timeout=20)

    def _start_etcd(self) -> None:
        clients, peers = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peers"))
        self._start(
            "etcd",
            [
                f"--data-dir={self._folder / 'etcd'}",
                f"--listen-client-urls={clients}",
                f"--advertise-client-urls={clients}",
                f"--listen-peer-urls={peers}",
                f"--initial-advertise-peer-urls={peers}",
                f"--initial-cluster=default={peers}",
                "--unsafe-no-fsync",
            ],
        )
        self._await("etcd", lambda: urllib.request.urlopen(f"{clients}/health", timeout=5).close())

    def _listening(self, name: str) -> list[str]:
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[name]}",
            f"--tls-cert-file={self._certificate}",
            f"--tls-private-key-file={self._key}",
        ]

    def _start(self, name: str, arguments: list[str]) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), "GOMAXPROCS": "2"}
            self._running[name] = subprocess.Popen(
                [self._programs[name], *arguments], stdout=log, stderr=log, cwd=self._folder, env=environment
            )

    def _await(self, what: str, answers: Callable[[], object]) -> None:
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                answers()
            except (OSError, api.ApiException) as error:
                problem = error
            else:
                return
            ended = {name: self._log(name) for name, process in self._running.items() if process.poll() is not None}
            assert not ended, ended
            assert time.monotonic() < deadline, f"{what} is not ready: {problem}"
            time.sleep(0.1)

    def _ready(self) -> None:
        request = urllib.request.Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
        trusted = ssl.create_default_context(cafile=str(self.certificate))
        urllib.request.urlopen(request, timeout=5, context=trusted).close()

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def _signing_key(self) -> None:
        """The pair with which the API server signs the tokens of service accounts."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self._folder / "accounts.key").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        )
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (self._folder / "accounts.pub").write_bytes(public)


@contextmanager
def control_plane(address: str = LOOPBACK) -> Iterator[ControlPlane]:
    """A control plane whose API server listens on `address`; all of it is ended, and its folder removed, at the end."""
    folder = Path(tempfile.mkdtemp(prefix="streamwarden-kubernetes-"))
    made = ControlPlane(folder, address)
    try:
        made.start()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)
