"""Probes the manager of a cluster after a failure, because Spark does not report that it was unavailable.

A driver that finds no standalone master stops its context after a minute, and the job gets only the error "Cannot call
methods on a stopped SparkContext".
"""

import socket
from dataclasses import replace
from typing import Final

from streamwarden.adapters.addresses import addresses
from streamwarden.clusters import manager_of
from streamwarden.lifecycle.failures.causes import CAUSES
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.failures.outage_causes import HOST_UNKNOWN

ANSWERS_WITHIN: Final = 3.0
"""Seconds for a connection to one address."""


def what_is_away(master: str, *, within: float = ANSWERS_WITHIN) -> Cause | None:
    """The cause if the cluster that `master` names does not answer; None: it does, or `master` is not an address.

    Of several masters (`spark://one:7077,two:7077`) one is enough.
    """
    server = manager_of(master).server
    if server is None:
        return None
    cause = next(cause for cause in CAUSES if cause.code == server.away)
    return _away(list(addresses(server.named_by(master), server.port)), cause, master, within)


def _away(servers: list[tuple[str, int]], cause: Cause, master: str, within: float) -> Cause | None:
    error: OSError | None = None
    for address in servers:
        try:
            socket.create_connection(address, timeout=within).close()
        except OSError as refused:
            error = refused
        else:
            return None
    if isinstance(error, socket.gaierror):
        hosts = ", ".join(host for host, _ in servers)
        return replace(HOST_UNKNOWN, what=f"the name of a host cannot be resolved ({hosts} of spark.master {master})")
    return replace(cause, what=f"{cause.what} ({master}: {error})")
