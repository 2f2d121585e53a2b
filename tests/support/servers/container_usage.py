"""What containers take of processor and memory, by the engine's own counters."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.servers.container_engine import Shell

OF_AN_ENGINE = ("dockerd", "containerd", "containerd-shim")


@dataclass(frozen=True)
class Usage:
    """Of one container: seconds of processor since its start, and bytes of memory without the cache of files."""

    seconds: float
    memory: int


def usage(shell: Shell) -> dict[str, Usage]:
    """Of each service that runs."""
    address = shell.environment.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    with httpx.Client(transport=httpx.HTTPTransport(uds=address.removeprefix("unix://")), timeout=60) as engine:

        def asked(container: str) -> Usage:
            query = {"stream": "false", "one-shot": "true"}
            return _usage(engine.get(f"http://engine/containers/{container}/stats", params=query).json())

        services = shell.services().items()
        return {name: asked(service["ID"]) for name, service in services if service["State"] == "running"}


def _usage(counters: Mapping[str, Any]) -> Usage:
    """Nothing of a container that has just ended: a replay is over."""
    counted = counters["memory_stats"].get("stats", {})
    own = counted.get("total_rss", counted.get("anon", 0)) + counted.get("total_shmem", counted.get("shmem", 0))
    return Usage(counters["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9, own)


def memory(shell: Shell) -> int:
    """Bytes of all containers together."""
    return sum(used.memory for used in usage(shell).values())


def cores(shell: Shell, seconds: float) -> dict[str, float]:
    """The share of a core that each service takes in the next seconds; as `engine` what the engine takes for them.

    A health check counts twice: in its container, and as a descendant of the engine, which waits for its end.
    """
    started, before, engine = time.monotonic(), usage(shell), _of_the_engine()
    time.sleep(seconds)
    after, taken = usage(shell), time.monotonic() - started
    shares = {name: (after[name].seconds - before[name].seconds) / taken for name in before if name in after}
    return {**shares, "engine": (_of_the_engine() - engine) / taken}


def _of_the_engine() -> float:
    """Seconds of processor of the engine's own programs with all that they waited for; 0 if it runs elsewhere."""
    return sum(_times(stat) for stat in Path("/proc").glob("[0-9]*/stat"))


def _times(stat: Path) -> float:
    try:
        name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
    except OSError:  # it has ended
        return 0.0
    own_and_waited_for = map(int, fields.split()[11:15])
    return sum(own_and_waited_for) / os.sysconf("SC_CLK_TCK") if name.startswith(OF_AN_ENGINE) else 0.0
