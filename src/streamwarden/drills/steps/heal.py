"""End the fork's driver and remove scratch. Always runs; may run again."""

from __future__ import annotations

from streamwarden.drills.journal import Step
from streamwarden.drills.steps import Stage, StepResult
from streamwarden.drills.steps.fork_driver import await_end, note_exit

END_WITHIN = 30.0
"""Seconds from SIGKILL until the driver's keeper must have recorded its end."""


def heal(stage: Stage) -> StepResult:
    """Leave nothing running and no scratch; what is evidence stays."""
    ledger, ports = stage.ledger, stage.ports
    fork = ledger.fork
    ended = None
    record = ports.drivers.latest(fork) if fork else None
    if fork and record and ports.drivers.observe(record.driver_id).exit is None:
        ports.drivers.kill(record.driver_id)  # a fork's work is worth nothing: no batch boundary is waited for
        view = await_end(stage, fork, record.driver_id, deadline=ports.clock.now() + END_WITHIN)
        note_exit(stage, Step.HEAL, view)
        if view.alive:
            message = f"driver {record.driver_id} is still alive {END_WITHIN:.0f} s after SIGKILL"
            ledger.put(heal={"clean": False, "message": message})
            return StepResult(ok=False, message=message)
        ended = record.driver_id
    keep = ledger.spec.fork.keep
    removed = [] if keep else list(ports.forks.clear(ledger.run.run_id, fork))
    message = f"driver ended: {ended or 'none was left'}; removed: {', '.join(removed) or 'nothing'}"
    ledger.put(heal={"clean": True, "message": message, "kept": keep, "removed": removed})
    ledger.note(Step.HEAL, "healed", message)
    return StepResult(ok=True, message=message)
