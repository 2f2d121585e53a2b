"""Actions of several steps on the fork's driver."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from streamwarden.drills.faults.base import ExpectedEnd, FaultContext, describe_exit
from streamwarden.drills.faults.topic.own_topic import TOPIC
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.state import AnnouncedStrike
from streamwarden.drills.steps import StepContext
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind

POLL_EVERY = 0.1
OBSERVE_EVERY = 0.5


def start_driver(context: StepContext, fork: ForkView, step: DrillStep) -> DriverRecord:
    """Start the fork's driver and record it."""
    record = context.ports.drivers.start(fork, context.recorder.run.run_id)
    context.recorder.note(
        step,
        "driver_started",
        f"driver {record.driver_id} of {fork.stream} was launched",
        driver_id=record.driver_id,
        launched_at=record.launched_at,
        folder=record.folder,
    )
    return record


def await_commit(
    context: StepContext, fork: ForkView, driver_id: str, batch: int, *, deadline: float
) -> DriverView | None:
    """Wait until `commits/batch` exists. None: it does. Else the driver as it ended, or as it runs at the deadline."""
    clock, checkpoint = context.ports.clock, context.ports.checkpoint
    next_observation = clock.now()

    def probe() -> DriverView | bool | None:
        nonlocal next_observation
        if checkpoint.is_committed(fork, batch):
            return True
        if clock.now() < next_observation:
            return None
        next_observation = clock.now() + OBSERVE_EVERY
        view = context.ports.drivers.observe(driver_id)
        return view if view.exit is not None else None

    view = wait_for(probe, clock=clock, deadline=deadline, every=POLL_EVERY)
    if view is True or checkpoint.is_committed(fork, batch):  # the last commit may be newer than the last probe
        return None
    return view if isinstance(view, DriverView) else context.ports.drivers.observe(driver_id)


def await_end(context: StepContext, fork: ForkView, driver_id: str, *, deadline: float) -> DriverView:
    """The driver with its exit, or as it runs at the deadline."""
    return fault_context(context, fork, driver_id).await_exit(deadline=deadline)


def await_input_end(context: StepContext, fork: ForkView, driver_id: str, *, deadline: float) -> DriverView:
    """The driver with its exit after the end of its input, or as it runs at the deadline. A driver that does not end by
    itself is asked to stop when it has read all its input."""
    ports = context.ports

    def probe() -> DriverView | bool | None:
        if has_read_all(context, fork):
            return True
        view = ports.drivers.observe(driver_id)
        return view if view.exit is not None else None

    ended = fork.bounded or wait_for(probe, clock=ports.clock, deadline=deadline, every=OBSERVE_EVERY) is not True
    if not ended and ports.drivers.observe(driver_id).exit is None:
        by = f"drill:{context.recorder.run.run_id}"
        ports.drivers.request_stop(fork, driver_id, by=by, reason="all input is read")
    return await_end(context, fork, driver_id, deadline=deadline)


def has_read_all(context: StepContext, fork: ForkView) -> bool:
    """Whether every record of the fork's own topic is in a committed batch."""
    if any(lag.behind for lag in context.ports[TOPIC].lags(fork)):
        return False
    return context.ports.checkpoint.position(fork).gap == 0


def is_complete(context: StepContext, fork: ForkView, view: DriverView) -> bool:
    """Whether the driver ended as it should, with its whole input processed."""
    if view.exit is None:
        return False
    if fork.bounded:
        return view.exit.kind is ExitKind.COMPLETED
    return view.exit.kind is ExitKind.STOPPED and has_read_all(context, fork)


def fault_context(context: StepContext, fork: ForkView, driver_id: str) -> FaultContext:
    """The driver as a fault sees it."""
    state = context.recorder.state
    announced = state.strike or AnnouncedStrike(driver_id=driver_id)
    return FaultContext(
        run_id=context.recorder.run.run_id,
        fork=fork,
        driver_id=driver_id,
        ports=context.ports,
        seed=state.plan.seed,
        share=state.share,
        marked_at=announced.moment,
        record_mark=lambda moment: context.recorder.put(strike=replace(announced, moment=moment)),
    )


_ENDED: Final[Mapping[ExitKind, str]] = {
    ExitKind.STOPPED: "ended at a batch boundary",
    ExitKind.COMPLETED: "completed",
    ExitKind.FAILED: "failed",
    ExitKind.FENCED: "ended because another driver replaced it",
    ExitKind.KILLED: "was killed",
}


def describe(view: DriverView) -> str:
    """`the driver failed (SOME_CLASS): message` or `the driver is still alive`, in one line."""
    if view.exit is None:
        return "the driver is still alive" if view.alive else "the driver is gone and has no exit record"
    error = f" ({view.exit.error_class})" if view.exit.error_class else ""
    message = f": {view.exit.message}" if view.exit.message else ""
    return f"the driver {_ENDED[view.exit.kind]}{error}{message}"


def may_start_again(context: StepContext, view: DriverView) -> bool:
    """Whether the driver failed as the fault allows, in a way that a restart cures: supervision would start it again,
    so the drill does."""
    failed = view.exit is not None and view.exit.kind is ExitKind.FAILED and view.exit.curable
    return failed and context.fault.expected_end is ExpectedEnd.MAY_END


def start_failed_again(context: StepContext, fork: ForkView, view: DriverView, step: DrillStep) -> DriverRecord | None:
    """Start the struck driver again if it failed as the fault allows, however late: a master that comes back without
    its memory ends the executors some seconds later. Once: a driver that was started after the fault must not fail.

    Returns the new driver; None: it was not started again.
    """
    struck = view.record.driver_id == context.recorder.state.landed.driver_id
    if not struck or not may_start_again(context, view):
        return None
    note_exit(context, step, view)
    return start_driver(context, fork, step)


def note_exit(context: StepContext, step: DrillStep, view: DriverView) -> None:
    """Write the driver's exit to the journal."""
    context.recorder.note(step, "driver_ended", describe(view), driver_id=view.record.driver_id, **describe_exit(view))


def require_latest(context: StepContext, fork: ForkView) -> DriverRecord:
    """The fork's newest driver. Raises DrillError if it never had one."""
    record = context.ports.drivers.latest(fork)
    if record is None:
        raise DrillError(
            "the fork has no driver",
            where=f"{fork.stream} on {fork.checkpoint}",
            next_step="run the step steady_state first",
        )
    return record
