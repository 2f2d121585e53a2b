"""YARN. Its address is in the Hadoop configuration of the driver's host."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from streamwarden.clusters.manager import ClusterManager, InCluster, Interface
from streamwarden.clusters.waiting import Waiting
from streamwarden.problems import Problem
from streamwarden.stream.spark import DeployMode, SparkSpec


def _needs(spark: SparkSpec) -> Iterator[Problem]:
    if spark.deploy_mode is DeployMode.CLUSTER and spark.connection is None:
        yield Problem(
            key=("spark", "connection"),
            observed="missing",
            allowed="Airflow's Spark connection, which `deploy_mode: cluster` on YARN needs: its extra names the "
            "ResourceManager (yarn_resourcemanager_webapp_address)",
            next_step="add `connection: …`",
        )


_ATTEMPTS: Final = "spark.yarn.maxAppAttempts"
"""A second attempt of YARN's own begins with the lease of the first one, which is not free: it would be fenced. The
stream's supervision starts the next driver."""

_NOT_LET_IN: Final = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"})
"""States of an application that has no container yet."""


def _waits(application: Mapping[str, Any]) -> Waiting | None:
    """Read `app` of the ResourceManager's REST API. Pure."""
    queue = application["queue"]
    if application["state"] in _NOT_LET_IN:
        said = str(application.get("diagnostics") or "").strip()
        return Waiting(what=f"resources in queue {queue}", said=said)
    wanted = sum(int(request["numContainers"]) for request in application.get("resourceRequests") or ())
    if application["state"] == "RUNNING" and application["runningContainers"] == 1 and wanted:  # its master alone
        return Waiting(what=f"resources in queue {queue}", said=f"none of {wanted} executors has a container")
    return None


YARN: Final = ClusterManager(
    title="YARN",
    master=re.compile(r"yarn"),
    shown="yarn",
    short="yarn",
    keys={"queue": ("spark.yarn.queue",)},
    needs=_needs,
    conf={_ATTEMPTS: "1"},
    in_cluster=InCluster(
        tracking="_yarn_track_via_rm_api",
        variable="spark.yarn.appMasterEnv.",
        log="yarn logs -applicationId …",
        detached={"spark.yarn.submit.waitAppCompletion": "false"},
        drills=True,
    ),
    tags="spark.yarn.tags",
    waits=_waits,
    interface=Interface.OF_MANAGER,  # the UI answers the ResourceManager's proxy alone
)
