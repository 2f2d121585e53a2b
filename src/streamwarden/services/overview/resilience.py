"""The rows of the resilience matrix, as the API has them. Times are Unix seconds."""

from __future__ import annotations

from streamwarden.drills.reporting.resilience import Resilience
from streamwarden.services.overview.rows import Model


class TrialRow(Model):
    """One fault of one run of a drill."""

    run_id: str
    drill: str
    at: float
    """when the run began"""
    verdict: str
    """PASSED, DEVIATED, ABORTED or FAILED"""
    recovery_seconds: float | None
    """from the fault to the first new commit; None: it was not observed"""


class FormulaError(Model):
    """How far a formula was from the measured recoveries: 0.25 means that it predicted a quarter too much."""

    formula: str
    median: float
    worst: float
    runs: int


class ResilienceRow(Model):
    """What is known about one variant of one fault of one stream."""

    stream: str
    fault: str
    variant: str
    """the options that make it another experiment, such as `moment: after_state`; empty if there are none"""
    drills: tuple[str, ...]
    """drills that are configured to break the stream so"""
    overdue: tuple[str, ...]
    """those of them that did not run when they were due"""
    verdict: str
    """of the newest run that ended; NEVER if there is none"""
    survived_at: float | None
    """when the newest run began that passed"""
    errors: tuple[FormulaError, ...]
    trials: tuple[TrialRow, ...]
    """the newest runs that ended, at most 50, newest first"""


def resilience_row(row: Resilience) -> ResilienceRow:
    """The row as a model of the API."""
    return ResilienceRow(
        stream=row.stream,
        fault=row.fault,
        variant=row.variant,
        drills=row.drills,
        overdue=row.overdue,
        verdict=row.verdict,
        survived_at=row.survived_at,
        errors=tuple(
            FormulaError(formula=each.formula, median=each.median, worst=each.worst, runs=each.runs)
            for each in row.errors
        ),
        trials=tuple(
            TrialRow(
                run_id=each.run_id,
                drill=each.drill,
                at=each.at,
                verdict=each.verdict,
                recovery_seconds=each.recovery,
            )
            for each in row.recent
        ),
    )
