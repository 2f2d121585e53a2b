"""The executors of a simulated fork's driver: found, killed, replaced as the world's knobs say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamwarden.drills.faults.driver.kill_executor import ExecutorProcess
from streamwarden.lifecycle.driver import ExitKind, ProcessIdentity

if TYPE_CHECKING:
    from support.simulated.drill_world import World


class SimulatedCluster:
    """The executors of the world's newest driver."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead: set[int] = set()
        self.started = 0

    def find(self, driver_id: str) -> Sequence[ExecutorProcess]:
        if self.world.drivers[driver_id].exit is not None:
            return ()
        pids = range(7000 + self.started, 7000 + self.started + self.world.executors_here)
        return [
            ExecutorProcess(id=str(pid - 7000), process=ProcessIdentity(host="here", pid=pid, started_at=5))
            for pid in pids
        ]

    def kill(self, executor: ExecutorProcess) -> bool:
        world = self.world
        world._maybe_die("before_executor_kill")
        world.signals.append(f"kill executor {executor.id}")
        if world.executor_dies_late:
            world.sleep(world.batch_seconds)
        if world.executor_dies:
            self.dead.add(executor.process.pid)
            self.started += 1
            (driver,) = [each for each in world.drivers.values() if each.exit is None]
            if world.driver_survives_executor:
                driver.next_event = world.time + world.batch_seconds  # the batch begins once more
            else:
                world._end(driver, ExitKind.FAILED, message="SparkException: no executor left")
        world._maybe_die("after_executor_kill")
        return True

    def is_alive(self, executor: ExecutorProcess) -> bool:
        return executor.process.pid not in self.dead
