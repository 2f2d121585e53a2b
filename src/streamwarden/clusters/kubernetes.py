"""Kubernetes: driver and executors run in pods, in containers of one image."""

import re
from collections.abc import Iterator
from typing import Final

from streamwarden.clusters.manager import ClusterManager, InCluster, Server
from streamwarden.problems import Problem
from streamwarden.stream.spark import SparkSpec

POD_NAME: Final = "spark.kubernetes.driver.pod.name"

_NAMESPACE: Final = "spark.kubernetes.namespace"
_IMAGES: Final = (
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image",
)


def pod_name(driver_id: str) -> str:
    """The driver's id as the name of its pod: lower case, digits and `-` (RFC 1123)."""
    return f"{driver_id.lower().replace('_', '-')}-driver"


def namespace(spark: SparkSpec) -> str:
    """The namespace of the driver's pod."""
    return spark.conf.get(_NAMESPACE) or spark.namespace or "default"


def _needs(spark: SparkSpec) -> Iterator[Problem]:
    if spark.image is None and not any(image in spark.conf for image in _IMAGES):
        yield Problem(
            key=("spark", "image"),
            observed="missing",
            allowed="an image, which `master: k8s://…` needs: driver and executors run in its containers",
            next_step="add `image: …`",
        )


KUBERNETES: Final = ClusterManager(
    title="Kubernetes",
    master=re.compile(r"k8s://\S+"),
    shown="k8s://https://HOST:PORT",
    short="k8s://…",
    keys={
        "namespace": (_NAMESPACE,),
        "image": (_IMAGES[0],),
        "service_account": (
            "spark.kubernetes.authenticate.driver.serviceAccountName",
            "spark.kubernetes.authenticate.executor.serviceAccountName",
        ),
    },
    needs=_needs,
    in_cluster=InCluster(
        tracking="_track_driver_via_k8s_api",
        variable="spark.kubernetes.driverEnv.",
        reference="spark.kubernetes.driver.secretKeyRef.",  # every user who may see pods can read a pod's environment
        log="kubectl logs …",
        image=True,
    ),
    server=Server(address=re.compile(r"k8s://(?:https?://)?([^/]+)"), port=443, away="api_server_unavailable"),
)
