"""The service that a simulated fork needs: taken away and brought back by commands, as the world's knobs say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.parts import OutageService
from streamwarden.drills.ports import CommandResult, ForkView, ServiceStatus
from streamwarden.lifecycle.driver import ExitKind

if TYPE_CHECKING:
    from support.drill_world import World


class SimulatedService:
    """The broker, or the database, of the world's fork: while it is away no batch of the driver's goes on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.away_since: float | None = None
        self.commands: list[str] = []

    def probe(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        return ServiceStatus(name=f"the {service} at one:9092", answers=self.away_since is None, detail="refused")

    def run(self, command: Sequence[str], *, within: float) -> CommandResult:
        world = self.world
        world._maybe_die(f"before_{command[0]}")
        self.commands.append(command[0])
        status = world.down_status if command[0] == "down" else int(self.commands.count("up") <= world.up_failures)
        if command[0] == "down" and world.down_works:
            self.away_since = world.time
        elif command[0] == "up" and status == 0 and world.up_starts:
            self._come_back()
        world._maybe_die(f"after_{command[0]}")
        return CommandResult(status=status, output=f"{command[0]} said this")

    def pass_time(self, goal: float) -> None:
        """Nothing happens to a driver while its service is away, but that it gives up."""
        world = self.world
        if self.away_since is None:
            return
        back = world.restarted_by_others
        if back is not None and goal >= self.away_since + back:
            self._come_back()
            return
        for driver in world.drivers.values():
            if driver.exit is None and world.outage_felt:
                driver.next_event = max(driver.next_event, goal + world.batch_seconds)
                if goal - self.away_since >= world.patience:
                    world._end(driver, ExitKind.FAILED, message="TimeoutException", curable=world.failure_is_curable)

    def _come_back(self) -> None:
        self.away_since = None
        for driver in self.world.drivers.values():
            if driver.exit is None and self.world.gives_up_late is not None:
                driver.doomed, driver.next_event = True, self.world.time + self.world.gives_up_late
