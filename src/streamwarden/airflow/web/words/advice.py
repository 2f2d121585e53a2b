"""Advice on a stream in the order in which a person needs it: changes first, settings that are right last. Equal
findings of the linter are one line. Pure."""

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
        seen: each observation with its place.
    """

    rule: str
    title: str
    severity: Severity
    remedy: str
    seen: Sequence[tuple[str, str]]


def in_order(advice: Iterable[Recommendation]) -> list[Recommendation]:
    """The changes, the costliest first; then what is not known; then what should stay as it is."""
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
