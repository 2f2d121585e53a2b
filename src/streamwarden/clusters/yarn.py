"""YARN. Its address is in the Hadoop configuration of the driver's host."""

import re
from collections.abc import Iterator
from typing import Final

from streamwarden.clusters.manager import ClusterManager, InCluster, Interface
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


YARN: Final = ClusterManager(
    title="YARN",
    master=re.compile(r"yarn"),
    shown="yarn",
    short="yarn",
    keys={"queue": ("spark.yarn.queue",)},
    needs=_needs,
    in_cluster=InCluster(
        tracking="_yarn_track_via_rm_api",
        variable="spark.yarn.appMasterEnv.",
        log="yarn logs -applicationId …",
    ),
    interface=Interface.OF_MANAGER,  # the UI answers the ResourceManager's proxy alone
)
