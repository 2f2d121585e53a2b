"""The fork's drivers, through the same fleet and under the same lease rules as any stream's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamwarden.drills.ports import DriverView, ForkView
from streamwarden.errors import DrillError
from streamwarden.lifecycle.driver import DriverRecord

if TYPE_CHECKING:
    from streamwarden.adapters.store import Store
    from streamwarden.services.fleet.fleet import Fleet


class ForkDrivers:
    """Implements `drills.ports.DriverControl`. A fork's stream name belongs to one run, and so do its drivers."""

    def __init__(self, fleet: Fleet, store: Store) -> None:
        self._fleet = fleet
        self._store = store

    def start(self, fork: ForkView, run_id: str) -> DriverRecord:
        """Start the fork's driver. Raises what Fleet.start raises."""
        return self._fleet.start(fork.spec, launched_by=f"drill:{run_id}").record

    def latest(self, fork: ForkView) -> DriverRecord | None:
        """The fork's newest driver, running or not."""
        return self._store.drivers.latest(fork.stream)

    def observe(self, driver_id: str) -> DriverView:
        """The driver now."""
        observed = self._fleet.observe(driver_id)
        return DriverView(alive=observed.alive, record=observed.record, exit=observed.exit)

    def request_stop(self, fork: ForkView, driver_id: str, *, by: str, reason: str) -> None:
        """Request a stop at a batch boundary. Raises DrillError if the request would reach another driver."""
        request = self._fleet.request_stop(fork.stream, requested_by=by, reason=reason, restart=True)
        if request is not None and request.driver_id != driver_id:
            raise DrillError(
                f"the stop request went to driver {request.driver_id}",
                expected=driver_id,
                where=fork.stream,
                next_step="run the drill again; only the drill may start drivers of its fork",
            )

    def kill(self, driver_id: str) -> bool:
        """Send SIGKILL to the driver's process group; False if it no longer existed."""
        return self._fleet.kill(driver_id)
