"""Advice on a stream in the order in which a person needs it: what to change first, what is right already last, and
equal findings of the linter as one line. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from streamwarden.lint.finding import Finding, Severity
from streamwarden.tuning.recommendation import Decision, Recommendation

_ORDER: Final = (Decision.CHANGE, Decision.UNKNOWN, Decision.KEEP)


@dataclass(frozen=True, slots=True)
class FoldedFinding:
    """What one rule says of a stream.

    Args:
        seen: what was observed in each place, and the place; several if it is the same in all.
    """

    rule: str
    title: str
    severity: Severity
    remedy: str
    seen: Sequence[tuple[str, str]]


def in_order(advice: Iterable[Recommendation]) -> list[Recommendation]:
    """What is to be changed, the costliest first; then what is not known, and what is to be kept."""
    return sorted(advice, key=lambda one: (_ORDER.index(one.status), -(one.costs or 0.0)))


def folded(findings: Iterable[Finding]) -> list[FoldedFinding]:
    """One line for each rule and remedy, the worst first."""

    def key(finding: Finding) -> tuple[int, str, str]:
        return -finding.severity.rank, finding.rule, finding.remedy

    return [_fold(list(same)) for _, same in groupby(sorted(findings, key=key), key)]


def _fold(same: Sequence[Finding]) -> FoldedFinding:
    first = same[0]
    seen = tuple(dict.fromkeys((one.observed, f"{one.origin}: {one.where}") for one in same))
    return FoldedFinding(first.rule, first.title, first.severity, first.remedy, seen)
