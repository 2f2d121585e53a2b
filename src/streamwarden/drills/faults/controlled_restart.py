"""controlled_restart: a graceful stop at a batch boundary. The recovery is the start that follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamwarden.drills.faults.base import Aftermath, FaultContext, Proof, Strike, await_exit, describe_exit, moment_of
from streamwarden.drills.spec import FaultSpec
from streamwarden.lifecycle.driver import ExitKind


@dataclass(frozen=True, slots=True)
class ControlledRestart:
    """Proof: the driver obeyed the stop request, every planned batch is committed, none was cut, and input is left.

    The moment is the request: the recovery time is what a person waits from asking for the stop to the next new batch.
    """

    aftermath: ClassVar[Aftermath] = Aftermath.ENDS

    def require(self, stream: str, declared: Mapping[str, Any], fault: FaultSpec) -> None:
        """Every stream has a driver."""

    def undo(self, context: FaultContext) -> str | None:
        """The recovery is the start that follows; nothing else stays."""
        return None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        # A request may have reached the driver before the process that made it died: the first one counts.
        moment = context.mark() if context.marked is None else context.marked
        reason = f"drill {context.run_id}: controlled restart"
        context.drivers.request_stop(context.fork, context.driver_id, by=f"drill:{context.run_id}", reason=reason)
        await_exit(context, deadline=deadline)
        return Strike(moment=moment, message="asked for a stop at the batch boundary")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        view = context.observe()
        position = context.checkpoint.position(context.fork)
        exit = view.exit
        stopped = exit is not None and exit.kind is ExitKind.STOPPED and not view.alive
        left = context.checkpoint.unplanned(context.fork)
        whole = position.gap == 0 and position.committed is not None and not (exit and exit.cut_batch)
        if exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not stopped:
            message = f"the driver did not stop at a batch boundary: {exit.kind.value} {exit.message}".rstrip()
        elif not whole:
            message = f"the stop cut batch {position.planned}: the last commit is {position.committed}"
        elif not left:
            message = "the stop was obeyed only at the end of the input: no batch is left that a restart could commit"
        else:
            message = f"the driver stopped as asked; batch {position.committed} is the last planned and committed"
        return Proof(
            landed=stopped and whole and left > 0,
            driver_id=context.driver_id,
            moment=moment_of(context, view, strike),
            planned=position.planned,
            committed=position.committed,
            message=message,
            evidence={**describe_exit(view), "unplanned_input": left},
        )
