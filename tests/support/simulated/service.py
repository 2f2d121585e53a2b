"""The service that a simulated fork needs. Commands stop and start it, as the world's knobs say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.faults.service_outage import CommandResult, OutageService, ServiceStatus
from streamwarden.drills.records.types import ForkView
from streamwarden.lifecycle.driver import ExitKind

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedService:
    """The broker, or the database, of the world's fork: while it is down the driver's batch does not go on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.down_since: float | None = None
        self.commands: list[str] = []
        self.is_store = False  # the world's journals are in it

    def probe(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        return ServiceStatus(name=f"the {service} at one:9092", answers=self.down_since is None, detail="refused")

    def run(self, command: Sequence[str], *, within: float) -> CommandResult:
        world = self.world
        world._maybe_die(f"before_{command[0]}")
        self.commands.append(command[0])
        status = world.down_status if command[0] == "down" else int(self.commands.count("up") <= world.up_failures)
        if command[0] == "down" and world.down_works:
            self.down_since = world.time
            world.journals.down = self.is_store
        elif command[0] == "up" and status == 0 and world.up_starts:
            self._come_back()
        world._maybe_die(f"after_{command[0]}")
        return CommandResult(status=status, output=f"{command[0]} said this")

    def pass_time(self, goal: float) -> None:
        """While its service is down, a driver only waits or gives up."""
        world = self.world
        if self.down_since is None:
            return
        back = world.restarted_by_others
        if back is not None and goal >= self.down_since + back:
            self._come_back()
            return
        for driver in world.drivers.values():
            if driver.exit is None and world.outage_has_effect:
                driver.next_event = max(driver.next_event, goal + world.batch_seconds)
                if goal - self.down_since >= world.patience:
                    world._end(driver, ExitKind.FAILED, message="TimeoutException", curable=world.failure_is_curable)

    def _come_back(self) -> None:
        self.down_since = None
        self.world.journals.down = False
        for driver in self.world.drivers.values():
            if driver.exit is None and self.world.gives_up_late is not None:
                driver.doomed, driver.next_event = True, self.world.time + self.world.gives_up_late
            if driver.exit is None and self.world.fails_after_return is not None:
                driver.fails_at = len(self.world.committed) + self.world.fails_after_return
