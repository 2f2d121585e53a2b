"""The applications of drivers, as the managers of their clusters know them: one gateway for each kind of cluster."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.clusters.kubernetes import KUBERNETES
from streamwarden.clusters.yarn import YARN
from streamwarden.services.fleet.applications.kubernetes import KubernetesApplication
from streamwarden.services.fleet.applications.yarn import YarnApplication
from streamwarden.stream.spec import StreamSpec


class Application(Protocol):
    """The application of one driver. Each method raises ProcessError if the manager does not answer."""

    def describe(self) -> Mapping[str, Any] | None:
        """The manager's own description, which `ClusterManager.waits` reads; None: it knows no such application."""

    def identifier(self) -> str | None:
        """Its id, as the manager's own tools take it; None: the manager knows no such application."""

    def kill(self) -> bool:
        """SIGKILL to the driver in its container, and wait until the manager says that it has ended; False if it had
        ended before, or has not ended in time."""

    def log(self, most: int) -> str:
        """The last `most` bytes of the driver's log, as the cluster keeps it; empty: it has none yet."""


Gateway = Callable[[StreamSpec, str, Mapping[str, str], str | None], Application]
"""Takes a driver's spec, its id, the environment that names the cluster, and the address of the manager's API if the
caller knows it. Raises ProcessError if nothing says where to ask."""

GATEWAYS: Final[Mapping[str, Gateway]] = {
    YARN.title: YarnApplication.of,
    KUBERNETES.title: KubernetesApplication.of,
}
"""Title of a manager -> the gateway to the application of a driver."""


def application_of(
    spec: StreamSpec, driver_id: str, environ: Mapping[str, str], at: str | None = None
) -> Application | None:
    """None: the driver is no application of a cluster whose manager can be asked. Raises ProcessError.

    Args:
        at: the address of the manager's API; None: as `environ` names it.
    """
    make = GATEWAYS.get(manager_of(spec.spark.master).title)
    return None if make is None else make(spec, driver_id, environ, at)
