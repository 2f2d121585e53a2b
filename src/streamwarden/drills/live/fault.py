"""Strike the live driver until the fault lands, with proof."""

from streamwarden.drills.live.preflight import require_admission
from streamwarden.drills.live.supervision import await_supervised_commit
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fault import strike_until_landed
from streamwarden.drills.steps.fork_driver import require_latest


def fault(context: StepContext) -> StepResult:
    """As for a fork, except that only supervision starts a driver. Raises DrillAborted if the stream may not be hit any
    more and nothing has been hit so far."""
    state = context.recorder.state
    if state.fault is None and state.strike is None and not state.misses:
        require_admission(context)
    return strike_until_landed(context, context.recorder.require_live(), _await_driver)


def _await_driver(context: StepContext, live: ForkView) -> str | None:
    """Wait until supervision has a driver running that has committed a batch. Returns why there is none."""
    drivers, checkpoint = context.ports.drivers, context.ports.checkpoint
    view = drivers.observe(require_latest(context, live).driver_id)
    if view.alive and view.exit is None:
        return None
    committed = checkpoint.position(live).committed
    deadline = context.ports.clock.now() + context.recorder.spec.steady_state.within
    problem = await_supervised_commit(context, live, (-1 if committed is None else committed) + 1, deadline=deadline)
    return None if problem is None else f"the stream was not running before the strike: {problem}"
