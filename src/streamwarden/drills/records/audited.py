"""Decide what an audit of the live stream proves after a drill, and what not. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from streamwarden.verification.comparing.balance import Audit, Outcome

UNPROVEN: Final = "cannot be proven"
"""How a verdict begins that an audit could not reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An audit as the journal describes it.

    Args:
        after, upto: the audited batches are those after `after` up to `upto`; None: there are none.
        records: input rows of these batches; of an output that does not count them, the groups.
        document: the whole result.
    """

    outcome: Outcome
    sentence: str
    after: int | None
    upto: int | None
    records: int
    document: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, audit: Audit) -> Self:
        return cls(
            outcome=audit.outcome,
            sentence=audit.sentence,
            after=audit.range.after if audit.range else None,
            upto=audit.range.upto if audit.range else None,
            records=records_of(audit),
            document=audit.to_dict(),
        )

    def covers(self, first: int, last: int) -> bool:
        """Whether the batches from `first` to `last` are among the audited ones."""
        return self.after is not None and self.upto is not None and self.after < first and last <= self.upto


def records_of(audit: Audit) -> int:
    """The input rows that an audit balanced, without the late ones; the groups, if the output does not count rows."""
    if audit.read is not None:
        return audit.read
    if audit.counts is None:
        return audit.entries
    return int(audit.totals.get("input", {}).get(audit.counts) or 0)


def gap_of(audit: AuditRecord | None, before: int | None, after: int | None, wanted: int) -> str | None:
    """Why an audit proves nothing of the drill; None: it proves it, one way or the other.

    Args:
        before: the last batch before the fault; after: a batch after it. Both have to be audited.
        wanted: the least number of input records.
    """
    if audit is None:
        return f"{UNPROVEN}: the output of the live stream was not audited"
    if audit.outcome is Outcome.UNDECIDED:
        return f"{UNPROVEN}: {audit.sentence}"
    if audit.outcome is Outcome.UNBALANCED:
        return None
    if before is None or after is None or not audit.covers(before, after):
        audited = "no batch" if audit.after is None else f"the batches {audit.after + 1} to {audit.upto}"
        return f"{UNPROVEN}: the audit covers {audited}, but the fault was between {before} and {after}"
    if audit.records < wanted:
        return f"too little evidence: {audit.records:,} input records were audited, expected >= {wanted:,}"
    return None
