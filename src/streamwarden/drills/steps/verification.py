"""Reconcile the fork's output with the oracle, and let the judge give the verdict on it."""

from __future__ import annotations

from dataclasses import asdict

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.journal import DrillStep
from streamwarden.drills.outcome import describe_not_judged, told_delivery, unverified
from streamwarden.drills.ports import ForkView
from streamwarden.drills.steps import StepContext, StepResult


def verification(context: StepContext) -> StepResult:
    """Compare the whole output with what the oracle expects."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork = (
        ForkView.from_dict(recorder.facts["way_out"]["fork"])
        if "way_out" in recorder.facts
        else recorder.require_fork()
    )
    if not recorder.facts.get("recovery", {}).get("completed"):
        # Half an output reconciled with the whole input would only count what was not yet written.
        message = "not verified: the fork did not come to the end of its input"
        recorder.note(DrillStep.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    lost = [TopicRange(**each) for each in recorder.facts["fault"].get("lost", ())]
    outcome = ports.verifier.reconcile(fork, spec.verification.oracle.value, lost=lost)
    described = outcome.to_dict()
    recorder.put(reconciliation=described)
    message = (
        f"{outcome.lost} lost, {outcome.duplicated} duplicated, {outcome.unexpected} unexpected, {outcome.wrong} wrong"
        f" in {outcome.expected} expected rows from {outcome.records} records"
    )
    more = (told_delivery(described), describe_not_judged(described))
    message = "; ".join([message, *(each for each in more if each is not None)])
    recorder.note(DrillStep.VERIFICATION, "reconciled", message, **described)
    judgement = ports.judge.judge(outcome, spec.verification.min_records)
    recorder.put(judgement=asdict(judgement))
    verdict = "accepts" if judgement.success else "rejects"
    recorder.note(
        DrillStep.VERIFICATION, "judged", f"{judgement.judge} {verdict} the output", success=judgement.success
    )
    enough = outcome.records >= spec.verification.min_records
    whole = unverified(recorder.facts) is None
    return StepResult(ok=outcome.exactly_once and judgement.success and enough and whole, message=message)
