"""A finding: what one rule says against one stream, and where that was read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"  # the stream will fail, lose or double rows, or outgrow its memory
    WARNING = "warning"  # it works, and will hurt one day
    UNKNOWN = "unknown"  # nothing that was read says whether the rule is kept: never the same as clean

    @property
    def rank(self) -> int:
        """0 for what could not be told up to 2 for an error."""
        return ("unknown", "warning", "error").index(self.value)


class FactOrigin(StrEnum):
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
    origin: FactOrigin
    where: str
    reason: str
    remedy: str
