"""What the drills have shown: which faults each stream survived, when, and how long the recoveries took. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from streamwarden.drills.journal import DrillRun, DrillStatus
from streamwarden.drills.report import verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import FaultResult, RunState
from streamwarden.errors import DrillError

NEVER: Final = "NEVER"
"""The verdict of a fault that no run has tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A predicted recovery beside the measured one, seconds. Both count from the launch, or from the fault if the
    struck driver went on."""

    formula: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """0.25: the prediction was a quarter too long."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One fault of one run of a drill: the run's verdict in one word, and the recovery in seconds from the fault."""

    run_id: str
    drill: str
    at: float
    verdict: str
    recovery: float | None = None
    estimates: tuple[Estimate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOfFormula:
    """How far a formula was from the measured recoveries of some runs: shares, see `Estimate.error`."""

    formula: str
    median: float
    worst: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """What is known about one fault of one stream.

    Args:
        drills: names of the configured drills that break the stream so; empty: only older runs did.
        overdue: those of them that did not run when they were due.
        trials: the runs that ended, newest first.
    """

    stream: str
    fault: str
    drills: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = ()

    @property
    def verdict(self) -> str:
        """Of the newest run."""
        return self.trials[0].verdict if self.trials else NEVER

    @property
    def survived_at(self) -> float | None:
        """When it last survived the fault: the start of the newest run that passed, Unix seconds."""
        return next((trial.at for trial in self.trials if trial.verdict == "PASSED"), None)

    @property
    def recoveries(self) -> tuple[float, ...]:
        """Seconds, of the runs in which it recovered, newest first."""
        return tuple(trial.recovery for trial in self.trials if trial.recovery is not None)

    @property
    def errors(self) -> tuple[ErrorOfFormula, ...]:
        """Of each formula, over all runs that have both the prediction and the measurement."""
        found: dict[str, list[float]] = {}
        for trial in self.trials:
            for each in trial.estimates:
                found.setdefault(each.formula, []).append(each.error)
        return tuple(
            ErrorOfFormula(formula=name, median=median(errors), worst=max(errors, key=abs), runs=len(errors))
            for name, errors in found.items()
        )

    def of(self, drills: Collection[str]) -> Resilience | None:
        """What is known from these drills alone; None: nothing."""
        ours = replace(
            self,
            drills=tuple(name for name in self.drills if name in drills),
            overdue=tuple(name for name in self.overdue if name in drills),
            trials=tuple(trial for trial in self.trials if trial.drill in drills),
        )
        return ours if ours.drills or ours.trials else None


def resilience(
    drills: Mapping[str, DrillSpec], runs: Iterable[DrillRun], overdue: Iterable[str] = ()
) -> tuple[Resilience, ...]:
    """One row for each stream and fault, sorted: those that a drill is configured for, and those of older runs.

    Args:
        runs: newest first. A run that has not ended, and one whose journal cannot be read, is left out.
        overdue: names of drills.
    """
    late = frozenset(overdue)
    configured: dict[tuple[str, str], list[str]] = {}
    for name, spec in sorted(drills.items()):
        for kind in dict.fromkeys(fault.kind.value for fault in spec.sequence):
            configured.setdefault((spec.stream, kind), []).append(name)
    tried: dict[tuple[str, str], list[Trial]] = {}
    for run in runs:
        if (state := _readable(run)) is not None:
            for result in state.results:  # without the faults whose turn never came
                tried.setdefault((run.stream, result.spec.kind.value), []).append(_trial(run, result))
    return tuple(
        Resilience(
            stream=stream,
            fault=fault,
            drills=tuple(names := configured.get((stream, fault), [])),
            overdue=tuple(name for name in names if name in late),
            trials=tuple(tried.get((stream, fault), ())),
        )
        for stream, fault in sorted({*configured, *tried})
    )


def _readable(run: DrillRun) -> RunState | None:
    if run.status is DrillStatus.RUNNING:
        return None
    try:
        return RunState.of(run)
    except DrillError:  # another version wrote it: it says nothing here, and `drill show` reports why
        return None


def _trial(run: DrillRun, result: FaultResult) -> Trial:
    recovery = result.recovery
    return Trial(
        run_id=run.run_id,
        drill=run.drill,
        at=run.started_at,
        verdict=verdict_word(run),
        recovery=recovery.recovery_seconds if recovery is not None else None,
        estimates=estimates(result),
    )


def estimates(result: FaultResult) -> tuple[Estimate, ...]:
    """Each prediction of the recovery beside its measurement, if it has both."""
    measured = result.recovery.restart_seconds if result.recovery is not None else None
    if not measured:
        return ()
    return tuple(
        Estimate(formula=each.formula, predicted=each.seconds, measured=measured)
        for each in result.predicted
        if each.seconds is not None
    )


def faults_of(rows: Sequence[Resilience]) -> tuple[str, ...]:
    """The faults of all rows, each once, sorted: the columns of a table."""
    return tuple(sorted({row.fault for row in rows}))
