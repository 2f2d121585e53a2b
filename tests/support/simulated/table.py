"""The table of a simulated fork, which a drill locks: while it is locked the driver's batch waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedTable:
    """Implements `drills.ports.HeldTable`. The attributes up to the blank line are what a test turns."""

    def __init__(self, world: World) -> None:
        self.has_effect = True  # the driver has to wait for it
        self.stays_locked = True
        self.lock_timeout = 30.0  # seconds after which the driver tries again in another session

        self.world = world
        self.locked_at: float | None = None

    def waiting(self) -> Sequence[int]:
        if self.locked_at is None or not self.has_effect or self.world.time < self.locked_at + 1:
            return []
        return [700 + int((self.world.time - self.locked_at) // self.lock_timeout)]

    def is_held(self) -> bool:
        return self.stays_locked

    def pass_time(self, goal: float) -> None:
        """A driver that waits commits nothing."""
        if self.locked_at is None or not self.has_effect:
            return
        for driver in self.world.drivers.values():
            if driver.exit is None:
                driver.next_event = max(driver.next_event, goal + self.world.batch_seconds)
