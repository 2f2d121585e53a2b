"""Kubernetes: driver and executors run in pods, in containers of one image."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streamwarden.clusters.manager import ClusterManager, InCluster, Server
from streamwarden.clusters.pods import first_wait, wait_of
from streamwarden.clusters.waiting import Waiting
from streamwarden.problems import Problem
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StopPolicy

POD_NAME: Final = "spark.kubernetes.driver.pod.name"

LABEL: Final = "streamwarden-driver"
"""The label of each pod of a driver; its value is `label_value` of the driver's id."""

_LONGEST_LABEL: Final = 63
_ENDED: Final = frozenset({"Succeeded", "Failed"})

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


def label_value(driver_id: str) -> str:
    """The driver's id as the value of a label: at most 63 characters, of which the last ones tell drivers apart."""
    return driver_id[-_LONGEST_LABEL:].lstrip("-_.")


def _labels(driver_id: str) -> dict[str, str]:
    value = label_value(driver_id)
    return {f"spark.kubernetes.{role}.label.{LABEL}": value for role in ("driver", "executor")}


def _waits(application: Mapping[str, Any]) -> Waiting | None:
    """Read `pods` and `events` as the API server has them: its driver's pod, or all of its executors', are pending."""
    pods = [pod for pod in application["pods"] if (pod.get("status") or {}).get("phase") not in _ENDED]
    by_role: dict[str, list[Mapping[str, Any]]] = {"driver": [], "executor": []}
    for pod in pods:
        by_role.setdefault(pod["metadata"]["labels"].get("spark-role", ""), []).append(pod)
    for group in (by_role["driver"], by_role["executor"]):
        waits = [wait_of(pod) for pod in group]
        if waits and all(waits):
            wait = first_wait(group, application["events"])
            return None if wait is None else Waiting(what=wait.what, said=wait.message)
    return None


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
    labels=_labels,
    waits=_waits,
    server=Server(address=re.compile(r"k8s://(?:https?://)?([^/]+)"), port=443, away="api_server_unavailable"),
)
