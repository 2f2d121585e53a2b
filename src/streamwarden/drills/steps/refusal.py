"""After a fault that a stream must not survive in silence: observe that it refuses to go on and reports why, then apply
the documented remediation."""

from dataclasses import asdict, dataclass, replace

from streamwarden.drills.faults import Proof, RefusalFault
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.state import Refusal, RemediationPlan
from streamwarden.drills.steps import StepContext
from streamwarden.drills.steps.fork_driver import await_commit, describe, note_exit, require_latest, start_driver
from streamwarden.errors import DrillError
from streamwarden.health.verdict import Status, Verdict
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.lifecycle.supervision.restart import GiveUp, decide
from streamwarden.stream.spec import RestartPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Remediation:
    """The fork as it continues, its driver, and the first batch that it has to commit."""

    fork: ForkView
    record: DriverRecord
    first_new: int


def observe_refusal(context: StepContext, fault: RefusalFault, fork: ForkView) -> Refusal:
    """Start the fork as it is; its driver must end, and every party must report why. The result is recorded."""
    recorder = context.recorder
    refusal = recorder.state.refusal
    if refusal is None:
        refusal = _observe(context, fault, fork)
        recorder.put(refusal=refusal)
        recorder.note(
            DrillStep.RECOVERY, "refused" if refusal.holds else "not_refused", refusal.message, **asdict(refusal)
        )
    return refusal


def remediate(context: StepContext, fault: RefusalFault, fork: ForkView) -> Remediation:
    """Start the fork as the documentation lets it continue. The plan is recorded first: it is made once."""
    recorder = context.recorder
    if recorder.state.remediation is None:
        remediated = fault.remediate(recorder.run.run_id, fork, context.ports)
        committed = context.ports.checkpoint.position(remediated).committed
        plan = RemediationPlan(fork=remediated, first_new=0 if committed is None else committed + 1)
        recorder.put(remediation=plan)
    onward, state = recorder.remediated_fork, recorder.state
    if onward is None or state.remediation is None or state.refusal is None:
        raise DrillError("the run has no remediation", where=recorder.run.run_id, next_step="run the drill again")
    record = require_latest(context, onward)
    if record.driver_id == state.refusal.driver_id:  # no killed try of this step has started it
        record = start_driver(context, onward, DrillStep.RECOVERY)
    return Remediation(fork=onward, record=record, first_new=state.remediation.first_new)


def _observe(context: StepContext, fault: RefusalFault, fork: ForkView) -> Refusal:
    ports, proof = context.ports, context.recorder.state.landed
    record = require_latest(context, fork)
    if record.driver_id == proof.driver_id:
        record = start_driver(context, fork, DrillStep.RECOVERY)
    first_new = (-1 if proof.committed is None else proof.committed) + 1
    within = context.recorder.spec.recovery.target
    view = await_commit(context, fork, record.driver_id, first_new, deadline=record.launched_at + within)
    if view is None:
        silent = f"the stream went on in silence: batch {first_new} was committed after this: {proof.message}"
        return Refusal(holds=False, driver_id=record.driver_id, message=silent)
    if view.exit is None:
        running = f"the stream did not end within {within:.1f} s after its launch: {describe(view)}"
        return Refusal(holds=False, driver_id=record.driver_id, message=running)
    note_exit(context, DrillStep.RECOVERY, view)
    verdict = next(iter(ports.health.evaluate(fork, [fault.check])), None)
    by_party = {
        "the driver's exit": _exit_problem(fault, view, view.exit),
        "supervision": _supervision_problem(view, ports.clock.now()),
        f"the check {fault.check}": _check_problem(fault, proof, verdict),
    }
    problems = [f"{party}: {problem}" for party, problem in by_party.items() if problem is not None]
    seconds = view.exit.ended_at - record.launched_at
    reason = verdict.reason if verdict else ""
    message = (
        f"the fault was not reported in full: {'; '.join(problems)}"
        if problems
        else f"the driver ended {seconds:.1f} s after its launch and reported why, supervision leaves it down, and "
        f"{fault.check} says: {reason}"
    )
    return Refusal(
        holds=not problems,
        driver_id=record.driver_id,
        message=message,
        seconds=seconds,
        error_class=view.exit.error_class,
        next_step=view.exit.next_step,
        check={"reason": reason, "evidence": dict(verdict.evidence) if verdict else {}},
    )


def _check_problem(fault: RefusalFault, proof: Proof, verdict: Verdict | None) -> str | None:
    if verdict is None:
        return "it gave no verdict"
    if verdict.status not in (Status.WARNING, Status.CRITICAL):
        return f"it is {verdict.status.value}: {verdict.reason}"
    return fault.unreported(proof, verdict.evidence)


def _exit_problem(fault: RefusalFault, view: DriverView, exit: ExitRecord) -> str | None:
    as_declared = exit.kind is ExitKind.FAILED and exit.cause == fault.cause.code
    return None if as_declared else f"it names another cause, or none: {describe(view)}"


def _supervision_problem(view: DriverView, now: float) -> str | None:
    """Asks the restart policy, as supervision does. Its numbers do not matter to an exit that no restart cures."""
    decision = decide([replace(view.record, exit=view.exit)], RestartPolicy(), now)
    if isinstance(decision, GiveUp) and not decision.exhausted:
        return None
    return f"it would start the stream again: {decision.reason}"
