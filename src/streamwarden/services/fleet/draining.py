"""Stops the drivers of a host at a batch boundary, before the host or the container goes away.

Only living drivers are touched, whatever files declare. The streams stay wanted: a supervisor, or Airflow on the next
host, starts their drivers again. A stream that a person has stopped stays stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.forks.places import is_fork
from streamwarden.lifecycle.supervision.stop import Desired, StopRequest
from streamwarden.services.fleet.exits.exit_recorder import Observation

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.services.fleet.fleet import Fleet


def _is_here(driver: DriverRecord) -> bool:
    """Whether the driver was started on this host, which for a container means in this container."""
    return driver.process is not None and driver.process.host == processes.this_host()


def drain(
    store: Store,
    fleet: Fleet,
    *,
    requested_by: str,
    reason: str,
    pids: Collection[int] | None = None,
    of: Callable[[DriverRecord], bool] = _is_here,
) -> list[Observation]:
    """Stop the drivers that live on this host, all at the same time; how each of them ended. The forks of drills are
    left to their drills.

    Args:
        pids: only the drivers with these process ids.
        of: which drivers, instead of those of this host.

    Raises:
        ProcessError: a driver is alive after its stop policy's last deadline.
        StoreError: the store is down.
    """
    here = [driver for driver in store.drivers.unfinished() if of(driver) and not is_fork(driver.stream)]
    here = [driver for driver in here if pids is None or (driver.process and driver.process.pid in pids)]
    alive = [driver for driver in here if fleet.observe_record(driver).alive]
    requests = [_requested(store, fleet, driver, requested_by, reason) for driver in alive]
    return [fleet.wait_for_stop(request) for request in requests if request is not None]


def _requested(store: Store, fleet: Fleet, driver: DriverRecord, by: str, reason: str) -> StopRequest | None:
    """The request that ends the driver. One that a person made is waited for, and not replaced by one that starts the
    stream again."""
    state = store.stops.desired(driver.stream)
    if state is None or state.desired is not Desired.STOPPED:
        return fleet.request_stop(driver.stream, requested_by=by, reason=reason, restart=True)
    pending = store.stops.pending(driver.driver_id)
    return pending or fleet.request_stop(driver.stream, requested_by=state.changed_by, reason=state.reason)
