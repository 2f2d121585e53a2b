"""Reconcile the fork's output with the oracle, and let the judge give the verdict on it."""

from __future__ import annotations

from dataclasses import asdict

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.journal import Step
from streamwarden.drills.outcome import describe_not_judged, told_delivery, unverified
from streamwarden.drills.ports import ForkView
from streamwarden.drills.steps import StepContext, StepResult


def verification(context: StepContext) -> StepResult:
    """Compare the whole output with what the oracle expects."""
    ledger, ports, spec = context.ledger, context.ports, context.ledger.spec
    fork = ForkView.from_dict(ledger.facts["way_out"]["fork"]) if "way_out" in ledger.facts else ledger.require_fork()
    if not ledger.facts.get("recovery", {}).get("completed"):
        # Half an output reconciled with the whole input would only count what was not yet written.
        message = "not verified: the fork did not come to the end of its input"
        ledger.note(Step.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    lost = [TopicRange(**each) for each in ledger.facts["fault"].get("lost", ())]
    outcome = ports.verifier.reconcile(fork, spec.verification.oracle.value, lost=lost)
    described = outcome.to_dict()
    ledger.put(reconciliation=described)
    message = (
        f"{outcome.lost} lost, {outcome.duplicated} duplicated, {outcome.unexpected} unexpected, {outcome.wrong} wrong"
        f" in {outcome.expected} expected rows from {outcome.records} records"
    )
    more = (told_delivery(described), describe_not_judged(described))
    message = "; ".join([message, *(each for each in more if each is not None)])
    ledger.note(Step.VERIFICATION, "reconciled", message, **described)
    judgement = ports.judge.judge(outcome, spec.verification.min_records)
    ledger.put(judgement=asdict(judgement))
    verdict = "accepts" if judgement.success else "rejects"
    ledger.note(Step.VERIFICATION, "judged", f"{judgement.judge} {verdict} the output", success=judgement.success)
    enough = outcome.records >= spec.verification.min_records
    whole = unverified(ledger.facts) is None
    return StepResult(ok=outcome.exactly_once and judgement.success and enough and whole, message=message)
