"""Stops the drivers of this host at a batch boundary, before the host or the container goes away.

The streams stay wanted: a supervisor, or Airflow on the next host, starts their drivers again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.fleet.exits.exit_recorder import Observation

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.services.fleet.fleet import Fleet


def drain(store: Store, fleet: Fleet, streams: Iterable[str], *, requested_by: str, reason: str) -> list[Observation]:
    """Stop the drivers of `streams` that live on this host, all at the same time; how each of them ended.

    Raises:
        ProcessError: a driver is alive after its stop policy's last deadline.
        StoreError: the store is down.
    """
    here = [name for name in streams if _is_here(store.drivers.latest(name))]
    requests = [fleet.request_stop(name, requested_by=requested_by, reason=reason, restart=True) for name in here]
    return [fleet.wait_for_stop(request) for request in requests if request is not None]


def _is_here(record: DriverRecord | None) -> bool:
    """Whether the driver was started on this host, which for a container means in this container."""
    return record is not None and record.process is not None and record.process.host == processes.this_host()
