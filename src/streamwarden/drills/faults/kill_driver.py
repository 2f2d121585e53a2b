"""kill_driver: SIGKILL while a batch is running, between `offsets/N` and `commits/N`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.base import (
    Aftermath,
    Fault,
    FaultContext,
    Proof,
    Strike,
    await_exit,
    describe_exit,
    moment_of,
)

POLL = 0.003
"""Seconds between two reads of the logs: the window is some hundred milliseconds wide."""

OBSERVE_EVERY = 0.5
"""Seconds between two checks of the process, which cost more than reading the logs."""


@dataclass(frozen=True, slots=True)
class KillDriver(Fault):
    """Proof: the driver ended by signal 9, `offsets/N` is there, `commits/N` is not."""

    aftermath: ClassVar[Aftermath] = Aftermath.ENDS
    event: ClassVar[str] = "a crash in mid-batch"
    missed: ClassVar[str] = "no batch was caught between its plan and its commit"

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        batch = self.aim(context, deadline=deadline)
        if batch is None:
            return Strike(moment=None, message=self.missed)
        moment = context.clock.now()
        if not context.drivers.kill(context.driver_id):
            return Strike(moment=None, message="the driver's process was already gone", batch=batch)
        await_exit(context, deadline=deadline)
        return Strike(moment=moment, message=f"SIGKILL while batch {batch} was running", batch=batch)

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        """Wait until a batch is planned and not committed; its id, or None if the driver ended or time is up."""
        return await_running_batch(context, deadline=deadline)

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        view = context.observe()
        position = context.checkpoint.position(context.fork)
        planned = position.planned
        offsets = planned is not None and context.checkpoint.is_planned(context.fork, planned)
        commits = planned is not None and context.checkpoint.is_committed(context.fork, planned)
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
            driver_id=context.driver_id,
            moment=moment_of(context, view, strike),
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


def await_running_batch(context: FaultContext, *, deadline: float) -> int | None:
    """Wait until a batch is planned and not committed; its id, or None if the driver ended or time is up."""
    next_observation = 0.0
    while (now := context.clock.now()) < deadline:
        position = context.checkpoint.position(context.fork)
        if position.gap > 0:
            return position.planned
        if now >= next_observation:
            if not context.observe().alive:
                return None
            next_observation = now + OBSERVE_EVERY
        context.clock.sleep(POLL)
    return None
