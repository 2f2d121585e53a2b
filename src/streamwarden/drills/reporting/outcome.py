"""The verdict of a drill, a pure function of its state. Two axes: did it complete, did the system deviate."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamwarden.drills.records.audited import gap_of
from streamwarden.drills.records.exercised import describe_not_exercised, unprovable
from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.records.sections import DrillTarget, OracleKind
from streamwarden.drills.records.twin import describe_run, describe_unproven
from streamwarden.drills.state import FaultResult, RunState
from streamwarden.units import format_count
from streamwarden.verification.comparing.balance import Outcome as AuditOutcome
from streamwarden.verification.reconciliation import CHANGED_BY_COPIES, LATE_ROWS, Reconciliation

REMEDIATED: Final = "the remediation was applied"
"""From when the recovery counts after a fault that a stream must refuse."""

_NAMED = 3
"""Problems that the reason names together with counted rows; the journal has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`deviated` is None if the drill says nothing about the stream."""

    status: DrillStatus
    deviated: bool | None
    reason: str


def decide(state: RunState) -> Outcome:
    """Passed (completed, not deviated) only if no rule is broken and no evidence is missing.

    In this order: a drill that was halted has the status of the halt; a step that never finished fails the drill; so
    does evidence that is too thin for a verdict; then every deviation counts.
    """
    deviations = find_deviations(state)
    broken = _broken(state, bool(deviations))
    if broken is not None:
        status, reason = broken
        reasons = [reason, *deviations]
        return Outcome(status=status, deviated=True if deviations else None, reason="; ".join(reasons))
    if deviations:
        return Outcome(status=DrillStatus.COMPLETED, deviated=True, reason="; ".join(deviations))
    return Outcome(status=DrillStatus.COMPLETED, deviated=False, reason=_PRAISE[state.drill.target](state))


def _broken(state: RunState, deviated: bool) -> tuple[DrillStatus, str] | None:
    """Why the drill itself did not complete; None if it did."""
    if state.halt is not None:
        return state.halt.status, state.halt.reason
    for step in state.drill.steps:
        if step is not DrillStep.REPORT and step not in state.steps:
            return DrillStatus.FAILED, f"the step {step.value} did not finish"
    if state.steady_before is None or not state.steady_before.holds:
        return DrillStatus.FAILED, "the journal does not show that the steady state held before the fault"
    if state.fault is None or not state.fault.landed:
        return DrillStatus.FAILED, "the journal does not prove that the fault landed"
    if not state.is_last and not deviated:
        return DrillStatus.FAILED, "the journal does not prove that every fault landed"
    if state.recovery is None and not deviated:
        return DrillStatus.FAILED, "the recovery was not observed"
    if state.healing is None or not state.healing.clean:
        left = state.healing.message if state.healing else "the journal has no record of it"
        return DrillStatus.FAILED, f"healing is incomplete: {left}"
    thin = _UNPROVEN[state.drill.target](state, deviated)
    return None if thin is None else (DrillStatus.FAILED, thin)


def _unproven_fork(state: RunState, deviated: bool) -> str | None:
    """Why there is no verdict on the output of the fork; None if there is one."""
    counts = state.reconciliation
    if counts is None:
        # A stream that never came back has no output to verify: that is a complete experiment with a clear result.
        return None if deviated else "the output was not verified"
    wanted = state.drill.verification.min_records
    if counts.records < wanted:
        return f"too little evidence: {counts.records:,} input records were verified, expected >= {wanted:,}"
    if state.fork is not None and OracleKind.TWIN in state.fork.oracles and state.twin is None:
        return "the output was not compared with the twin"
    if state.judgement is None:
        return "no judge gave a verdict on the reconciliation"
    if state.judgement.success != counts.exactly_once:
        return "the judge and the reconciliation disagree: neither can be trusted"
    return None if deviated else unprovable(state.not_exercised) or state.outside.unprovable


def _unproven_live(state: RunState, deviated: bool) -> str | None:
    """Why there is no verdict on the books of the live stream; None if there is one."""
    audit, fault, recovery = state.audit, state.fault, state.recovery
    if state.approval is None or not state.approval.granted:
        return "the journal does not show that a person approved the drill"
    if audit is None and deviated:
        return None
    after = recovery.first_new_batch if recovery is not None else None
    gap = gap_of(audit, fault.committed if fault else None, after, state.drill.verification.min_records)
    if gap is not None or audit is None:
        return gap
    if state.judgement is None:
        return "no judge gave a verdict on the audit"
    if state.judgement.success != (audit.outcome is AuditOutcome.BALANCED):
        return "the judge and the audit disagree: neither can be trusted"
    return None if deviated else unprovable(state.not_exercised)


_UNPROVEN: Final = {DrillTarget.FORK: _unproven_fork, DrillTarget.PRODUCTION: _unproven_live}


def find_deviations(state: RunState) -> list[str]:
    """Everything in which the stream did not behave as the hypothesis says, worst first."""
    found = (_judged(state), unbalanced(state), unverified(state), counted_differently(state))
    deviations = [deviation for deviation in found if deviation is not None]
    for result in state.results:
        name = "" if len(state.plan.order) == 1 else f"{result.spec.kind}: "
        deviations += [f"{name}{deviation}" for deviation in _of_fault(result, state.drill.recovery.target)]
    return [*deviations, *_of_end(state)]


def _of_fault(result: FaultResult, target: float) -> Iterator[str]:
    """Deviations of the stream until it recovered from one fault."""
    if result.landed is not None and result.landed.violation is not None:
        yield result.landed.violation
    recovery = result.recovery
    if result.refusal is not None and not result.refusal.holds:
        yield result.refusal.message
    elif recovery is None:
        return
    elif recovery.first_commit_at is None or recovery.recovery_seconds is None:
        yield f"the stream never came back: {recovery.message}"
    elif recovery.recovery_seconds > target:
        yield f"recovery took {recovery.recovery_seconds:.1f} s, the target is {target:.1f} s"


def _of_end(state: RunState) -> Iterator[str]:
    """Deviations after the recovery from the last fault."""
    recovery, steady = state.recovery, state.steady_after
    if not state.is_last or recovery is None or recovery.first_commit_at is None:
        return
    if state.refusal is not None and not state.refusal.holds:
        return
    if not recovery.completed:
        unfinished = "catch up" if state.live is not None else "finish its bounded input"
        yield f"the stream came back but did not {unfinished}: {recovery.message}"
    if steady is not None and not steady.holds:
        yield f"the steady state does not hold after the recovery: {steady.message}"
    elif steady is None and recovery.completed:
        yield "the steady state after the recovery was not observed"


def unbalanced(state: RunState) -> str | None:
    """In what the books of the live stream do not balance; None if they do, or were not audited."""
    audit = state.audit
    return audit.sentence if audit is not None and audit.outcome is AuditOutcome.UNBALANCED else None


def _judged(state: RunState) -> str | None:
    """In what the output is not exactly-once, by every oracle that judged it; None if it is, or was not verified."""
    difference = _inexact(state.reconciliation)
    if not oracles_disagree(state):
        return difference
    if difference is not None:
        said = f"{difference}; the twin wrote the same rows as the fork, so that the fault is not the cause"
    else:
        other = _inexact(state.twin.outcome) if state.twin is not None else None
        said = f"the output is exactly-once; the twin says that {other}"
    return f"the two oracles disagree: the job's own oracle says that {said}"


def oracles_disagree(state: RunState) -> bool:
    """Whether the output is exactly-once by one of two oracles, and not by the other."""
    counts, twin = state.reconciliation, state.twin
    return counts is not None and twin is not None and counts.exactly_once != twin.outcome.exactly_once


def _inexact(counts: Reconciliation | None) -> str | None:
    """In what the output is not exactly-once; None if it is, or was not verified."""
    if counts is None or counts.exactly_once:
        return None
    wrong = [f"{count:,} {kind}" for kind, count in counts.kinds.items() if count]
    if not wrong:
        problems = "; ".join(counts.problems) or "the oracle expects no row at all"
        return f"the output is not exactly-once: {problems}"
    named = "".join(f"; {problem}" for problem in counts.problems[:_NAMED])
    return f"the output is not exactly-once: {', '.join(wrong)} of {counts.expected:,} expected rows{named}"


def unverified(state: RunState) -> str | None:
    """Records of the fork's own topic that are in no verified batch; None: each is in one, or none can be missing."""
    counts, there = state.reconciliation, state.fault.records if state.fault else None
    if counts is None or there is None or counts.records == there:
        return None
    return f"{counts.records:,} records were read, and the fork's topic has {there:,}"


