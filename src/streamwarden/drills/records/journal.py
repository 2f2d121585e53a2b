"""The journal of a drill: everything that it observed, enough for a reader to reach the same verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol


class DrillStep(StrEnum):
    PREFLIGHT = "preflight"
    APPROVAL = "approval"
    STEADY_STATE = "steady_state"
    FAULT = "fault"
    RECOVERY = "recovery"
    VERIFICATION = "verification"
    HEAL = "heal"
    REPORT = "report"


FORK_STEPS: Final = (
    DrillStep.STEADY_STATE,
    DrillStep.FAULT,
    DrillStep.RECOVERY,
    DrillStep.VERIFICATION,
    DrillStep.HEAL,
    DrillStep.REPORT,
)
"""The steps of a drill on a fork, in their order."""

PRODUCTION_STEPS: Final = (DrillStep.PREFLIGHT, DrillStep.APPROVAL, *FORK_STEPS)
"""The steps of a drill on a live stream: first it is checked whether it may be hit now, and a person is asked."""


class DrillStatus(StrEnum):
    """Whether the drill completed. Whether the system deviated is the other axis."""

    RUNNING = "running"
    COMPLETED = "completed"
    ABORTED = "aborted"  # a precondition did not hold: nothing was broken
    FAILED = "failed"  # the drill itself failed: it says nothing about the stream


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line of a journal. `data` is JSON: numbers, text, lists, objects."""

    step: DrillStep
    at: float
    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRun:
    """One run of a drill as it is stored: `state.RunState` is the typed view of its facts. Times are Unix seconds.

    Passed means completed and not deviated, nothing else."""

    run_id: str
    drill: str
    stream: str
    started_at: float
    status: DrillStatus = DrillStatus.RUNNING
    deviated: bool | None = None
    reason: str = ""
    ended_at: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return self.status is DrillStatus.COMPLETED and self.deviated is False


class JournalRepository(Protocol):
    """Where drill runs and their journals are kept. `save` replaces the run's row; `append` only adds."""

    def save(self, run: DrillRun) -> None: ...
    def append(self, run_id: str, entry: JournalEntry) -> None: ...
    def get(self, run_id: str) -> DrillRun | None: ...
    def entries(self, run_id: str) -> Sequence[JournalEntry]: ...
    def recent(self, drill: str | None = None, stream: str | None = None, limit: int = 50) -> Sequence[DrillRun]: ...
    def running(self) -> Sequence[DrillRun]:
        """Every run that has not ended, newest first."""
