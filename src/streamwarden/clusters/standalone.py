"""Spark's own cluster: a master, or several, and workers. It hands out cores, not executors."""

import re
from typing import Final

from streamwarden.clusters.manager import ClusterManager, Server
from streamwarden.stream.spark import ExecutorsSpec

_IN_ITS_FOLDER: Final = "-Djava.io.tmpdir=."
"""A killed executor leaves RocksDB's library, 15 MB: in its work folder, where the worker's cleanup finds it. On other
clusters an executor has a `/tmp` of its own."""

MASTERS: Final = Server(address=re.compile(r"spark://(.+)"), port=7077, away="master_unavailable")


def _cores(executors: ExecutorsSpec) -> dict[str, int | None]:
    return {"spark.cores.max": executors.instances * (executors.cores or 1) if executors.instances else None}


STANDALONE: Final = ClusterManager(
    title="a standalone cluster",
    master=re.compile(r"spark://[^/\s]+"),
    shown="spark://HOST:PORT",
    short="spark://…",
    executor_options=(_IN_ITS_FOLDER,),
    count=_cores,
    client_only="Spark cannot run a Python driver in a standalone cluster",
    server=MASTERS,
)
