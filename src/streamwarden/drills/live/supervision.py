"""Wait for what supervision does with a live stream. The drill itself launches nothing."""

from streamwarden.drills.records.types import ForkView
from streamwarden.drills.steps import StepContext
from streamwarden.drills.steps.fork_driver import OBSERVE_EVERY, POLL_EVERY, describe
from streamwarden.drills.waiting import wait_for
from streamwarden.lifecycle.supervision.restarter import Restarter


def await_supervised_commit(context: StepContext, live: ForkView, batch: int, *, deadline: float) -> str | None:
    """Wait until the batch is committed, whichever driver does it. None: it is. Else why it does not: the deadline
    (Unix seconds) has passed, or supervision leaves the stream down."""
    clock = context.ports.clock
    next_observation = clock.now()

    def probe() -> str | bool | None:
        nonlocal next_observation
        if is_reached(context, live, batch):
            return True
        if clock.now() < next_observation:
            return None
        next_observation = clock.now() + OBSERVE_EVERY
        return left_down(context, live)

    result = wait_for(probe, clock=clock, deadline=deadline, every=POLL_EVERY)
    if result is True or is_reached(context, live, batch):  # the last commit may be newer than the last probe
        return None
    return result if isinstance(result, str) else f"batch {batch} was not committed in time; {_newest(context, live)}"


def is_reached(context: StepContext, live: ForkView, batch: int) -> bool:
    """Whether the batch is committed. Spark removes the commit logs of old batches from a live checkpoint, so that the
    file of this one may be gone already."""
    committed = context.ports.checkpoint.position(live).committed
    return committed is not None and committed >= batch


def left_down(context: StepContext, live: ForkView) -> str | None:
    """Why no driver runs and none will be started; None: one runs, or supervision may start it. An Airflow that does
    not answer for a moment proves nothing."""
    status = context.ports.live.status(live.stream)
    if status.alive:
        return None
    reason = "a person stopped it" if status.stopped else status.down
    if reason is None and status.restarter is Restarter.PAUSED_DAG:
        reason = "its DAG is paused"
    return None if reason is None else f"{live.stream} is down and stays down: {reason}"


def _newest(context: StepContext, live: ForkView) -> str:
    record = context.ports.drivers.latest(live)
    return "it has no driver" if record is None else describe(context.ports.drivers.observe(record.driver_id))
