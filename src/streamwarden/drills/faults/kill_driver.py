"""kill_driver: SIGKILL while a batch is running, between `offsets/N` and `commits/N`."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Aftermath, Proof, Scene, Strike, await_exit, describe_exit, moment_of
from streamwarden.drills.spec import FaultSpec

POLL = 0.003
"""Seconds between two looks at the logs: the window is some hundred milliseconds wide."""

OBSERVE_EVERY = 0.5
"""Seconds between two looks at the process, which cost more than a look at the logs."""


@dataclass(frozen=True, slots=True)
class KillDriver:
    """Proof: the driver ended by signal 9, `offsets/N` is there, `commits/N` is not."""

    aftermath: ClassVar[Aftermath] = Aftermath.ENDS
    missed: ClassVar[str] = "no batch was caught between its plan and its commit"

    def require(self, stream: str, declared: Mapping[str, Any], fault: FaultSpec) -> None:
        """Every stream has a driver."""

    def undo(self, scene: Scene) -> str | None:
        """The recovery is the start that follows; nothing else stays."""
        return None

    def strike(self, scene: Scene, *, deadline: float) -> Strike:
        batch = self.aim(scene, deadline=deadline)
        if batch is None:
            return Strike(moment=None, message=self.missed)
        moment = scene.clock.now()
        if not scene.drivers.kill(scene.driver_id):
            return Strike(moment=None, message="the driver's process was already gone", batch=batch)
        await_exit(scene, deadline=deadline)
        return Strike(moment=moment, message=f"SIGKILL while batch {batch} was running", batch=batch)

    def aim(self, scene: Scene, *, deadline: float) -> int | None:
        """Wait until a batch is planned and not committed; its id, or None if the driver ended or time is up."""
        return await_running_batch(scene, deadline=deadline)

    def prove(self, scene: Scene, strike: Strike | None) -> Proof:
        view = scene.observe()
        position = scene.checkpoint.position(scene.fork)
        planned = position.planned
        offsets = planned is not None and scene.checkpoint.is_planned(scene.fork, planned)
        commits = planned is not None and scene.checkpoint.is_committed(scene.fork, planned)
        killed = view.exit is not None and view.exit.signal == signal.SIGKILL
        if view.alive or view.exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not killed:
            message = f"the driver was already over: {view.exit.kind.value} {view.exit.message}".rstrip()
        elif not offsets or commits:
            message = f"the driver died by signal 9, but batch {planned} was committed before it died"
        else:
            message = f"the driver died by signal 9 with offsets/{planned} written and commits/{planned} absent"
        return Proof(
            landed=killed and not view.alive and offsets and not commits,
            driver_id=scene.driver_id,
            moment=moment_of(scene, view, strike),
            planned=planned,
            committed=position.committed,
            message=message,
            evidence={
                **describe_exit(view),
                "offsets_written": offsets,
                "commits_written": commits,
                "aimed_at_batch": strike.batch if strike else None,
            },
        )


def await_running_batch(scene: Scene, *, deadline: float) -> int | None:
    """Wait until a batch is planned and not committed; its id, or None if the driver ended or time is up."""
    next_observation = 0.0
    while (now := scene.clock.now()) < deadline:
        position = scene.checkpoint.position(scene.fork)
        if position.gap > 0:
            return position.planned
        if now >= next_observation:
            if not scene.observe().alive:
                return None
            next_observation = now + OBSERVE_EVERY
        scene.clock.sleep(POLL)
    return None
