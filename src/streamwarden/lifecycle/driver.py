"""A driver: one run of a stream's Spark driver process, from launch to a recorded exit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identifies one process among all: the kernel reuses a pid.

    Args:
        host: host name, boot id and pid namespace, so that a container or a reboot is another host.
        pid: process id on that host.
        started_at: process start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    """

    host: str
    pid: int
    started_at: int


class ExitKind(StrEnum):
    STOPPED = "stopped"  # a stop request was obeyed at a batch boundary
    COMPLETED = "completed"  # the query ended by itself without an error (availableNow)
    FAILED = "failed"  # Spark or the job raised
    FENCED = "fenced"  # another holder took the lease
    KILLED = "killed"  # the process ended by a signal, or vanished


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """Why a driver ended, in words a person can act on.

    Args:
        ended_at: Unix time in seconds.
        error_class: Spark's error class (`CONCURRENT_STREAM_LOG_UPDATE`) or the Python exception's name.
        curable: whether a restart may help; False for a changed schema, a damaged checkpoint, a wrong configuration.
        cut_batch: whether the exit left a planned batch uncommitted (it will be run again); None if not known.
        committed: whether the driver committed a batch in its life; None if not known.
        next_step: what a person should do.
        cause: code of the row of the table of causes that fitted; None: no row did, or the record is older than codes.
        on_request: a stop had been requested when the driver was killed, usually because its batch did not end in time.
    """

    kind: ExitKind
    ended_at: float
    exit_code: int | None = None
    signal: int | None = None
    error_class: str | None = None
    message: str = ""
    curable: bool = True
    cut_batch: bool | None = None
    committed: bool | None = None
    next_step: str = ""
    cause: str | None = None
    on_request: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether the driver ended by itself and against the will of people."""
        return self.kind in (ExitKind.FAILED, ExitKind.KILLED) and not self.on_request

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ExitRecord:
        """The record that was stored as this JSON object; a field that it lacks has its default."""
        return cls(**{**document, "kind": ExitKind(document["kind"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverRecord:
    """One row of the store's `drivers` table. Times are Unix seconds; `folder` holds its log and its files."""

    driver_id: str
    stream: str
    checkpoint: str
    token: int
    folder: str
    launched_by: str
    launched_at: float
    process: ProcessIdentity | None = None
    query_id: str | None = None
    run_id: str | None = None
    started_at: float | None = None
    exit: ExitRecord | None = None


def startup_seconds(drivers: Iterable[DriverRecord]) -> list[float]:
    """Seconds from launch to a running query, of the drivers whose query started."""
    started = ((driver.launched_at, driver.started_at) for driver in drivers)
    return [at - launched for launched, at in started if at is not None and at >= launched]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverEvent:
    """Something that happened to a driver: signal sent, stop requested, reattached, progress spilled …"""

    driver_id: str
    at: float
    kind: str
    detail: dict[str, str] = field(default_factory=dict)


class DriverRepository(Protocol):
    """Where drivers are recorded. All writes are idempotent; the first recorded exit wins."""

    def launched(self, record: DriverRecord) -> None: ...
    def bound(self, driver_id: str, process: ProcessIdentity) -> None: ...
    def started(self, driver_id: str, query_id: str, run_id: str, at: float) -> None: ...
    def exited(self, driver_id: str, exit: ExitRecord) -> None: ...
    def event(self, event: DriverEvent) -> None: ...
    def get(self, driver_id: str) -> DriverRecord | None: ...
    def latest(self, stream: str) -> DriverRecord | None: ...
    def history(self, stream: str, since: float) -> Sequence[DriverRecord]: ...
    def events(self, driver_id: str) -> Sequence[DriverEvent]: ...
