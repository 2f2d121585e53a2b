"""The verdict of a drill, a pure function of its facts. Two axes: did it complete, did the system deviate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamwarden.drills.journal import DrillStatus, DrillStep
from streamwarden.drills.spec import DrillSpec

JUDGED_STEPS = (DrillStep.STEADY_STATE, DrillStep.FAULT, DrillStep.RECOVERY, DrillStep.VERIFICATION, DrillStep.HEAL)

_NAMED = 3
"""Problems that stand in the reason beside counted rows; the journal has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """`deviated` is None where the drill says nothing about the stream."""

    status: DrillStatus
    deviated: bool | None
    reason: str


def decide(spec: DrillSpec, facts: Mapping[str, Any]) -> Outcome:
    """Passed (completed, not deviated) only if nothing of the rules is missing or broken.

    In this order: a drill that was halted is what halted it; a step that never finished fails the drill; so does
    evidence that is too thin for a verdict; then every deviation counts.
    """
    deviations = find_deviations(spec, facts)
    broken = _broken(spec, facts, bool(deviations))
    if broken is not None:
        status, reason = broken
        reasons = [reason, *deviations]
        return Outcome(status=status, deviated=True if deviations else None, reason="; ".join(reasons))
    if deviations:
        return Outcome(status=DrillStatus.COMPLETED, deviated=True, reason="; ".join(deviations))
    return Outcome(status=DrillStatus.COMPLETED, deviated=False, reason=_praise(facts))


def _broken(spec: DrillSpec, facts: Mapping[str, Any], deviated: bool) -> tuple[DrillStatus, str] | None:
    """Why the drill itself did not complete; None if it did."""
    halted = facts.get("halted")
    if halted:
        return DrillStatus(halted["status"]), str(halted["reason"])
    steps = facts.get("steps", {})
    for step in JUDGED_STEPS:
        if step not in steps:
            return DrillStatus.FAILED, f"the step {step.value} did not finish"
    if not facts.get("steady_before", {}).get("holds"):
        return DrillStatus.FAILED, "no record that the steady state held before the fault"
    if not facts.get("fault", {}).get("landed"):
        return DrillStatus.FAILED, "no proof that the fault landed"
    if facts.get("recovery") is None and not deviated:
        return DrillStatus.FAILED, "the recovery was not observed"
    heal = facts.get("heal", {})
    if not heal.get("clean"):
        return DrillStatus.FAILED, f"healing is incomplete: {heal.get('message', 'no record of it')}"
    if facts.get("reconciliation") is None:
        # A stream that never came back has no output to verify: that is a complete experiment with a clear result.
        return None if deviated else (DrillStatus.FAILED, "the output was not verified")
    records = facts["reconciliation"]["records"]
    if records < spec.verification.min_records:
        wanted = spec.verification.min_records
        return DrillStatus.FAILED, f"too little evidence: {records} input records were verified, expected >= {wanted}"
    judgement = facts.get("judgement")
    if judgement is None:
        return DrillStatus.FAILED, "no judge gave a verdict on the reconciliation"
    if judgement["success"] != facts["reconciliation"]["exactly_once"]:
        return DrillStatus.FAILED, "the judge and the reconciliation disagree: neither can be trusted"
    return None


def find_deviations(spec: DrillSpec, facts: Mapping[str, Any]) -> list[str]:
    """Everything in which the stream did not behave as the hypothesis says, worst first."""
    found = []
    counts = facts.get("reconciliation")
    if counts is not None:
        wrong = [f"{counts[kind]} {kind}" for kind in ("lost", "duplicated", "unexpected", "wrong") if counts[kind]]
        if wrong:
            seen = "".join(f"; {problem}" for problem in counts.get("problems", ())[:_NAMED])
            found.append(
                f"the output is not exactly-once: {', '.join(wrong)} of {counts['expected']} expected rows{seen}"
            )
        elif not counts["exactly_once"]:
            problems = "; ".join(counts["problems"]) or "the oracle expects no row at all"
            found.append(f"the output is not exactly-once: {problems}")
    missing = unverified(facts)
    if missing is not None:
        found.append(missing)
    told = facts.get("told")
    if told is not None and not told["holds"]:
        return [*found, told["message"]]
    recovery = facts.get("recovery")
    if recovery is None:
        return found
    if recovery.get("first_commit_at") is None:
        return [*found, f"the stream never came back: {recovery['message']}"]
    seconds, target = recovery["recovery_seconds"], spec.recovery.target
    if seconds > target:
        found.append(f"recovery took {seconds:.1f} s, the target is {target:.1f} s")
    if not recovery.get("completed"):
        found.append(f"the stream came back but did not finish its bounded input: {recovery['message']}")
    steady = facts.get("steady_after")
    if steady is not None and not steady["holds"]:
        found.append(f"the steady state does not hold after the recovery: {steady['message']}")
    elif steady is None and recovery.get("completed"):
        found.append("the steady state after the recovery was not observed")
    return found


def unverified(facts: Mapping[str, Any]) -> str | None:
    """Which records of a topic of the fork's own are in no batch that was verified; None: each is, or none can be
    missed."""
    counts, there = facts.get("reconciliation"), facts.get("fault", {}).get("records")
    if counts is None or there is None or counts["records"] == there:
        return None
    return f"{counts['records']:,} records were read, and the fork's topic has {there:,}"


def told_delivery(counts: Mapping[str, Any]) -> str | None:
    """What a sink that is at-least-once did, in words; None: the sink is no such sink."""
    repeated = counts.get("repeated")
    if repeated is None:
        return None
    told = "1 record was" if repeated == 1 else f"{repeated} records were"
    return f"at-least-once: {told} written again, and dropped by event id"


def describe_not_judged(counts: Mapping[str, Any]) -> str | None:
    """The columns of the output that no oracle judged, in words; None: each was judged."""
    names = counts.get("not_judged")
    return f"not judged, since the oracle does not name them: {', '.join(names)}" if names else None


def _praise(facts: Mapping[str, Any]) -> str:
    counts, recovery = facts["reconciliation"], facts["recovery"]
    delivery = told_delivery(counts)
    counted = (
        f"0 lost, 0 duplicated, 0 unexpected, 0 wrong in {counts['expected']} rows from {counts['records']} records; "
        f"first new batch {recovery['recovery_seconds']:.1f} s after "
        + ("the way out was taken" if "told" in facts else "the fault")
    )
    refusal = facts["told"]["message"] if "told" in facts else None
    parts = (refusal, counted, delivery, describe_not_judged(counts))
    return "; ".join(each for each in parts if each is not None)
