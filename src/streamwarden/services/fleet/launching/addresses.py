"""A driver's addresses. Spark's UI has no login, so it listens on the loopback interface alone.

Spark takes the interface of its UI from `SPARK_LOCAL_IP` and from nothing else, and derives from the same variable the
address that it gives its executors. `SPARK_LOCAL_HOSTNAME` overrides the latter, so that executors of other hosts still
reach the driver.
"""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Final

from streamwarden.adapters.addresses import addresses
from streamwarden.clusters import manager_of
from streamwarden.clusters.manager import Interface
from streamwarden.stream.spark import DeployMode, SparkSpec

LOOPBACK: Final = "127.0.0.1"
INTERFACE: Final = "SPARK_LOCAL_IP"
ADVERTISED: Final = "SPARK_LOCAL_HOSTNAME"


def listening_environment(spark: SparkSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep the UI of a driver of this host on the loopback interface.

    Empty if the environment names an interface, and on YARN, where the UI answers the resource manager's proxy alone.
    """
    if INTERFACE in environ or ADVERTISED in environ or spark.deploy_mode is DeployMode.CLUSTER:
        return {}
    interface = manager_of(spark.master).interface
    if interface is Interface.LOOPBACK:
        return {INTERFACE: LOOPBACK}
    address = address_towards(spark.master) if interface is Interface.TOWARDS_MASTER else None
    return {} if address is None else {INTERFACE: LOOPBACK, ADVERTISED: address}


def address_towards(master: str) -> str | None:
    """This host's address on the way to the master; None if that is not known, and Spark has to choose one itself."""
    server = manager_of(master).server
    if server is None:
        return None
    try:
        host, port = next(addresses(server.named_by(master), server.port))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))  # sends nothing
            address = str(probe.getsockname()[0])
            peer = str(probe.getpeername()[0])
    except (OSError, ValueError):
        return None
    # A host's own name may stand for the loopback interface, where executors of other hosts find nothing.
    if ipaddress.ip_address(address).is_loopback and host not in (peer, "localhost"):
        return None
    return address
