"""Start the fork again if the fault ended it, measure until the first new batch commits, observe the steady state, and
let the fork run to the end of its input."""

import statistics
from dataclasses import asdict, dataclass, replace

from streamwarden.drills.faults import ExpectedEnd, RefusalFault
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.reporting.outcome import REMEDIATED
from streamwarden.drills.state import LandedFault, Recovery, SteadyState
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import (
    await_commit,
    await_input_end,
    describe,
    is_complete,
    may_start_again,
    note_exit,
    require_latest,
    start_driver,
    start_failed_again,
)
from streamwarden.drills.steps.refusal import observe_refusal, remediate
from streamwarden.drills.steps.steady_state import observe_health
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.recovery import (
    RecoveryPrediction,
    predict_batch,
    predict_new_executor,
    predict_restart,
    predict_theorem,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A stream that came back from a fault.

    Args:
        since: Unix seconds from which the recovery counts; after: what happened then, in words.
    """

    fork: ForkView
    since: float
    after: str
    measured: Recovery


def recovery(context: StepContext) -> StepResult:
    """Wait until the stream has come back from the last fault, observe it, and wait for the end of the input."""
    recorder, ports, target = context.recorder, context.ports, context.recorder.spec.recovery.target
    back = come_back(context)
    if isinstance(back, StepResult):
        return back
    fork, measured = back.fork, back.measured
    driver_id, first_new = measured.driver_id, measured.first_new_batch
    deadline, seconds = back.since + recorder.spec.recovery.deadline, measured.recovery_seconds or 0.0
    steady = recorder.state.steady_after or observe_steady(context, fork, driver_id, first_new, deadline)
    end = _await_last_end(context, fork, deadline)
    note_exit(context, DrillStep.RECOVERY, end)
    completed = is_complete(context, fork, end)
    recorder.put(
        recovery=replace(measured, completed=completed, message=describe(end)),
        batches=ports.checkpoint.batches(fork),
    )
    message = (
        f"batch {first_new} committed {seconds:.1f} s after {back.after}"
        f" (target {target:.1f} s); {describe(end)}; {steady.message}"
    )
    return StepResult(ok=completed and seconds <= target and steady.holds, message=message)


def come_back(context: StepContext) -> Return | StepResult:
    """Predict, restart what the fault ended, and measure until the first new commit. A StepResult: it never came, or
    the stream did not refuse what it must refuse."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork, fault = recorder.require_fork(), recorder.state.landed
    since, after = fault.moment, "the fault"
    if isinstance(context.fault, RefusalFault):
        refusal = observe_refusal(context, context.fault, fork)
        if not refusal.holds:
            return StepResult(ok=False, message=refusal.message)
        onward = remediate(context, context.fault, fork)
        if onward.fork.checkpoint == fork.checkpoint:
            predict_once(context, fork, ports.drivers.observe(fault.driver_id).record, over=True)
        fork, record, first_new = onward.fork, onward.record, onward.first_new
        since, after = record.launched_at, REMEDIATED  # until then an operator has to read the report
        late = await_commit(context, fork, record.driver_id, first_new, deadline=since + spec.recovery.deadline)
    else:
        record, first_new, late = _await_return(context, fork, fault)
    if late is not None:
        note_exit(context, DrillStep.RECOVERY, late)
        return never_came_back(context, fork, record, first_new, late)
    measured = measure(context, fork, record, since, first_new)
    recorder.put(recovery=measured)
    recorder.note(
        DrillStep.RECOVERY, "first_new_commit", f"batch {first_new} committed after {after}", **asdict(measured)
    )
    return Return(fork=fork, since=since, after=after, measured=measured)


def _await_return(
    context: StepContext, fork: ForkView, fault: LandedFault
) -> tuple[DriverRecord, int, DriverView | None]:
    """Start again what the fault ended, as supervision does, and wait for the first new commit.

    Returns the driver, the batch, and why it was not committed (None: it was).
    """
    record = require_latest(context, fork)
    struck = record.driver_id == fault.driver_id  # it was not started again, not even by a killed try of this step
    if struck:
        ends = context.fault.expected_end is ExpectedEnd.ENDS
        over = ends or may_start_again(context, context.ports.drivers.observe(record.driver_id))
        predict_once(context, fork, record, over=over)
        if over:
            record = start_driver(context, fork, DrillStep.RECOVERY)
    first_new = (-1 if fault.committed is None else fault.committed) + 1
    deadline = fault.moment + context.recorder.spec.recovery.deadline
    late = await_commit(context, fork, record.driver_id, first_new, deadline=deadline)
    # It may not have given up yet when this step began.
    again = start_failed_again(context, fork, late, DrillStep.RECOVERY) if late is not None else None
    if again is not None:
        record, late = again, await_commit(context, fork, again.driver_id, first_new, deadline=deadline)
    return record, first_new, late


def predict_once(context: StepContext, fork: ForkView, record: DriverRecord, *, over: bool) -> None:
    """Record the predictions, unless an earlier try of the step did."""
    if not context.recorder.state.predicted:
        context.recorder.put(predicted=predict(context, fork, record, over=over))


def predict(
    context: StepContext, fork: ForkView, struck: DriverRecord, *, over: bool
) -> tuple[RecoveryPrediction, ...]:
    """How long a recovery should take, from what was known at the fault: the logs, the snapshots and the life of the
    struck driver.

    Args:
        over: the driver is started again. Otherwise it continues, with a new executor or as it was.
    """
    checkpoint = context.ports.checkpoint
    batches = checkpoint.batches(fork)
    durations = [batch.seconds for batch in batches if batch.seconds is not None]
    usual = statistics.median(durations) if durations else None
    if not over and context.fault.expected_end is ExpectedEnd.MAY_END:
        return (predict_batch(usual),)
    snapshot = checkpoint.snapshot(fork)
    launched_at = _first_struck(context, struck).launched_at
    life = [batch for batch in batches if batch.planned_at is not None and batch.planned_at >= launched_at]
    first = life[0] if life else None
    changed = [
        batch.rows_changed
        for batch in batches
        if batch.committed_at is not None and (snapshot.version is None or batch.batch_id >= snapshot.version)
    ]
    cold = first.seconds if first else None
    theorem = predict_theorem(checkpoint.position(fork).planned, snapshot, usual)
    if not over:
        return theorem, predict_new_executor(snapshot=snapshot, rows_changed=changed, first_batch=cold)
    startup = first.planned_at - launched_at if first and first.planned_at is not None else None
    return theorem, predict_restart(startup=startup, snapshot=snapshot, rows_changed=changed, redone_batch=cold)


def _first_struck(context: StepContext, struck: DriverRecord) -> DriverRecord:
    """The driver that the first fault struck. One that followed it began with a batch that had been planned before, so
    that its start and its first batch cannot be told apart."""
    first = next((result.landed for result in context.recorder.state.earlier if result.landed is not None), None)
    return struck if first is None else context.ports.drivers.observe(first.driver_id).record


def measure(context: StepContext, fork: ForkView, record: DriverRecord, since: float, first_new: int) -> Recovery:
    """The recovery from `since`, in Unix seconds, up to the commit of the first new batch."""
    committed_at = context.ports.checkpoint.commit_time(fork, first_new)
    at = context.ports.clock.now() if committed_at is None else committed_at
    lives = record.driver_id == context.recorder.state.landed.driver_id
    return Recovery(
        driver_id=record.driver_id,
        launched_at=record.launched_at,
        first_new_batch=first_new,
        first_commit_at=at,
        # A batch may be committed before the drill has observed that the service answers again.
        recovery_seconds=max(at - since, 0.0),
        restart_seconds=max(at - (since if lives else record.launched_at), 0.0),
        restarted=not lives,
        completed=False,
        message="running",
    )


def _await_last_end(context: StepContext, fork: ForkView, deadline: float) -> DriverView:
    """The newest driver at the end of its input. The struck one may have failed meanwhile, or may do so here."""
    end = await_input_end(context, fork, require_latest(context, fork).driver_id, deadline=deadline)
    again = start_failed_again(context, fork, end, DrillStep.RECOVERY)
    return end if again is None else await_input_end(context, fork, again.driver_id, deadline=deadline)


def observe_steady(
    context: StepContext, fork: ForkView, driver_id: str, first_new: int, deadline: float
) -> SteadyState:
    """Observe the hypothesis again, as soon as enough new batches committed, while the driver still runs."""
    wanted = first_new + context.recorder.spec.steady_state.min_batches - 1
    late = await_commit(context, fork, driver_id, wanted, deadline=deadline)
    again = start_failed_again(context, fork, late, DrillStep.RECOVERY) if late is not None else None
    if again is not None:
        late = await_commit(context, fork, again.driver_id, wanted, deadline=deadline)
    steady = observe_health(context, fork)
    if late is not None:
        message = f"batch {wanted} was not committed after the fault: {describe(late)}"
        steady = replace(steady, holds=False, message=message)
    context.recorder.put(steady_after=steady)
    context.recorder.note(DrillStep.RECOVERY, "steady_state", steady.message, holds=steady.holds)
    return steady


def never_came_back(
    context: StepContext, fork: ForkView, record: DriverRecord, first_new: int, view: DriverView
) -> StepResult:
    """Record that no new batch was committed."""
    message = f"batch {first_new} was never committed after the fault: {describe(view)}"
    context.recorder.put(
        recovery=Recovery(
            driver_id=record.driver_id,
            launched_at=record.launched_at,
            first_new_batch=first_new,
            first_commit_at=None,
            recovery_seconds=None,
            restart_seconds=None,
            completed=False,
            message=message,
        ),
        batches=context.ports.checkpoint.batches(fork),
    )
    return StepResult(ok=False, message=f"the stream never came back: {message}")
