"""The steady state hypothesis: do the health verdicts contradict it?"""

from collections.abc import Sequence
from dataclasses import dataclass

from streamwarden.drills.records.sections import SteadyStateSpec
from streamwarden.health.verdict import Status, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class HypothesisResult:
    """`blind`: none of the named checks has data yet, so the hypothesis can be neither confirmed nor refuted."""

    holds: bool
    blind: bool
    message: str
    verdicts: tuple[Verdict, ...]


def judge_health(spec: SteadyStateSpec, verdicts: Sequence[Verdict]) -> HypothesisResult:
    """None of the named checks is CRITICAL, each one ran, and at least one has data (UNKNOWN is never OK)."""
    named = tuple(verdict for verdict in verdicts if verdict.check in spec.checks)
    absent = sorted(set(spec.checks) - {verdict.check for verdict in named})
    critical = [verdict for verdict in named if verdict.status is Status.CRITICAL]
    unknown = [verdict.check for verdict in named if verdict.status is Status.UNKNOWN]
    if critical:
        reasons = "; ".join(f"{verdict.check} is CRITICAL: {verdict.reason}" for verdict in critical)
        return HypothesisResult(holds=False, blind=False, message=reasons, verdicts=named)
    if absent:
        return HypothesisResult(
            holds=False, blind=True, message=f"checks without a verdict: {', '.join(absent)}", verdicts=named
        )
    if spec.checks and len(unknown) == len(named):
        return HypothesisResult(
            holds=False, blind=True, message="health is blind: every check is UNKNOWN", verdicts=named
        )
    message = f"{len(named)} checks, none CRITICAL" + (f"; UNKNOWN: {', '.join(unknown)}" if unknown else "")
    return HypothesisResult(holds=True, blind=False, message=message, verdicts=named)
