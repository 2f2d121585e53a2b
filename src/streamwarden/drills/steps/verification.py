"""Reconcile the fork's output with the oracle, and let the judge give the verdict on it."""

from __future__ import annotations

from streamwarden.drills.journal import DrillStep
from streamwarden.drills.outcome import describe_not_judged, describe_repeats, unverified
from streamwarden.drills.steps import StepContext, StepResult


def verification(context: StepContext) -> StepResult:
    """Compare the whole output with what the oracle expects."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork = recorder.remediated_fork or recorder.require_fork()
    recovery, lost = recorder.state.recovery, recorder.state.landed.lost
    if recovery is None or not recovery.completed:
        # Half an output reconciled with the whole input would only count what was not yet written.
        message = "not verified: the fork did not come to the end of its input"
        recorder.note(DrillStep.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    outcome = ports.verifier.reconcile(fork, spec.verification.oracle.value, lost=lost)
    recorder.put(reconciliation=outcome)
    counts = (
        f"{outcome.lost} lost, {outcome.duplicated} duplicated, {outcome.unexpected} unexpected, {outcome.wrong} wrong"
        f" in {outcome.expected} expected rows from {outcome.records} records"
    )
    message = "; ".join(filter(None, (counts, describe_repeats(outcome), describe_not_judged(outcome))))
    recorder.note(DrillStep.VERIFICATION, "reconciled", message, **outcome.to_dict())
    judgement = ports.judge.judge(outcome, spec.verification.min_records)
    recorder.put(judgement=judgement)
    verdict = "accepts" if judgement.success else "rejects"
    judged = f"{judgement.judge} {verdict} the output"
    recorder.note(DrillStep.VERIFICATION, "judged", judged, success=judgement.success)
    enough = outcome.records >= spec.verification.min_records
    whole = unverified(recorder.state) is None
    return StepResult(ok=outcome.exactly_once and judgement.success and enough and whole, message=message)
