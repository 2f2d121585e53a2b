"""controlled_restart: a graceful stop at a batch boundary. The recovery is the start that follows."""

from dataclasses import dataclass
from typing import ClassVar

from streamwarden.drills.faults.base import Description, ExpectedEnd, Fault, FaultContext, LiveUse, Proof, Strike
from streamwarden.lifecycle.driver import ExitKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRestart(Fault):
    """Proof: the driver obeyed the stop request, every planned batch is committed, none was cut, and input is left.

    The moment is the request: the recovery time is what an operator waits from the stop request to the next new batch.
    """

    kind: str = "controlled_restart"
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.ENDS
    event: ClassVar[str] = "a planned restart"
    proof: ClassVar[str] = "The driver stopped, and no batch was cut."
    recovery: ClassVar[str] = "The start that follows."
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="a stop at a batch boundary is what a deployment does to the stream",
    )
    description: ClassVar[Description] = Description(
        does="Stops the driver at a batch boundary, as a deployment does.",
        promise="The next driver continues after the last committed batch.",
        seen="The output was right, and no batch was cut.",
        next_step="Nothing.",
    )

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        if not context.observe().alive:
            return Strike(moment=None, message="the driver's process was already gone")
        # The request of a process that was killed may have reached the driver: the first one counts.
        moment = context.mark() if context.marked_at is None else context.marked_at
        reason = f"drill {context.run_id}: controlled restart"
        context.ports.drivers.request_stop(context.fork, context.driver_id, by=f"drill:{context.run_id}", reason=reason)
        context.await_exit(deadline=deadline)
        return Strike(moment=moment, message="asked for a stop at the batch boundary")

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        view = context.observe()
        position = context.ports.checkpoint.position(context.fork)
        exit = view.exit
        stopped = exit is not None and exit.kind is ExitKind.STOPPED and not view.alive
        left = 0 if context.fork.live else context.ports.checkpoint.unplanned(context.fork)
        whole = position.gap == 0 and position.committed is not None and not (exit and exit.cut_batch)
        if exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not stopped:
            message = f"the driver did not stop at a batch boundary: {exit.kind.value} {exit.message}".rstrip()
        elif not whole:
            message = f"the stop cut batch {position.planned}: the last commit is {position.committed}"
        elif not (left or context.fork.live):
            message = "the driver stopped only at the end of the input: no batch is left that a restart could commit"
        else:
            message = f"the driver stopped as asked; batch {position.committed} is the last planned and committed"
        landed, evidence = stopped and whole and (left > 0 or context.fork.live), {"unplanned_input": left}
        return context.proof(strike, view, position, landed=landed, message=message, evidence=evidence)
