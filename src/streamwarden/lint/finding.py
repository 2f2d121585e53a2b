"""A finding: what one rule reports about one stream, and where that was read."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    ERROR = "error"  # the stream will fail, lose or double rows, or outgrow its memory
    WARNING = "warning"  # it works now, and will cause trouble later
    UNKNOWN = "unknown"  # nothing that was read shows whether the stream follows the rule: never the same as clean

    @property
    def rank(self) -> int:
        """From 0 for unknown to 2 for an error."""
        return ("unknown", "warning", "error").index(self.value)


class FactOrigin(StrEnum):
    """The source of a finding."""

    DECLARATION = "declaration"  # the stream's YAML file, and the Spark settings that follow from it
    JOB = "job file"  # its text: it is parsed, never run
    PLAN = "logical plan"  # of the query that the job built; the query was not started
    CHECKPOINT = "checkpoint"  # what the query left there
    HISTORY = "history"  # batches and drills in the store


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Args:
    observed: what was found, with the offending value.
    where: depends on `origin`: file and line or key, node of the plan, operator.
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
