"""No cluster: the driver runs all tasks."""

import re
from functools import lru_cache
from typing import Final

from streamwarden.clusters.manager import ClusterManager, Interface

_THREADS: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


@lru_cache(maxsize=64)
def threads(master: str) -> int | None:
    """Tasks that the driver runs at a time; None if `master` does not say, as `local[*]`, or is not a local one."""
    match = _THREADS.fullmatch(master)
    if match is None or match[1] == "*":
        return None
    return int(match[1] or 1)


LOCAL: Final = ClusterManager(
    title="the driver",
    master=re.compile(r"local(\[.+\])?|local-cluster\[.+\]"),
    shown="local[2]",
    short="local[…]",
    conf={"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"},
    has_executors=False,
    client_only="a local master has no cluster to run a driver in",
    interface=Interface.LOOPBACK,
)
