"""Wait until supervision has the live stream back, measure, and observe the steady state again.

The input of a live stream has no end: it has caught up when the new batches of the steady state are committed.
"""

from dataclasses import asdict, replace

from streamwarden.drills.faults import ExpectedEnd
from streamwarden.drills.live.supervision import await_supervised_commit, is_reached
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.state import Recovery
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import require_latest
from streamwarden.drills.steps.recovery import measure, never_came_back, observe_steady, predict_once


def recovery(context: StepContext) -> StepResult:
    """Predict, wait for the first new batch of whichever driver supervision has started, and measure."""
    recorder, spec = context.recorder, context.recorder.spec
    live, fault = recorder.require_live(), recorder.state.landed
    struck = context.ports.drivers.observe(fault.driver_id).record
    predict_once(context, live, struck, over=context.fault.expected_end is ExpectedEnd.ENDS)
    first_new = (-1 if fault.committed is None else fault.committed) + 1
    deadline = fault.moment + spec.recovery.deadline
    problem = await_supervised_commit(context, live, first_new, deadline=deadline)
    record = require_latest(context, live)
    if problem is not None:
        recorder.note(DrillStep.RECOVERY, "down", problem)
        return never_came_back(context, live, record, first_new, context.ports.drivers.observe(record.driver_id))
    measured = measure(context, live, record, fault.moment, first_new)
    message = f"batch {first_new} committed after the fault"
    recorder.note(DrillStep.RECOVERY, "first_new_commit", message, **asdict(measured))
    steady = recorder.state.steady_after or observe_steady(context, live, record.driver_id, first_new, deadline)
    last = first_new + spec.steady_state.min_batches - 1
    return _caught_up(context, live, measured, last, steady.holds, steady.message)


def _caught_up(
    context: StepContext, live: ForkView, measured: Recovery, last: int, holds: bool, said: str
) -> StepResult:
    recorder, checkpoint = context.recorder, context.ports.checkpoint
    replaced = context.fault.expected_end is ExpectedEnd.LIVES and measured.restarted
    done = is_reached(context, live, last) and not replaced
    message = (
        "another driver replaced the struck one, which had to go on"
        if replaced
        else f"batch {last} " + ("was committed: the stream has caught up" if done else "was not committed in time")
    )
    recorder.put(recovery=replace(measured, completed=done, message=message), batches=checkpoint.batches(live))
    seconds, target = measured.recovery_seconds or 0.0, recorder.spec.recovery.target
    summary = f"first new batch {seconds:.1f} s after the fault (target {target:.1f} s); {message}; {said}"
    return StepResult(ok=done and holds and seconds <= target, message=summary)
