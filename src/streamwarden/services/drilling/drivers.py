"""The fork's drivers, through the same fleet and under the same lease rules as any stream's."""

import time
from functools import partial
from pathlib import Path
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.errors import DrillError
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.handovers import ask_to_hold
from streamwarden.services.drilling.ports.driver_clock import ForkClock
from streamwarden.services.drilling.ports.driver_spark import ForkSpark
from streamwarden.services.fleet.applications.submission import submit
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.stream.spark import DeployMode

_ASK_AGAIN: Final = 1.0
"""Seconds between two attempts to start a driver while the lease of another one has not expired."""


class ForkDrivers:
    """Implements `drills.ports.DriverControl`. A fork's stream name belongs to one run, and so do its drivers."""

    def __init__(self, fleet: Fleet, store: Store, clock: ForkClock, spark: ForkSpark) -> None:
        self._fleet = fleet
        self._store = store
        self._clock = clock
        self._spark = spark
        self.kill, self.freeze, self.thaw, self.is_running = fleet.kill, fleet.freeze, fleet.thaw, fleet.is_running

    def start(self, fork: ForkView, run_id: str) -> DriverRecord:
        env, by = self._clock.environment(run_id), f"drill:{run_id}"
        spec = self._spark.of_run(fork.spec, run_id)
        if spec.spark.deploy_mode is DeployMode.CLIENT:
            return self._fleet.start(spec, launched_by=by, env=env).record
        latest = self.latest(fork)
        if latest is not None and self._fleet.observe(latest.driver_id).alive:
            return latest
        through = partial(submit, spec, environ=env)
        return self._fleet.submit(spec, launched_by=by, through=through, env=env)[0]

    def latest(self, fork: ForkView) -> DriverRecord | None:
        return self._store.drivers.latest(fork.stream)

    def observe(self, driver_id: str) -> DriverView:
        observed = self._fleet.observe(driver_id)
        return DriverView(alive=observed.alive, record=observed.record, exit=observed.exit)

    def hold_batch(self, driver_id: str, wanted: bool) -> None:
        record = self._store.drivers.get(driver_id)
        if record is not None and Path(record.folder).is_dir():
            ask_to_hold(Path(record.folder), wanted)

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

    def take_over(self, fork: ForkView, run_id: str, driver_id: str, *, deadline: float) -> DriverRecord | None:
        with self._fleet.elsewhere(driver_id) as fleet:
            while time.time() < deadline:
                env, spec = self._clock.environment(run_id), self._spark.of_run(fork.spec, run_id)
                started = fleet.start(spec, launched_by=f"drill:{run_id}", env=env)
                if started.record.driver_id != driver_id:
                    return started.record
                time.sleep(_ASK_AGAIN)
        return None
