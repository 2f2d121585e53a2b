"""The claim of a launch: the lease and the record of a driver that is about to start."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamwarden.errors import LaunchRefused, StoreError, StreamwardenError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.failures.causes import LAUNCH_REFUSED
from streamwarden.lifecycle.failures.exits import not_submitted
from streamwarden.lifecycle.lease import Lease
from streamwarden.services.fleet.exits.driver_ids import driver_folders, new_driver_id
from streamwarden.stream.spec import StreamSpec

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store

LEASE_TTL: Final = 30.0
"""Seconds a lease lasts without a renewal; it decides only where the holder's process cannot be seen."""

START_TTL: Final = 120.0
"""Seconds that a driver has, once its process was started, until it renews its lease by itself. A JVM and Python start
before that: usually in a few seconds, but it took 46 on a host with twelve busy programs for each core."""


def claim(
    store: Store,
    data: Path,
    spec: StreamSpec,
    *,
    launched_by: str,
    ttl: float,
    now: float,
    driver_id: str | None = None,
) -> tuple[DriverRecord, Lease]:
    """Acquire the lease of a new driver; returns its record, which is not stored yet. Raises LeaseHeld, StoreError.

    Args:
        driver_id: that of the standby that becomes the driver; None: a new one.
    """
    driver_id = driver_id or new_driver_id(spec.name, now)
    lease = store.leases.acquire(*spec.checkpoints, stream=spec.name, holder=driver_id, ttl=ttl, now=now)
    record = DriverRecord(
        driver_id=driver_id,
        stream=spec.name,
        checkpoint=spec.checkpoint,
        token=lease.token,
        folder=str(driver_folders(data, spec.name) / driver_id),
        launched_by=launched_by,
        launched_at=now,
    )
    return record, lease


def abandon(store: Store, record: DriverRecord, lease: Lease, error: Exception, now: float) -> None:
    """Release the lease of a launch that failed, and record the error as the driver's exit."""
    exit = _exit(error, now)
    with contextlib.suppress(StoreError):
        store.leases.release(lease, now=now)
    with contextlib.suppress(StoreError):
        store.drivers.launched(record)
        store.drivers.exited(record.driver_id, exit)


def _exit(error: Exception, now: float) -> ExitRecord:
    """The exit of a launch that failed. What is not Streamwarden's own error comes from spark-submit."""
    if not isinstance(error, StreamwardenError):
        return not_submitted(type(error).__name__, str(error), at=now)
    refused = isinstance(error, LaunchRefused)
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=now,
        error_class=type(error).__name__,
        # The exit has a field of its own for what to do next.
        message=str(StreamwardenError(error.observed, expected=error.expected, where=error.where)),
        curable=not refused,
        next_step=error.next_step,
        cause=LAUNCH_REFUSED.code if refused else None,
    )
