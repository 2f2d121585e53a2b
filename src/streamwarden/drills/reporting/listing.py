"""Select the drill runs of a list. Pure."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamwarden.drills.records.journal import DrillStatus

PAGE: Final = 50
"""Runs of a page."""


class DrillVerdict(StrEnum):
    """The result of a run in one word, as `report.verdict_word` gives it."""

    PASSED = "PASSED"
    DEVIATED = "DEVIATED"
    ABORTED = "ABORTED"
    FAILED = "FAILED"
    RUNNING = "RUNNING"

    @property
    def status(self) -> DrillStatus:
        """The status of the runs with this verdict. Completed ones have two verdicts."""
        decided = self in (DrillVerdict.PASSED, DrillVerdict.DEVIATED)
        return DrillStatus.COMPLETED if decided else DrillStatus(self.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Args:
    drills: names of the drills whose runs are listed.
    stream: its runs alone; None: of every stream.
    before: runs that began before this moment, Unix seconds; None: all.
    """

    drills: Collection[str]
    stream: str | None = None
    verdict: DrillVerdict | None = None
    before: float | None = None
    offset: int = 0
    limit: int = PAGE
