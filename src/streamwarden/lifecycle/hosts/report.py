"""Hosts that run drivers: what each reports, and whether it can be relied on. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

REPORT_EVERY: Final = 5.0
"""Seconds between two reports of a host."""

SILENT_AFTER: Final = 20.0
"""Seconds without a report after which a host counts as silent: three reports, and a time limit of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """The newest report of one host. Times are Unix seconds, sizes are bytes.

    Args:
        identity: host name, boot id and pid namespace, as in a `ProcessIdentity`.
        started_at: when the process began that reports.
        available_bytes: memory that programs can still get.
        storage: id in the data folder; hosts that share the folder report the same.
    """

    name: str
    identity: str
    started_at: float
    heartbeat_at: float
    cores: int
    memory_bytes: int
    available_bytes: int
    data: str
    storage: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The host starts no driver until a person resumes it."""

    host: str
    requested_by: str
    reason: str
    requested_at: float


class HostState(StrEnum):
    READY = "ready"  # it reports, and may start drivers
    DRAINING = "draining"  # it is drained, and drivers still run there
    DRAINED = "drained"  # it is drained, and no driver runs there
    SILENT = "silent"  # its last report is too old: it is down, or cut off from the store
    UNKNOWN = "unknown"  # it never reported: drivers were started there, but `hosts run` was not


def state_of(report: HostReport | None, drain: Drain | None, *, drivers: int, now: float) -> HostState:
    """The state of a host.

    Args:
        drivers: how many run there.
        now: by the clock of the store's server.
    """
    if report is not None and now - report.heartbeat_at > SILENT_AFTER:
        return HostState.SILENT
    if drain is not None:
        return HostState.DRAINING if drivers else HostState.DRAINED
    return HostState.UNKNOWN if report is None else HostState.READY


def host_name(identity: str) -> str:
    """The name in the host of a `ProcessIdentity`."""
    return identity.partition("/")[0]
