"""The clock of a simulated driver, which a drill steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamwarden.drills.records.types import PlanTimes
from streamwarden.errors import DrillAborted

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedClock:
    """Implements `DriverClock`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.refusal: DrillAborted | None = None
        self.has_effect = True
        self.ends_drivers = False

        self.world = world
        self.provided = False
        self.off = 0.0
        self.steps: list[tuple[float, float]] = []

    def require(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def provide(self, run_id: str) -> None:
        assert not self.world.drivers, "a driver that runs cannot get another clock"
        self.provided = True

    def step(self, run_id: str, by: float) -> None:
        assert self.provided
        self._set(by)
        for driver in self.world.drivers.values():
            driver.doomed |= self.ends_drivers
        self.world._maybe_die("after_clock_step")

    def reset(self, run_id: str) -> bool:
        wrong = self.off != 0
        self._set(0.0)
        return wrong

    def remove(self, run_id: str) -> None:
        assert all(driver.exit for driver in self.world.drivers.values()), "a driver still uses the clock"
        self.provided = False

    def plan_times(self, planned_at: float) -> PlanTimes:
        off = next((by for at, by in reversed(self.steps) if at <= planned_at), 0.0) if self.has_effect else 0.0
        return PlanTimes(driver=planned_at + off - 0.2, storage=planned_at)

    def _set(self, by: float) -> None:
        self.off = by
        self.steps.append((self.world.time, by))
