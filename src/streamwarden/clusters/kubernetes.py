"""Kubernetes: driver and executors run in pods, in containers of one image."""

import json
import math
import re
from collections.abc import Iterator
from typing import Final

from streamwarden.clusters.manager import ClusterManager, InCluster, Server
from streamwarden.problems import Problem
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StopPolicy

POD_NAME: Final = "spark.kubernetes.driver.pod.name"

END_OF_A_DRIVER: Final = 30
"""Seconds that the entry point and the driver's last reports take, beside the deadlines of a stop."""

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


def pod_template(stop: StopPolicy) -> str:
    """The file of which Spark makes the driver's pod. A pod that is deleted is killed after its grace period, which has
    to be longer than what a stop may take: the entry point of the image turns SIGTERM into one."""
    grace = math.ceil(stop.batch_deadline + stop.term_deadline) + END_OF_A_DRIVER
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"terminationGracePeriodSeconds": grace}})


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
        template=("spark.kubernetes.driver.podTemplateFile", pod_template),
    ),
    server=Server(address=re.compile(r"k8s://(?:https?://)?([^/]+)"), port=443, away="api_server_unavailable"),
)
