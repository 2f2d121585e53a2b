"""Summarise the drills: which faults each stream survived, when, and how long the recoveries took. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Self, TypeAlias

from streamwarden.drills.faults import Fault
from streamwarden.drills.records.journal import DrillRun, DrillStatus
from streamwarden.drills.records.phases import BatchPhase
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.reporting.report import verdict_word
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import FaultResult, RunState
from streamwarden.errors import DrillError

NEVER: Final = "NEVER"
"""The verdict of a fault that no run has tried."""

RECENT: Final = 50
"""Newest runs that a list shows, and whose recoveries are summed up."""

FIRST: Final = "kill_driver"
"""The fault that a table shows first."""

_WORST_FIRST: Final = ("DEVIATED", "FAILED", "ABORTED", "PASSED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A predicted recovery beside the measured one, seconds. Both count from the launch, or from the fault if the
    struck driver continued."""

    formula: str
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """0.25: the prediction was a quarter too long."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One fault of one run of a drill that ended: all that a list of runs needs, without the run's facts.

    Args:
        number: of the fault in the run, from 0.
        variant: see `variant_of`.
        at: when the run began, Unix seconds.
        verdict: the run's, in one word.
        recovery: seconds from the fault.
        phase: of the batch that it cut, in words; empty: it cut none, or nothing showed it.
    """

    run_id: str
    number: int = 0
    drill: str
    stream: str
    fault: str
    variant: str = ""
    at: float
    verdict: str
    recovery: float | None = None
    estimates: tuple[Estimate, ...] = ()
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorOfFormula:
    """How far a formula was from the measured recoveries of some runs: shares, see `Estimate.error`."""

    formula: str
    median: float
    worst: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """The record of one variant of one fault of one stream.

    Args:
        variant: see `variant_of`.
        drills: names of the configured drills that break the stream so; empty: only older runs did.
        overdue: those of them that did not run when they were due.
        trials: the runs that ended, newest first.
    """

    stream: str
    fault: str
    variant: str = ""
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
    def recent(self) -> tuple[Trial, ...]:
        """The newest runs, for a list of them."""
        return self.trials[:RECENT]

    @property
    def recoveries(self) -> tuple[float, ...]:
        """Seconds, of the recent runs in which it recovered, newest first."""
        return tuple(trial.recovery for trial in self.recent if trial.recovery is not None)

    @property
    def phases(self) -> dict[str, int]:
        """The phases of a batch that the recent strikes hit, and how often: every one that there is, in its order.
        Empty: no strike shows any."""
        hits = Counter(trial.phase for trial in self.recent if trial.phase)
        return {str(phase): hits[phase] for phase in BatchPhase} if hits else {}

    @property
    def errors(self) -> tuple[ErrorOfFormula, ...]:
        """Of each formula, over all runs that have both the prediction and the measurement."""
        by_formula: dict[str, list[float]] = {}
        for trial in self.trials:
            for estimate in trial.estimates:
                by_formula.setdefault(estimate.formula, []).append(estimate.error)
        return tuple(
            ErrorOfFormula(formula=name, median=median(errors), worst=max(errors, key=abs), runs=len(errors))
            for name, errors in by_formula.items()
        )

    def of(self, drills: Collection[str]) -> Self | None:
        """The resilience by these drills alone; None: no trial."""
        ours = replace(
            self,
            drills=tuple(name for name in self.drills if name in drills),
            overdue=tuple(name for name in self.overdue if name in drills),
            trials=tuple(trial for trial in self.trials if trial.drill in drills),
        )
        return ours if ours.drills or ours.trials else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault of one stream: a field of the table stream x fault.

    Args:
        variants: one row for each variant of the fault, sorted.
    """

    stream: str
    fault: str
    variants: tuple[Resilience, ...]

    @property
    def judged(self) -> tuple[Resilience, ...]:
        """The variants that count: those that a drill is configured for, or all if there is none."""
        return tuple(row for row in self.variants if row.drills) or self.variants

    @property
    def worst(self) -> Resilience | None:
        """The variant whose newest run had the worst verdict; of several, the one that ran last. None: none ever ran.

        Each variant is judged by its own newest run: a later run of another variant proves nothing about it.
        """
        tried = [row for row in self.judged if row.trials]
        return min(tried, key=lambda row: (_WORST_FIRST.index(row.verdict), -row.trials[0].at), default=None)

    @property
    def verdict(self) -> str:
        """The worst of the variants that were tried."""
        return self.worst.verdict if self.worst is not None else NEVER

    @property
    def untried(self) -> tuple[Resilience, ...]:
        """The variants that count and that no run has tried."""
        return tuple(row for row in self.judged if not row.trials)

    @property
    def overdue(self) -> tuple[str, ...]:
        """Names of drills, sorted."""
        return tuple(sorted({name for row in self.variants for name in row.overdue}))


_Key: TypeAlias = tuple[str, str, str]
"""Stream, fault, variant."""


def resilience(
    drills: Mapping[str, DrillSpec], trials: Iterable[Trial], overdue: Iterable[str] = ()
) -> tuple[Resilience, ...]:
    """One row for each stream, fault and variant of it, sorted: those that a drill is configured for, and those of
    older runs.

    Args:
        trials: newest first.
        overdue: names of drills.
    """
    late = frozenset(overdue)
    configured: dict[_Key, list[str]] = {}
    for name, spec in sorted(drills.items()):
        for kind, variant in dict.fromkeys((fault.kind, variant_of(spec, fault)) for fault in spec.sequence):
            configured.setdefault((spec.stream, kind, variant), []).append(name)
    tried: dict[_Key, list[Trial]] = {}
    for trial in trials:
        tried.setdefault((trial.stream, trial.fault, trial.variant), []).append(trial)
    return tuple(
        Resilience(
            stream=key[0],
            fault=key[1],
            variant=key[2],
            drills=tuple(names := configured.get(key, [])),
            overdue=tuple(name for name in names if name in late),
            trials=tuple(tried.get(key, ())),
        )
        for key in sorted({*configured, *tried})
    )


def cells(rows: Iterable[Resilience]) -> tuple[Cell, ...]:
    """The rows by stream and fault, in the order of the rows."""
    grouped: dict[tuple[str, str], list[Resilience]] = {}
    for row in rows:
        grouped.setdefault((row.stream, row.fault), []).append(row)
    return tuple(Cell(stream=key[0], fault=key[1], variants=tuple(found)) for key, found in grouped.items())


def variant_of(spec: DrillSpec, fault: Fault) -> str:
    """Distinguishes the fault of this drill from its kind alone: its options, and the live stream
    instead of a fork. `moment: after_state`; empty: nothing."""
    live = "on the live stream" if spec.target is DrillTarget.PRODUCTION else ""
    return ", ".join(filter(None, (fault.variant, live)))


def trials_of(run: DrillRun) -> tuple[Trial, ...]:
    """The trials of a run, without the faults whose turn never came. Empty: it has not ended, or another version wrote
    its journal; then `drill show` reports why it cannot be read."""
    state = _readable(run)
    return () if state is None else tuple(_trial(run, state, number) for number in range(len(state.results)))


def _readable(run: DrillRun) -> RunState | None:
    if run.status is DrillStatus.RUNNING:
        return None
    try:
        return RunState.of(run)
    except DrillError:
        return None


def _trial(run: DrillRun, state: RunState, number: int) -> Trial:
    result = state.results[number]
    recovery = result.recovery
    return Trial(
        run_id=run.run_id,
        number=number,
        drill=run.drill,
        stream=run.stream,
        fault=result.spec.kind,
        variant=variant_of(state.drill, result.spec),
        at=run.started_at,
        verdict=verdict_word(run),
        recovery=recovery.recovery_seconds if recovery is not None else None,
        estimates=estimates(result),
        phase=_phase(result),
    )


def _phase(result: FaultResult) -> str:
    struck = result.landed.struck if result.landed is not None else None
    return str(struck.phase) if struck is not None and struck.phase is not None else ""


def estimates(result: FaultResult) -> tuple[Estimate, ...]:
    """Each prediction of the recovery beside its measurement, if it has both."""
    measured = result.recovery.restart_seconds if result.recovery is not None else None
    if not measured:
        return ()
    return tuple(
        Estimate(formula=prediction.formula, predicted=prediction.seconds, measured=measured)
        for prediction in result.predicted
        if prediction.seconds is not None
    )


def faults_of(rows: Sequence[Resilience]) -> tuple[str, ...]:
    """The faults of all rows, each once: the columns of a table. First the crash that every stream meets, then the
    others, sorted."""
    return tuple(sorted({row.fault for row in rows}, key=lambda fault: (fault != FIRST, fault)))
