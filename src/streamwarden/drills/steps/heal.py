"""Undo the fault, end the fork's driver and remove scratch. Always runs; may run again, until it passes."""

from collections.abc import Sequence

from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.state import Healing
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import await_end, fault_context, note_exit
from streamwarden.errors import DrillError, StoreError, StreamwardenError

END_WITHIN = 30.0
"""Seconds from SIGKILL until the driver's supervisor process must have recorded the exit."""


def heal(context: StepContext) -> StepResult:
    """Leave nothing broken, nothing running and no scratch; what is evidence stays. Raises StoreError.

    The result names what could not be done; healing again tries it again. The rest is healed although a service stays
    unavailable; a driver that does not end keeps its scratch.
    """
    recorder, fork, keep = context.recorder, context.recorder.fork, context.recorder.spec.fork.keep
    left = undo_strike(context, fork)
    try:
        ended = _end_driver(context, fork)
        for fault in recorder.spec.sequence:
            fault.release(recorder.run.run_id, context.ports)
        removed = [] if keep else list(context.ports.forks.clear(recorder.run.run_id, fork))
    except StoreError:
        raise
    except StreamwardenError as error:
        return unclean(context, "; ".join(filter(None, (left, str(error)))))
    ending = f"the driver {ended} was ended" if ended else "no driver was left to end"
    message = f"{ending}; removed: {', '.join(removed) or 'nothing'}"
    if left is not None:
        return unclean(context, f"{left}; {message}")
    return healed(context, message, kept=keep, removed=removed)


def _end_driver(context: StepContext, fork: ForkView | None) -> str | None:
    """The id of the driver that was ended; None if none was left. Raises DrillError if it does not end."""
    ports = context.ports
    record = ports.drivers.latest(fork) if fork else None
    if fork is None or record is None or ports.drivers.observe(record.driver_id).exit is not None:
        return None
    ports.drivers.kill(record.driver_id)  # the work of a fork is not kept, so no batch boundary is awaited
    view = await_end(context, fork, record.driver_id, deadline=ports.clock.now() + END_WITHIN)
    note_exit(context, DrillStep.HEAL, view)
    if view.alive:
        raise DrillError(
            f"driver {record.driver_id} is still alive {END_WITHIN:.0f} s after SIGKILL",
            expected="a process that ends",
            where=record.folder,
            next_step="check whether it hangs in the kernel (`ps`: state D), then heal again",
        )
    return record.driver_id


def undo_strike(context: StepContext, fork: ForkView | None) -> str | None:
    """Undo what a strike whose process was killed left in place. Returns why it could not; None if nothing is left.

    Errors are returned, not raised: the driver must be ended all the same.
    """
    state = context.recorder.state
    if fork is None or state.strike is None or not state.undo_due:
        return None
    try:
        undone = context.fault.undo(fault_context(context, fork, state.strike.driver_id))
    except StreamwardenError as error:
        return str(error)
    context.recorder.put(undo_due=False)
    if undone is not None:
        context.recorder.note(DrillStep.HEAL, "undone", undone)
    return None


def healed(context: StepContext, message: str, *, kept: bool = False, removed: Sequence[str] = ()) -> StepResult:
    """Record that nothing is left to heal."""
    context.recorder.note(DrillStep.HEAL, "healed", message)
    context.recorder.put(healing=Healing(clean=True, message=message, kept=kept, removed=tuple(removed)))
    return StepResult(ok=True, message=message)


def unclean(context: StepContext, message: str) -> StepResult:
    """Record what could not be healed."""
    context.recorder.note(DrillStep.HEAL, "unhealed", message)
    context.recorder.put(healing=Healing(clean=False, message=message))
    return StepResult(ok=False, message=message)
