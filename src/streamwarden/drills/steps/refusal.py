"""After a fault that a stream must not outlive in silence: see it refuse and tell, then take the documented way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from streamwarden.drills.faults import Refused
from streamwarden.drills.journal import DrillStep
from streamwarden.drills.ports import DriverView, ForkView
from streamwarden.drills.steps import StepContext
from streamwarden.drills.steps.fork_driver import await_commit, describe, note_exit, require_latest, start_driver
from streamwarden.health.checks.input_lost import CHECK as INPUT_LOST
from streamwarden.health.verdict import Status
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.lifecycle.restart import GiveUp, decide
from streamwarden.stream import RestartPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """The fork as it goes on, its driver, and the first batch that it has to commit."""

    fork: ForkView
    record: DriverRecord
    first_new: int


def see_refusal(context: StepContext, fault: Refused, fork: ForkView) -> Mapping[str, Any]:
    """Start the fork as it is, and see that it ends and that all is told. Puts and returns the fact `told`.

    `holds`: it is. `message`: what was told; or what was not, all of it.
    """
    recorder = context.recorder
    if "told" not in recorder.facts:
        told = _observe(context, fault, fork)
        recorder.put(told=told)
        recorder.note(DrillStep.RECOVERY, "told" if told["holds"] else "untold", told["message"], **told)
    seen: Mapping[str, Any] = recorder.facts["told"]
    return seen


def take_way_out(context: StepContext, fault: Refused, fork: ForkView) -> Remediation:
    """Start the fork as the documentation lets it go on. Puts the fact `way_out`."""
    recorder = context.recorder
    if "way_out" not in recorder.facts:
        onward = fault.way_out(recorder.run.run_id, fork, context.ports.forks)
        committed = context.ports.checkpoint.position(onward).committed
        recorder.put(way_out={"fork": asdict(onward), "first_new": 0 if committed is None else committed + 1})
    onward = ForkView.from_dict(recorder.facts["way_out"]["fork"])
    record = require_latest(context, onward)
    if record.driver_id == recorder.facts["told"]["driver_id"]:  # no killed try of this step has started it
        record = start_driver(context, onward, DrillStep.RECOVERY)
    return Remediation(fork=onward, record=record, first_new=recorder.facts["way_out"]["first_new"])


def _observe(context: StepContext, fault: Refused, fork: ForkView) -> dict[str, Any]:
    ports, proof = context.ports, context.recorder.facts["fault"]
    record = require_latest(context, fork)
    if record.driver_id == proof["driver_id"]:
        record = start_driver(context, fork, DrillStep.RECOVERY)
    first_new = (-1 if proof["committed"] is None else proof["committed"]) + 1
    within = context.recorder.spec.recovery.target
    view = await_commit(context, fork, record.driver_id, first_new, deadline=record.launched_at + within)
    told: dict[str, Any] = {"holds": False, "driver_id": record.driver_id}
    if view is None:
        silent = f"the stream went on and said nothing: batch {first_new} was committed after this: {proof['message']}"
        return {**told, "message": silent}
    if view.exit is None:
        return {**told, "message": f"the stream did not end within {within:.1f} s after its launch: {describe(view)}"}
    note_exit(context, DrillStep.RECOVERY, view)
    verdict = next((each for each in ports.health.evaluate(fork) if each.check == INPUT_LOST.name), None)
    of_check: str | None
    if verdict is None or verdict.status not in (Status.WARNING, Status.CRITICAL):
        of_check = f"it is {verdict.status.value}: {verdict.reason}" if verdict else "it gave no verdict"
    else:
        of_check = fault.untold(proof, verdict.evidence)
    untold = {
        "the driver's exit": _exit_problem(fault, view),
        "supervision": _supervision_problem(view, ports.clock.now()),
        f"the check {INPUT_LOST.name}": of_check,
    }
    problems = [f"{who}: {problem}" for who, problem in untold.items() if problem is not None]
    seconds = view.exit.ended_at - record.launched_at
    reason = verdict.reason if verdict else ""
    message = (
        f"the fault was not told in full: {'; '.join(problems)}"
        if problems
        else f"the driver ended {seconds:.1f} s after its launch and said why, supervision leaves it down, and "
        f"{INPUT_LOST.name} says: {reason}"
    )
    return {
        **told,
        "holds": not problems,
        "message": message,
        "seconds": seconds,
        "error_class": view.exit.error_class,
        "next_step": view.exit.next_step,
        "check": {"reason": reason, "evidence": dict(verdict.evidence) if verdict else {}},
    }


def _exit_problem(fault: Refused, view: DriverView) -> str | None:
    assert view.exit is not None
    known = view.exit.kind is ExitKind.FAILED and view.exit.cause == fault.cause.code
    return None if known else f"it names another reason, or none: {describe(view)}"


def _supervision_problem(view: DriverView, now: float) -> str | None:
    """Asks what a supervisor asks. A policy's numbers do not matter to an exit that no restart cures."""
    decision = decide([replace(view.record, exit=view.exit)], RestartPolicy(), now)
    if isinstance(decision, GiveUp) and not decision.exhausted:
        return None
    return f"it would start the stream again: {decision.reason}"
