"""Undo the fault, and see that the live stream runs or is about to. Nothing of a live stream is removed, ever."""

from streamwarden.drills.live.supervision import left_down
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fork_driver import OBSERVE_EVERY
from streamwarden.drills.steps.heal import healed, unclean, undo_strike
from streamwarden.drills.waiting import wait_for

BACK_WITHIN = 60.0
"""Seconds for which the healing waits for a driver of a stream that was struck."""


def heal(context: StepContext) -> StepResult:
    """The result names what could not be done; healing again tries it again. Raises StoreError."""
    recorder, live = context.recorder, context.recorder.live
    if live is None or recorder.state.strike is None:
        return healed(context, "the live stream was not touched")
    left = undo_strike(context, live)
    down = _await_driver(context, live)
    if left is not None or down is not None:
        start = f"; start it with `streamwarden start {live.stream}`" if down is not None else ""
        return unclean(context, "; ".join(filter(None, (left, down))) + start)
    return healed(context, f"{_status(context, live)}; nothing was removed")


def _await_driver(context: StepContext, live: ForkView) -> str | None:
    """Wait for a living driver. Returns why the stream stays down; None: it runs, or supervision will start it."""
    clock, streams = context.ports.clock, context.ports.live

    def probe() -> str | bool | None:
        return True if streams.status(live.stream).alive else left_down(context, live)

    result = wait_for(probe, clock=clock, deadline=clock.now() + BACK_WITHIN, every=OBSERVE_EVERY)
    if isinstance(result, str):
        return result
    supervised = result is True or streams.status(live.stream).supervised
    return None if supervised else f"{live.stream} is down, and nothing is known to start it again"


def _status(context: StepContext, live: ForkView) -> str:
    if context.ports.live.status(live.stream).alive:
        return f"{live.stream} runs"
    return f"{live.stream} does not run yet, and its supervision starts it"