def counted_differently(state: RunState) -> str | None:
    """In what the two judges of one input do not agree on how much it is; None: they do, or there is one judge.

    An oracle counts the input that it is given, and Spark what a batch reads: twice if a query reads its source twice,
    any number of rows more if a function may read its batch again. The twin of a rewound fork reads only a part of it.
    """
    counts, twin, fork = state.reconciliation, state.twin, state.fork
    if counts is None or twin is None or twin.alone or fork is None:
        return None
    own, its = counts.records, twin.outcome.records
    fewer = its < own and fork.batch is None
    more = its > own and not twin.reads_again and (own == 0 or its % own != 0)
    if not (fewer or more):
        return None
    return f"the judges counted different input: the job's own oracle {own:,} records, the twin {its:,}"


def describe_repeats(counts: Reconciliation) -> str | None:
    """The records an at-least-once sink wrote again; None: another kind of sink."""
    if counts.repeated is None:
        return None
    were = "was" if counts.repeated == 1 else "were"
    return f"at-least-once: {format_count(counts.repeated, 'record')} {were} written again, and dropped by event id"


def describe_input(counts: Reconciliation) -> str | None:
    """Describe late rows, and those changed by the copy of a file; None: the oracle reports neither."""
    late, changed = counts.notes.get(LATE_ROWS), counts.notes.get(CHANGED_BY_COPIES)
    parts = (
        f"{late:,} input {'row was' if late == 1 else 'rows were'} late, and dropped" if late else None,
        f"{changed:,} of {counts.expected:,} expected rows differ from those without the copy of a file"
        if changed is not None
        else None,
    )
    return "; ".join(part for part in parts if part is not None) or None


