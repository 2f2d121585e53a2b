"""Check that the live stream works and that its books balance, before anything is hit."""

from streamwarden.drills.live.preflight import require_admission
from streamwarden.drills.records.audited import AuditRecord
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import await_commit, require_latest
from streamwarden.drills.steps.steady_state import abort, never_reached, observe_before
from streamwarden.verification.comparing.balance import Outcome


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
        return never_reached(context, wanted, late)
    before = observe_before(context, live)
    if not before.holds:
        return abort(context, f"the steady state does not hold before the fault: {before.message}")
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
        return abort(context, f"before the fault, {audit.sentence}")
    return StepResult(ok=True, message=f"{reached}; {audit.sentence}")
