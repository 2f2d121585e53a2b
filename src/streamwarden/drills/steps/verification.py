"""Reconcile the fork's output with its oracles, and let the judge give the verdict on it."""

from collections.abc import Sequence
from dataclasses import replace

from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillStep
from streamwarden.drills.records.sections import OracleKind
from streamwarden.drills.records.twin import TwinReport, describe_key, describe_left_out, describe_run
from streamwarden.drills.records.types import Copies, ForkView
from streamwarden.drills.reporting.outcome import (
    counted_differently,
    describe_not_judged,
    describe_repeats,
    unverified,
)
from streamwarden.drills.state import RunState
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.errors import VerificationError
from streamwarden.units import Seconds
from streamwarden.verification.reconciliation import Reconciliation


def verification(context: StepContext) -> StepResult:
    """Compare the whole output with what the oracles expect."""
    recorder, ports, spec = context.recorder, context.ports, context.recorder.spec
    fork = recorder.remediated_fork or recorder.require_fork()
    recovery = recorder.state.recovery
    if recovery is None or not recovery.completed:
        # Half an output reconciled with the whole input would only count what was not yet written.
        message = "not verified: the fork did not come to the end of its input"
        recorder.note(DrillStep.VERIFICATION, "skipped", message)
        return StepResult(ok=False, message=message)
    recorder.put(not_exercised=tuple(ports.checkpoint.not_exercised(fork)))
    own, failure = _ask_oracle(context, fork)
    outcomes = [own] if own is not None else []
    if OracleKind.TWIN in fork.oracles:
        outcomes.append(_compare_with_twin(context, fork, alone=own is None).outcome)
    if failure is not None:
        outcomes = [_without_oracle(failure, outcomes)]
    outcome = outcomes[0]
    recorder.put(reconciliation=outcome)
    commands = tuple(command for fault in spec.sequence for command in fault.commands)
    outside = replace(ports.forks.outside(recorder.run.run_id, fork.origin), commands=commands)
    recorder.put(outside=outside)
    judgement = ports.judge.judge(outcome, spec.verification.min_records)
    recorder.put(judgement=judgement)
    recorder.note(DrillStep.VERIFICATION, "judged", judgement.on("output"), success=judgement.success)
    enough = outcome.records >= spec.verification.min_records
    whole = unverified(recorder.state) is None and counted_differently(recorder.state) is None
    if outside.unprovable is not None:
        recorder.note(DrillStep.VERIFICATION, "outside", outside.unprovable, **encode(outside))
    exact = {result.exactly_once for result in outcomes}
    message = _counts(outcome) if len(exact) == 1 else "; by the twin: ".join(map(_counts, outcomes))
    return StepResult(ok=exact == {True} and judgement.success and enough and whole, message=message)


def _ask_oracle(context: StepContext, fork: ForkView) -> tuple[Reconciliation | None, VerificationError | None]:
    """What the job's own oracle says of the output, or why it says nothing."""
    if OracleKind.JOB not in fork.oracles:
        return None, None
    try:
        return _compare_with_oracle(context, fork), None
    except VerificationError as error:
        context.recorder.note(DrillStep.VERIFICATION, "oracle", str(error))
        return None, error


def _without_oracle(failure: VerificationError, outcomes: Sequence[Reconciliation]) -> Reconciliation:
    """The twin's verdict in place of that of an oracle that gives none. Only a deviation is proven by the twin alone.

    Raises the oracle's error if the twin finds nothing, or there is none.
    """
    if not outcomes or outcomes[0].exactly_once:
        raise failure
    problems = (*outcomes[0].problems, f"the job's own oracle gives no verdict: {failure.observed}")
    return replace(outcomes[0], problems=problems)


def _compare_with_oracle(context: StepContext, fork: ForkView) -> Reconciliation:
    recorder = context.recorder
    state = recorder.state
    outcome = context.ports.verifier.reconcile(
        fork, lost=state.landed.lost, copies=_copies(state), clock_steps=_clock_steps(state)
    )
    recorder.put(reconciliation=outcome)
    recorder.note(DrillStep.VERIFICATION, "reconciled", _counts(outcome), **outcome.to_dict())
    return outcome


def _copies(state: RunState) -> Copies | None:
    """The copies of input files that the faults have made; the newest proof has all of them."""
    files = {file for result in state.results if result.landed is not None for file in result.landed.copies}
    deduplicated = any(fault.drops_copies for fault in state.fault_specs)
    return Copies(files=tuple(sorted(files)), deduplicated=deduplicated) if files else None


def _clock_steps(state: RunState) -> tuple[Seconds, ...]:
    """How far the clock of the driver was off, for each fault that let it step."""
    proofs = [result.landed for result in state.results if result.landed is not None]
    return tuple(proof.clock_step for proof in proofs if proof.clock_step is not None)


def _compare_with_twin(context: StepContext, fork: ForkView, *, alone: bool) -> TwinReport:
    recorder = context.recorder
    report = context.ports.verifier.compare_with_twin(
        recorder.run.run_id,
        fork,
        recorder.spec.verification,
        within=recorder.spec.recovery.deadline,
        clock_steps=_clock_steps(recorder.state),
    )
    twin = replace(report, alone=alone)
    recorder.put(twin=twin)
    parts = (describe_run(twin), _counts(twin.outcome), describe_key(twin), describe_left_out(twin), twin.third)
    message = f"the twin {'; '.join(part for part in parts if part is not None)}"
    recorder.note(DrillStep.VERIFICATION, "twin", message, **twin.outcome.to_dict())
    return twin


def _counts(outcome: Reconciliation) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.kinds.items())
    counts = f"{kinds} in {outcome.expected:,} expected rows from {outcome.records:,} records"
    return "; ".join(filter(None, (counts, describe_repeats(outcome), describe_not_judged(outcome))))