def describe_not_judged(counts: Reconciliation) -> str | None:
    """The columns of the output that no oracle judged; None: each was judged."""
    names = counts.not_judged
    return f"not judged, since the oracle does not name them: {', '.join(names)}" if names else None


def _praise_live(state: RunState) -> str:
    audit, approval = state.audit, state.approval
    assert audit is not None, "the stream was audited"
    assert approval is not None, "a person approved it"
    parts = (
        audit.sentence,
        *map(_returned, state.results),
        describe_not_exercised(state.not_exercised),
        f"approved by {approval.by}",
    )
    return "; ".join(part for part in parts if part is not None)


def _praise_fork(state: RunState) -> str:
    counts = state.reconciliation
    assert counts is not None, "the output was verified"
    counted = f"0 lost, 0 duplicated, 0 unexpected, 0 wrong in {counts.expected:,} rows from {counts.records:,} records"
    parts = (
        *(result.refusal.message for result in state.results if result.refusal is not None),
        "; ".join((counted, *map(_returned, state.results))),
        describe_repeats(counts),
        describe_not_judged(counts),
        f"the twin agrees: it {describe_run(state.twin)}" if state.twin is not None else None,
        *describe_unproven(state.twin),
        *state.outside.unproven(),
        state.twin.third if state.twin is not None else None,
        describe_not_exercised(state.not_exercised),
    )
    return "; ".join(part for part in parts if part is not None)


def _returned(result: FaultResult) -> str:
    recovery = result.recovery
    assert recovery is not None, "the recovery was observed"
    after = REMEDIATED if result.refusal else "the fault"
    return f"first new batch {recovery.recovery_seconds:.1f} s after {after}"


_PRAISE: Final = {DrillTarget.FORK: _praise_fork, DrillTarget.PRODUCTION: _praise_live}
