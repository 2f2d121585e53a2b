"""The report of this host: what it has, and that it is there."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.adapters.jvm.java import find_java
from streamwarden.adapters.processes import this_host
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.hosts.report import HostReport, host_name
from streamwarden.services.fleet.hosts.placement import storage_id
from streamwarden.services.fleet.launching.deployed_code import packages

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

_SHOWN: Final = {"streamwarden": "streamwarden", "spark": "pyspark", "airflow": "apache_airflow", "python": "python"}
"""Name of a version -> the package that has it."""


class HostReporter:
    """Reports this host to the store. What does not change is read once.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, store: Store, data: Path, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._data = data
        self._clock = clock
        self._started_at = clock()
        self._versions = versions(os.environ, sys.path)

    def report(self) -> HostReport:
        """Store a report of this moment. Raises StoreError."""
        total, available = memory()
        made = HostReport(
            name=host_name(this_host()),
            identity=this_host(),
            started_at=self._started_at,
            heartbeat_at=self._clock() + self._store.leases.clock_offset(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=total,
            available_bytes=available,
            data=str(self._data),
            storage=self._storage(),
            versions=self._versions,
        )
        self._store.hosts.report(made)
        return made

    def _storage(self) -> str:
        with contextlib.suppress(OSError):
            return storage_id(self._data, make=True) or ""
        return ""


def memory(meminfo: Path = Path("/proc/meminfo")) -> tuple[int, int]:
    """Bytes of memory that this host has, and that programs can still get."""
    lines = (line.split() for line in meminfo.read_text().splitlines())
    kilobytes = {words[0].rstrip(":"): int(words[1]) for words in lines if len(words) > 1}
    return kilobytes["MemTotal"] * 1024, kilobytes["MemAvailable"] * 1024


def versions(environ: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """The versions that decide whether a stream runs alike on two hosts; one that is not installed is left out."""
    installed = packages(path)
    found = {name: installed[package] for name, package in _SHOWN.items() if package in installed}
    with contextlib.suppress(StreamwardenError, OSError):
        release = (find_java(environ) / "release").read_text()
        lines = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
        found["java"] = lines["JAVA_VERSION"].strip('"')
    return found
