"""A rule, declared once: what it reads, its reason, and what to do where a stream breaks it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from streamwarden.lint.facts import Facts
from streamwarden.lint.finding import FactOrigin, Finding, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The declaration of one rule.

    Args:
        id: `SW` and three digits; never given to another rule.
        severity: of its findings, unless one says otherwise.
        reason: why the rule exists.
        reads: what it reads, and in which source.
        remedy: what the user changes.
    """

    id: str
    title: str
    severity: Severity
    reason: str
    reads: str
    remedy: str
    judge: Callable[[Facts], Iterable[Finding]] = field(repr=False)

    def finding(
        self, facts: Facts, observed: str, origin: FactOrigin, where: str, *, severity: Severity | None = None
    ) -> Finding:
        return Finding(
            rule=self.id,
            title=self.title,
            severity=severity or self.severity,
            stream=facts.spec.name,
            observed=observed,
            origin=origin,
            where=where,
            reason=self.reason,
            remedy=self.remedy,
        )

    def unknown(self, facts: Facts, why: str, origin: FactOrigin, where: str) -> Finding:
        """The rule could not be judged."""
        return self.finding(facts, why, origin, where, severity=Severity.UNKNOWN)
