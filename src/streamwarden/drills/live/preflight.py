"""Check whether the live stream may be hit, before a person is asked, and again before it is hit."""

from streamwarden.drills.admission import admit, last_on_fork, require_live_fault
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.state import Preflight
from streamwarden.drills.steps import StepContext, StepResult


def preflight(context: StepContext) -> StepResult:
    """Raises DrillAborted if the fault may not hit the stream, or not now."""
    recorder, live, spec = context.recorder, context.ports.live, context.recorder.spec
    require_live_fault(context.fault, spec)
    context.fault.require(spec.stream, live.declared(spec.stream))
    require_admission(context)
    facts = Preflight(last_on_fork=last_on_fork(spec, live.past(spec.stream)))
    recorder.put(preflight=facts)
    message = f"{spec.stream} may be hit now; on a fork: {facts.last_on_fork}"
    recorder.note(DrillStep.PREFLIGHT, "admitted", message)
    return StepResult(ok=True, message=message)


def require_admission(context: StepContext) -> None:
    """Raises DrillAborted if the stream may not be hit now."""
    spec, ports = context.recorder.spec, context.ports
    admit(spec, context.recorder.run.run_id, ports.live.status(spec.stream), ports.clock.now())
