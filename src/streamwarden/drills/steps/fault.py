"""Strike until the fault lands, with proof; of several faults one after the other, each of which has to be over before
the next one strikes. The step records a strike before it happens, so that a repeated step finds
the strike of a process that was killed and does not strike twice."""

from collections.abc import Callable
from dataclasses import asdict

from streamwarden.drills.faults.base import Proof
from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.state import AnnouncedStrike, LandedFault
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import (
    await_commit,
    await_end,
    describe,
    fault_context,
    has_read_all,
    may_start_again,
    note_exit,
    require_latest,
    start_driver,
)
from streamwarden.drills.steps.recovery import come_back
from streamwarden.errors import StreamwardenError
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.units import format_count


def fault(context: StepContext) -> StepResult:
    """Let every fault of the drill land, and the stream come back from each but the last: that is the next step."""
    landed = _land(context)
    while landed.ok and not context.recorder.state.is_last:
        back = come_back(context)
        if isinstance(back, StepResult):
            return back
        context.recorder.next_fault()
        landed = _land(context)
    return landed


def _land(context: StepContext) -> StepResult:
    """Strike until a proof holds or the attempts are used up; a fault that never landed fails the drill."""
    return strike_until_landed(context, context.recorder.require_fork(), _make_strikeable)


def strike_until_landed(
    context: StepContext, fork: ForkView, make_strikeable: Callable[[StepContext, ForkView], str | None]
) -> StepResult:
    """See `fault`.

    Args:
        make_strikeable: makes sure that a driver runs and commits; returns why none can be struck, None: one can.
    """
    recorder, spec, state = context.recorder, context.fault, context.recorder.state
    if state.fault is not None:
        return StepResult(ok=True, message=state.fault.message)
    misses = list(state.misses)
    while len(misses) < spec.attempts:
        announced = recorder.state.strike
        resumed = announced is not None
        if announced is None:
            obstacle = make_strikeable(context, fork)
            if obstacle is not None:
                return _ended_early(context, fork) or _missed(context, [*misses, obstacle])
            _pause(context, fork)
            announced = AnnouncedStrike(driver_id=require_latest(context, fork).driver_id, attempt=len(misses) + 1)
            recorder.put(strike=announced, undo_due=True)
        proof = _strike(context, fork, announced.driver_id, resumed=resumed)
        recorder.put(undo_due=False)  # a strike undoes what it did before it returns
        recorder.note(DrillStep.FAULT, "landed" if proof.landed else "missed", proof.message, **asdict(proof))
        if proof.landed:
            recorder.put(fault=LandedFault.of(proof, spec.kind, len(misses) + 1))
            return StepResult(ok=True, message=proof.message)
        misses.append(proof.message)
        recorder.put(misses=misses, strike=None)
    return _ended_early(context, fork) or _missed(context, misses)


def _pause(context: StepContext, fork: ForkView) -> None:
    """Let the driver commit the batches that were drawn to come before this strike, if it lives that long. A batch that
    runs already is the first of them."""
    state, ports = context.recorder.state, context.ports
    batches = state.plan.pauses[len(state.earlier)]
    if batches == 0:
        return
    committed = ports.checkpoint.position(fork).committed
    last = (-1 if committed is None else committed) + batches
    deadline = ports.clock.now() + context.fault.within
    await_commit(context, fork, require_latest(context, fork).driver_id, last, deadline=deadline)
    awaited = format_count(batches, "batch")
    context.recorder.note(DrillStep.FAULT, "paused", f"{awaited} to be committed before the next strike")


def _strike(context: StepContext, fork: ForkView, driver_id: str, *, resumed: bool) -> Proof:
    """Strike and prove. A resumed strike first undoes what the killed process left in place; if the driver has ended,
    that process struck it, and only the proof is missing."""
    clock, within = context.ports.clock, context.fault.within
    target = fault_context(context, fork, driver_id)
    undone = context.fault.undo(target) if resumed else None
    if undone is not None:
        context.recorder.note(DrillStep.FAULT, "undone", undone)
    if resumed and not target.observe().alive:
        await_end(context, fork, driver_id, deadline=clock.now() + within)
        return context.fault.prove(target, None)
    strike = context.fault.strike(target, deadline=clock.now() + within)
    context.recorder.note(DrillStep.FAULT, "strike", strike.message, moment=strike.moment, batch=strike.batch)
    return context.fault.prove(target, strike)


def _make_strikeable(context: StepContext, fork: ForkView) -> str | None:
    """Make sure that the fork's driver runs and commits. Returns why it cannot be struck, or None if it can.

    A driver that was parked, or that a strike ended at the wrong moment, is started again first.
    """
    ports, within = context.ports, context.fault.within
    record = require_latest(context, fork)
    view = ports.drivers.observe(record.driver_id)
    if view.exit is None and view.alive:
        return None
    if view.exit is None:
        view = await_end(context, fork, record.driver_id, deadline=ports.clock.now() + within)
    obstacle = None if may_start_again(context, view) else _not_restartable(view)
    if obstacle is not None:
        return obstacle
    position = ports.checkpoint.position(fork)
    record = start_driver(context, fork, DrillStep.FAULT)
    if not fork.bounded and has_read_all(context, fork):
        return None  # it waits for more input: there is no batch to wait for
    next_batch = (-1 if position.committed is None else position.committed) + 1
    deadline = record.launched_at + context.recorder.spec.steady_state.within
    late = await_commit(context, fork, record.driver_id, next_batch, deadline=deadline)
    if late is None:
        return None
    note_exit(context, DrillStep.FAULT, late)
    return f"the driver was started again before the strike and committed no batch: {describe(late)}"


def _not_restartable(view: DriverView) -> str | None:
    if view.exit is not None and view.exit.kind in (ExitKind.STOPPED, ExitKind.KILLED):
        return None
    if view.exit is not None and view.exit.kind is ExitKind.COMPLETED:
        return "the fork had read all its input before the fault: nothing was left to break"
    return f"the fork ended by itself before the fault: {describe(view)}"


def _ended_early(context: StepContext, fork: ForkView) -> StepResult | None:
    """A fork that came back from a strike and ended by itself cannot be struck again. If it left input unread, or was
    struck as often as the drill insists on, it is judged, and the strikes of the same fault that are left are dropped.
    None: it is no such fork."""
    recorder, ports, state = context.recorder, context.ports, context.recorder.state
    if not state.earlier or fork.live or state.earlier[-1].spec.kind != context.fault.kind:
        return None
    exit = ports.drivers.observe(require_latest(context, fork).driver_id).exit
    if exit is None or exit.kind is not ExitKind.COMPLETED:
        return None
    try:
        unread = ports.checkpoint.unplanned(fork)
    except StreamwardenError:
        return None
    insists = bool(recorder.spec.faults) or len(state.earlier) < context.fault.least_repeats
    if unread == 0 and insists:
        return None
    recorder.drop_strikes()
    left = f"{format_count(unread, f'input {fork.what}')} unread" if unread else "all its input read"
    message = f"the fork ended by itself, {left}: no strike follows"
    recorder.note(DrillStep.FAULT, "ended_early", message)
    return StepResult(ok=True, message=message)


def _missed(context: StepContext, misses: list[str]) -> StepResult:
    kind = context.fault.kind
    name = "the fault" if len(context.recorder.spec.sequence) == 1 else f"the fault {kind}"
    reason = f"{name} did not land in {format_count(len(misses), 'attempt')}: {'; '.join(misses)}"
    context.recorder.halt(DrillStep.FAULT, DrillStatus.FAILED, reason)
    return StepResult(ok=False, message=reason)
