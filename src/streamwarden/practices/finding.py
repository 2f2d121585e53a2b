"""A rule, declared once, and a finding: what one rule says against one stream, and where that was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamwarden.practices.facts import Facts


class Severity(StrEnum):
    ERROR = "error"  # the stream will fail, lose or double rows, or outgrow its memory
    WARNING = "warning"  # it works, and will hurt one day
    UNKNOWN = "unknown"  # nothing that was read says whether the rule is kept: never the same as clean

    @property
    def rank(self) -> int:
        """0 for what could not be told up to 2 for an error."""
        return ("unknown", "warning", "error").index(self.value)


class Origin(StrEnum):
    """What a finding was read from."""

    DECLARATION = "declaration"  # the stream's YAML file, and the Spark settings that follow from it
    JOB = "job file"  # its text: it is parsed, never run
    PLAN = "logical plan"  # of the query that the job built, without starting it
    CHECKPOINT = "checkpoint"  # what the query left there
    HISTORY = "history"  # batches and drills in the store


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Args:
    observed: what is the case, with the offending value.
    where: file and line or key, node of the plan, operator; what `origin` has.
    """

    rule: str
    title: str
    severity: Severity
    stream: str
    observed: str
    origin: Origin
    where: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The declaration of one rule.

    Args:
        id: `SW` and three digits; never given to another rule.
        severity: of its findings, unless one says otherwise.
        reason: why it is a practice at all.
        reads: what it looks at, and in which source.
        remedy: what a person changes.
    """

    id: str
    title: str
    severity: Severity
    reason: str
    reads: str
    remedy: str
    judge: Callable[[Facts], Iterable[Finding]] = field(repr=False)

    def finding(
        self, facts: Facts, observed: str, origin: Origin, where: str, *, severity: Severity | None = None
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

    def unknown(self, facts: Facts, why: str, origin: Origin, where: str) -> Finding:
        """The rule could not be judged."""
        return self.finding(facts, why, origin, where, severity=Severity.UNKNOWN)
