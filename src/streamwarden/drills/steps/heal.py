"""Undo the fault, end the fork's driver and remove scratch. Always runs; may run again."""

from __future__ import annotations

from streamwarden.drills.journal import Step
from streamwarden.drills.ports import ForkView
from streamwarden.drills.steps import Stage, StepResult
from streamwarden.drills.steps.fork_driver import await_end, note_exit, scene_of
from streamwarden.errors import StreamwardenError

END_WITHIN = 30.0
"""Seconds from SIGKILL until the driver's keeper must have recorded its end."""


def heal(stage: Stage) -> StepResult:
    """Leave nothing broken, nothing running and no scratch; what is evidence stays."""
    ledger, ports = stage.ledger, stage.ports
    fork = ledger.fork
    still_broken = _undo(stage, fork)
    ended = None
    record = ports.drivers.latest(fork) if fork else None
    if fork and record and ports.drivers.observe(record.driver_id).exit is None:
        ports.drivers.kill(record.driver_id)  # a fork's work is worth nothing: no batch boundary is waited for
        view = await_end(stage, fork, record.driver_id, deadline=ports.clock.now() + END_WITHIN)
        note_exit(stage, Step.HEAL, view)
        if view.alive:
            message = f"driver {record.driver_id} is still alive {END_WITHIN:.0f} s after SIGKILL"
            return _unclean(stage, "; ".join(filter(None, (still_broken, message))))
        ended = record.driver_id
    if still_broken is not None:
        return _unclean(stage, still_broken)
    keep = ledger.spec.fork.keep
    removed = [] if keep else list(ports.forks.clear(ledger.run.run_id, fork))
    message = f"driver ended: {ended or 'none was left'}; removed: {', '.join(removed) or 'nothing'}"
    ledger.put(heal={"clean": True, "message": message, "kept": keep, "removed": removed})
    ledger.note(Step.HEAL, "healed", message)
    return StepResult(ok=True, message=message)


def _undo(stage: Stage, fork: ForkView | None) -> str | None:
    """Take back what a strike left in place that never came to tell of it. Returns why it stays, None if it does not.

    Only then, whatever stays: the driver must still be ended.
    """
    announced = stage.ledger.facts.get("strike")
    if fork is None or not announced or not stage.ledger.facts.get("undo_due"):
        return None
    try:
        undone = stage.fault.undo(scene_of(stage, fork, announced["driver_id"]))
    except StreamwardenError as error:
        return str(error)
    stage.ledger.put(undo_due=False)
    if undone is not None:
        stage.ledger.note(Step.HEAL, "undone", undone)
    return None


def _unclean(stage: Stage, message: str) -> StepResult:
    stage.ledger.put(heal={"clean": False, "message": message})
    return StepResult(ok=False, message=message)
