"""Declaration of a cluster manager: its master URL, its settings, and how its drivers and executors are reached."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from streamwarden.clusters.waiting import Waiting
from streamwarden.problems import Problem
from streamwarden.stream.spark import ExecutorsSpec, SparkSpec
from streamwarden.stream.spec import StopPolicy


class Interface(Enum):
    """Address at which the UI of a driver on this host listens, and the one that the driver gives its executors."""

    LOOPBACK = auto()  # it has no executors
    TOWARDS_MASTER = auto()  # on the loopback interface; executors get this host's address on the way to the master
    OF_MANAGER = auto()  # the manager protects the UI, and Spark chooses the address


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of a manager. A driver that fails asks whether it is available, since Spark does not say.

    Args:
        address: begins as `spark.master` does; its first group is `HOST:PORT`, or several of them with commas.
        port: where none is named.
        away: code of the cause of a failure if no address answers.
    """

    address: re.Pattern[str]
    port: int
    away: str

    def named_by(self, master: str) -> str:
        """The address in a `spark.master` of this manager: `HOST:PORT`, or several of them with commas."""
        match = self.address.match(master)
        return "" if match is None else match[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class InCluster:
    """A driver in cluster mode, which Airflow's Spark provider submits, follows and stops.

    Args:
        tracking: field of the provider's hook and operator that makes it ask this kind of cluster.
        variable: begins the setting that gives the driver a variable of the environment.
        reference: begins the setting that gives it one from a secret of the cluster; None: `variable` is not shown to
            other users, so it may hold one.
        log: the command that shows the driver's log.
        image: the driver runs in a container, where the runner is a file of the image.
        template: the setting that names a file which describes the driver's pod, and what is in that file.
        detached: the settings with which spark-submit ends when it has submitted the driver.
        drills: a drill runs its fork in the cluster, too; False: on its own host, in client mode.
    """

    tracking: str
    variable: str
    reference: str | None = None
    log: str
    image: bool = False
    template: tuple[str, Callable[[StopPolicy], str]] | None = None
    detached: Mapping[str, str] = field(default_factory=dict)
    drills: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManager:
    """One kind of cluster.

    Args:
        title: its name in a sentence.
        master: the values of `spark.master` that name it; shown: one as a message shows it; short: the same, shortened.
        keys: keys of `spark` that it alone uses -> Spark's settings that they become. Spark would ignore them on any
            other, so they are refused there.
        needs: problems of a `spark` section without a key that it needs.
        conf: Spark's settings of each of its drivers.
        has_executors: False: the driver runs all tasks.
        executor_options: JVM options of its executors.
        count: the settings that say how many executors there are.
        in_cluster: None: it runs no Python driver; client_only: then why.
        server: None: `spark.master` does not name its address.
        tags: the setting that lists the tags by which the manager finds an application; empty: it has none.
        labels: the settings that give its pods the id of their driver, by which they are found.
        waits: what an application waits for, read from the manager's own description of it; None: it runs. `None` in
            place of the function: an application of this kind never waits, or the manager does not say so.
    """

    title: str
    master: re.Pattern[str]
    shown: str
    short: str
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs: Callable[[SparkSpec], Iterable[Problem]] = lambda spark: ()
    conf: Mapping[str, str] = field(default_factory=dict)
    has_executors: bool = True
    executor_options: tuple[str, ...] = ()
    count: Callable[[ExecutorsSpec], Mapping[str, int | None]] = lambda executors: {
        "spark.executor.instances": executors.instances
    }
    in_cluster: InCluster | None = None
    client_only: str = ""
    server: Server | None = None
    tags: str = ""
    labels: Callable[[str], Mapping[str, str]] = lambda driver_id: {}
    waits: Callable[[Mapping[str, Any]], Waiting | None] | None = None
    interface: Interface = Interface.TOWARDS_MASTER

    @property
    def drills_in_cluster(self) -> bool:
        """A drill runs the fork of a stream in cluster mode in the cluster, too."""
        return self.in_cluster is not None and self.in_cluster.drills


UNKNOWN: Final = ClusterManager(title="an unknown cluster", master=re.compile(r"(?!)"), shown="", short="")
"""Of a master that Spark does not know."""
