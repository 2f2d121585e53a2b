"""What several steps do with the fork's driver."""

from __future__ import annotations

from streamwarden.drills.faults.base import Aftermath, Scene, await_exit, describe_exit
from streamwarden.drills.journal import Step
from streamwarden.drills.ports import DriverView, ForkView
from streamwarden.drills.steps import Stage
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillError
from streamwarden.lifecycle.driver import DriverRecord, ExitKind

LOOK_EVERY = 0.1
OBSERVE_EVERY = 0.5


def start_driver(stage: Stage, fork: ForkView, step: Step) -> DriverRecord:
    """Start the fork and note it."""
    record = stage.ports.drivers.start(fork, stage.ledger.run.run_id)
    stage.ledger.note(
        step,
        "driver_started",
        f"driver {record.driver_id} of {fork.stream} was launched",
        driver_id=record.driver_id,
        launched_at=record.launched_at,
        folder=record.folder,
    )
    return record


def await_commit(stage: Stage, fork: ForkView, driver_id: str, batch: int, *, deadline: float) -> DriverView | None:
    """Wait until `commits/batch` exists. None: it does. Else the driver as it ended, or as it lives at the deadline."""
    clock, checkpoint = stage.ports.clock, stage.ports.checkpoint
    next_observation = clock.now()

    def look() -> DriverView | bool | None:
        nonlocal next_observation
        if checkpoint.is_committed(fork, batch):
            return True
        if clock.now() < next_observation:
            return None
        next_observation = clock.now() + OBSERVE_EVERY
        view = stage.ports.drivers.observe(driver_id)
        return view if view.exit is not None else None

    seen = wait_for(look, clock=clock, deadline=deadline, every=LOOK_EVERY)
    if seen is True or checkpoint.is_committed(fork, batch):  # the last commit may be younger than the last look
        return None
    return seen if isinstance(seen, DriverView) else stage.ports.drivers.observe(driver_id)


def await_end(stage: Stage, fork: ForkView, driver_id: str, *, deadline: float) -> DriverView:
    """The driver with its exit, or as it lives at the deadline."""
    return await_exit(scene_of(stage, fork, driver_id), deadline=deadline)


def await_input_end(stage: Stage, fork: ForkView, driver_id: str, *, deadline: float) -> DriverView:
    """The driver with its exit after the end of its input, or as it lives at the deadline. One that does not end by
    itself is asked to stop when all is read."""
    ports = stage.ports

    def look() -> DriverView | bool | None:
        if has_read_all(stage, fork):
            return True
        view = ports.drivers.observe(driver_id)
        return view if view.exit is not None else None

    ended = fork.bounded or wait_for(look, clock=ports.clock, deadline=deadline, every=OBSERVE_EVERY) is not True
    if not ended and ports.drivers.observe(driver_id).exit is None:
        by = f"drill:{stage.ledger.run.run_id}"
        ports.drivers.request_stop(fork, driver_id, by=by, reason="all input is read")
    return await_end(stage, fork, driver_id, deadline=deadline)


def has_read_all(stage: Stage, fork: ForkView) -> bool:
    """Whether a committed batch has each record of the fork's own topic."""
    if any(lag.behind for lag in stage.ports.source.lags(fork)):
        return False
    return stage.ports.checkpoint.position(fork).gap == 0


def is_complete(stage: Stage, fork: ForkView, view: DriverView) -> bool:
    """Whether the driver ended as it should, with its whole input processed."""
    if view.exit is None:
        return False
    if fork.bounded:
        return view.exit.kind is ExitKind.COMPLETED
    return view.exit.kind is ExitKind.STOPPED and has_read_all(stage, fork)


def scene_of(stage: Stage, fork: ForkView, driver_id: str) -> Scene:
    """The driver as a fault sees it."""
    announced = stage.ledger.facts.get("strike") or {}
    return Scene(
        run_id=stage.ledger.run.run_id,
        fork=fork,
        driver_id=driver_id,
        spec=stage.ledger.spec.fault,
        drivers=stage.ports.drivers,
        checkpoint=stage.ports.checkpoint,
        database=stage.ports.database,
        topic=stage.ports.topic,
        source=stage.ports.source,
        executors=stage.ports.executors,
        services=stage.ports.services,
        clock=stage.ports.clock,
        marked=announced.get("moment"),
        keep=lambda moment: stage.ledger.put(strike={**announced, "moment": moment}),
    )


def describe(view: DriverView) -> str:
    """`exit failed (SOME_CLASS): message` or `still alive`, in one line."""
    if view.exit is None:
        return "the driver is still alive" if view.alive else "the driver is gone and left no exit record"
    error = f" ({view.exit.error_class})" if view.exit.error_class else ""
    message = f": {view.exit.message}" if view.exit.message else ""
    return f"the driver's exit was {view.exit.kind.value}{error}{message}"


def may_start_again(stage: Stage, view: DriverView) -> bool:
    """Whether the driver failed as the fault allows it to, in a way that a restart cures: supervision would start it
    again, so the drill does."""
    failed = view.exit is not None and view.exit.kind is ExitKind.FAILED and view.exit.curable
    return failed and stage.fault.aftermath is Aftermath.MAY_END


def note_exit(stage: Stage, step: Step, view: DriverView) -> None:
    """Write the driver's exit to the journal."""
    stage.ledger.note(step, "driver_ended", describe(view), driver_id=view.record.driver_id, **describe_exit(view))


def require_latest(stage: Stage, fork: ForkView) -> DriverRecord:
    """The fork's newest driver. Raises DrillError if it never had one."""
    record = stage.ports.drivers.latest(fork)
    if record is None:
        raise DrillError(
            "the fork has no driver",
            where=f"{fork.stream} on {fork.checkpoint}",
            next_step="run the step steady_state first",
        )
    return record
