"""Check that the live stream works and that its books balance, before anything is hit."""

from streamwarden.drills.live.preflight import require_admission
from streamwarden.drills.records.audited import AuditRecord
from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import await_commit, describe, require_latest
from streamwarden.drills.steps.steady_state import as_observed, observe_health
from streamwarden.verification.balance import Outcome


def steady_state(context: StepContext) -> StepResult:
    """Wait for new batches, judge the hypothesis, and audit; aborts the drill if one of them does not hold.

    Raises DrillAborted if the stream may not be hit any more: the person may have answered hours later.
    """
    require_admission(context)
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    live = recorder.live or _observe(context)
    context.fault.require(live.origin, live.spec)
    committed = ports.checkpoint.position(live).committed
    first = 0 if committed is None else committed + 1
    wanted = first + spec.steady_state.min_batches - 1
    deadline = ports.clock.now() + spec.steady_state.within
    late = await_commit(context, live, require_latest(context, live).driver_id, wanted, deadline=deadline)
    if late is not None:
        reason = f"the steady state was never reached: batch {wanted} was not committed within its time"
        return _abort(context, f"{reason}; {describe(late)}")
    held = observe_health(context, live, spec)
    before = as_observed(held, ports.checkpoint.position(live).committed, ports.clock.now())
    recorder.put(steady_before=before)
    recorder.note(DrillStep.STEADY_STATE, "steady_state", before.message, holds=before.holds)
    if not before.holds:
        return _abort(context, f"the steady state does not hold before the fault: {before.message}")
    return _audit(context, live, first, f"batch {wanted} committed; {before.message}")


def _observe(context: StepContext) -> ForkView:
    live = context.ports.live.view(context.recorder.spec.stream)
    context.recorder.put(live=live)
    message = f"the drill hits the live stream {live.stream} itself"
    context.recorder.note(DrillStep.STEADY_STATE, "live", message, checkpoint=live.checkpoint, output=live.output)
    return live


def _audit(context: StepContext, live: ForkView, first: int, reached: str) -> StepResult:
    """A stream that cannot be judged afterwards, or that has lost rows already, is not hit."""
    audit = AuditRecord.of(context.ports.live.audit(live, first))
    context.recorder.put(audit_before=audit)
    context.recorder.note(DrillStep.STEADY_STATE, "audited", audit.sentence, **audit.document)
    if audit.outcome is not Outcome.BALANCED:
        return _abort(context, f"before the fault, {audit.sentence}")
    return StepResult(ok=True, message=f"{reached}; {audit.sentence}")


def _abort(context: StepContext, reason: str) -> StepResult:
    context.recorder.halt(DrillStep.STEADY_STATE, DrillStatus.ABORTED, reason)
    return StepResult(ok=False, message=reason)
