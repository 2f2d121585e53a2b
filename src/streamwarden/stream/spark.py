"""How Spark runs a stream: the block `spark` of its file. Sizes are bytes."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from streamwarden.errors import InvalidValue
from streamwarden.units import Bytes

__all__ = ["DeployMode", "ExecutorsSpec", "SparkSpec"]

VARIABLE_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class DeployMode(StrEnum):
    CLIENT = "client"  # the driver runs on the host that launched it, where its supervisor process watches it
    CLUSTER = "cluster"  # the driver runs in the cluster: YARN's application master, a pod of Kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorsSpec:
    """The executors of a stream on a cluster."""

    instances: int | None = None
    """number of executors; null: Spark's default. A standalone master is given the cores of all of them instead"""
    cores: int | None = None
    """cores of each executor"""
    memory: Bytes | None = None
    """heap of each executor"""
    memory_overhead: Bytes | None = None
    """memory that each executor may use besides its heap: Python, RocksDB"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSpec:
    """Spark's own settings for this stream."""

    master: str = "local[2]"
    """`local[N]`, `spark://HOST:PORT`, `yarn` or `k8s://https://HOST:PORT` (see [clusters](../how-to/cluster.md))"""
    deploy_mode: DeployMode = DeployMode.CLIENT
    """where the driver runs: with its launcher, or in the cluster (`yarn` and `k8s` only, from Airflow only)"""
    connection: str | None = None
    """Airflow's Spark connection; in the stream's DAG its master, queue, namespace and Kerberos key override this file.
    `streamwarden start` and drills use this file"""
    python: str | None = None
    """interpreter of the environment whose PySpark the stream runs on (see [Spark
    versions](../how-to/spark-versions.md)); null: the one in which Streamwarden is installed"""
    driver_memory: Bytes = 2 * 2**30
    """heap of the driver's JVM"""
    executors: ExecutorsSpec = field(default_factory=ExecutorsSpec)
    queue: str | None = None
    """of `yarn`: the queue"""
    namespace: str | None = None
    """of `k8s`: the namespace"""
    image: str | None = None
    """of `k8s`: the container image of driver and executors; required there"""
    service_account: str | None = None
    """of `k8s`: the service account of driver and executors"""
    principal: str | None = None
    """Kerberos principal; null: the Spark connection's"""
    keytab: str | None = None
    """file with its key; null: the Spark connection's"""
    py_files: tuple[str, ...] = ()
    """`.py`, `.zip`, `.egg` files, shipped to every executor and put on its Python path"""
    maven: str | None = None
    """`pom.xml` of a Maven project of your own, such as stateful processors in Java (see
    [sessions at scale](../how-to/sessions-at-scale.md)); driver and executors get the jar that
    `streamwarden prepare --maven` builds"""
    archives: tuple[str, ...] = ()
    """archives that are unpacked next to every executor, as `FILE#FOLDER`"""
    conf: dict[str, str] = field(default_factory=dict)
    """Spark's settings; they override the settings that Streamwarden derives"""
    env: tuple[str, ...] = ()
    """names of variables that the driver gets from the environment of the process that starts it. A driver gets no
    variable that it does not need (see [secrets](../explanation/security.md#what-a-driver-gets))"""

    def __post_init__(self) -> None:
        for name in self.env:
            if VARIABLE_PATTERN.fullmatch(name) is None:
                raise InvalidValue(repr(name), key="env", allowed="names of environment variables, without values")
