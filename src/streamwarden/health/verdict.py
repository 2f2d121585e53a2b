"""A verdict: the result of one check for one stream at one time, with its evidence and advice."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"  # no data: never the same as OK
    ADVICE = "ADVICE"  # a setting costs more than it needs to: of an incident alone, which never alarms

    @property
    def rank(self) -> int:
        """0 for OK and ADVICE up to 3 for CRITICAL; UNKNOWN is worse than OK and better than WARNING."""
        return {"OK": 0, "ADVICE": 0, "UNKNOWN": 1, "WARNING": 2, "CRITICAL": 3}[self.value]


ALARMS: Final = frozenset({Status.WARNING, Status.CRITICAL})
"""What somebody has to be told of."""

OPENING: Final = ALARMS | {Status.ADVICE}
"""What opens an incident."""


APPLIES: Final = "applies"
"""Key of the evidence of a verdict whose check has nothing to judge: its value is False. Any other verdict lacks it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Times are Unix seconds.

    Args:
        check: name of the check, as in `config/thresholds.yaml`.
        value: the number that was judged, in `unit`; None if there is none.
        reason: one sentence: what was measured, compared with which threshold.
        advice: what to do about it; empty for OK.
        evidence: the numbers and their origin (batch ids, fields), so that anyone can check them.
    """

    stream: str
    check: str
    status: Status
    at: float
    value: float | None = None
    unit: str = ""
    reason: str = ""
    advice: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether the check has something to judge: a query without state has no size of it."""
        return self.evidence.get(APPLIES, True) is not False


def worst_of(statuses: Iterable[Status]) -> Status:
    """The worst of `statuses`; UNKNOWN if there are none."""
    return max(statuses, key=lambda status: status.rank, default=Status.UNKNOWN)
