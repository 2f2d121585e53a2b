"""The cluster managers on which Spark runs a stream, one module for each.

What varies between them stands in their declarations; the rest of the code asks `manager_of` and reads a field.
"""

from functools import lru_cache
from typing import Final

from streamwarden.clusters.kubernetes import KUBERNETES
from streamwarden.clusters.local import LOCAL
from streamwarden.clusters.manager import UNKNOWN, ClusterManager
from streamwarden.clusters.standalone import STANDALONE
from streamwarden.clusters.yarn import YARN

__all__ = ["MANAGERS", "UNKNOWN", "ClusterManager", "manager_of"]

MANAGERS: Final = (
    LOCAL,
    STANDALONE,
    YARN,
    KUBERNETES,
)


@lru_cache(maxsize=256)
def manager_of(master: str) -> ClusterManager:
    """The manager that `spark.master` names; UNKNOWN if Spark knows no such master."""
    return next((manager for manager in MANAGERS if manager.master.fullmatch(master)), UNKNOWN)
