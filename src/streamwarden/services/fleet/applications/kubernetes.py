"""The driver of a stream on Kubernetes: its pods, found by the label that its driver's settings give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from streamwarden.adapters.kubernetes.api import ApiServer
from streamwarden.adapters.kubernetes.credentials import find
from streamwarden.clusters.kubernetes import LABEL, label_value, namespace
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec

_IN_POD: Final = "SPARK_DRIVER_BIND_ADDRESS"
"""A variable that Spark gives the pod of a driver."""

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

    def kill(self) -> bool:
        drivers = self.server.pods(f"{self.selector},spark-role=driver")
        deleted = [self.server.delete_pod(pod["metadata"]["name"]) for pod in drivers]
        return any(deleted)
