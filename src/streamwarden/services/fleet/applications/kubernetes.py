"""The driver of a stream on Kubernetes: its pods, found by the label that its driver's settings give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from streamwarden.adapters.kubernetes.api import ApiServer
from streamwarden.adapters.kubernetes.credentials import find
from streamwarden.clusters.kubernetes import LABEL, label_value, namespace
from streamwarden.errors import ProcessError
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.waiting import wait_until

_IN_POD: Final = "SPARK_DRIVER_BIND_ADDRESS"
"""A variable that Spark gives the pod of a driver."""

GONE_WITHIN: Final = 30.0
"""Seconds within which a pod is gone that is deleted without a grace period."""

_AUTHENTICATE: Final = "spark.kubernetes.authenticate."


@dataclass(frozen=True, slots=True)
class KubernetesApplication:
    """Implements `Application`."""

    server: ApiServer
    selector: str

    @classmethod
    def of(cls, spec: StreamSpec, driver_id: str, environ: Mapping[str, str], at: str | None) -> Self:
        conf, in_cluster = spec.spark.conf, spec.spark.deploy_mode is DeployMode.CLUSTER
        url, prefix = at or spec.spark.master, _AUTHENTICATE
        if in_cluster and _IN_POD in environ:
            url, prefix = conf.get("spark.kubernetes.driver.master", url), f"{_AUTHENTICATE}driver.mounted."
        elif in_cluster:
            prefix = f"{_AUTHENTICATE}submission."
        address = url.removeprefix("k8s://").rstrip("/")
        return cls(
            ApiServer(
                url=address if "://" in address else f"https://{address}",
                namespace=namespace(spec.spark),
                credentials=find(conf, prefix, environ),
            ),
            f"{LABEL}={label_value(driver_id)}",
        )

    def describe(self) -> Mapping[str, Any] | None:
        pods = self.server.pods(self.selector)
        return {"pods": pods, "events": self.server.warnings() if pods else []} if pods else None

    def identifier(self) -> str | None:
        drivers = self._drivers()
        return f"{self.server.namespace}:{drivers[0]}" if drivers else None

    def kill(self) -> bool:
        """The pod is deleted without a grace period: its node kills what is in it."""
        deleted = [self.server.delete_pod(name) for name in self._drivers()]
        return any(deleted) and wait_until(lambda: not self._drivers(), within=GONE_WITHIN, every=0.2)

    def log(self, most: int) -> str:
        """From the node, as long as the pod is there: the provider deletes one that has succeeded."""
        drivers = self._drivers()
        if not drivers:
            raise ProcessError(
                "the driver's pod is not there any more, and its log with it",
                where=f"namespace {self.server.namespace}, pods with {self.selector}",
                next_step="let the cluster collect the logs of pods",
            )
        return self.server.log(drivers[0], most)

    def _drivers(self) -> list[str]:
        pods = self.server.pods(f"{self.selector},spark-role=driver")
        return [str(pod["metadata"]["name"]) for pod in pods]
