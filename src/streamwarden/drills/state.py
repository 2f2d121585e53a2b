"""The state of a drill run, which passes from step to step through the journal store. `RunState` is its typed view."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, Self

from streamwarden.drills.fault_order import Plan
from streamwarden.drills.faults import AnyFault, Fault, Proof
from streamwarden.drills.records.audited import AuditRecord
from streamwarden.drills.records.codec import Writers, decode
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep
from streamwarden.drills.records.outside import Outside
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import BatchFact, ForkRecord, Judgement
from streamwarden.drills.spec import DrillSpec
from streamwarden.errors import DrillError
from streamwarden.lifecycle.recovery import RecoveryPrediction
from streamwarden.verification.reconciliation import Reconciliation


class StepOutcome(StrEnum):
    """The result of a step. `FAILED`: it halted the drill or found a deviation."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step that ended, at Unix seconds."""

    outcome: StepOutcome
    message: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """One observation of the hypothesis.

    Args:
        committed: the fork's newest committed batch; at: Unix seconds.
        verdicts: of the named checks, as JSON.
    """

    holds: bool
    message: str
    committed: int | None
    at: float
    verdicts: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncedStrike:
    """A strike that the step was about to make.

    Args:
        moment: Unix seconds at which it began; None: the fault did not record it.
    """

    driver_id: str
    attempt: int = 1
    moment: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFault(Proof):
    """The proof of the fault that landed, at which attempt."""

    kind: str
    attempts: int

    @classmethod
    def of(cls, proof: Proof, kind: str, attempts: int) -> Self:
        values: dict[str, Any] = {item.name: getattr(proof, item.name) for item in fields(proof)}
        return cls(**values, kind=kind, attempts=attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Whether the stream refused to continue after the fault, with every party reporting why.

    Args:
        message: what was reported, or everything that was not.
        seconds: from the driver's launch to its end; None: it did not end.
        error_class, next_step: of the driver's exit.
        check: reason and evidence of the check that has to report the fault.
    """

    holds: bool
    driver_id: str
    message: str
    seconds: float | None = None
    error_class: str | None = None
    next_step: str | None = None
    check: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediationPlan:
    """The fork as the documented remediation lets it continue, and the first batch that it has to commit."""

    fork: ForkRecord
    first_new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The measured recovery.

    Args:
        first_commit_at: Unix seconds; None: the stream never came back.
        recovery_seconds: what a user waits, with noticing and scheduling.
        restart_seconds: what is predicted: from the launch, or from the fault if the struck driver continues.
        restarted: another driver than the struck one committed the first new batch.
        completed: the fork came to the end of its input.
    """

    driver_id: str
    launched_at: float
    first_new_batch: int
    first_commit_at: float | None
    recovery_seconds: float | None
    restart_seconds: float | None
    restarted: bool = True
    completed: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The first check of a drill on a live stream passed.

    Args:
        last_on_fork: the last verdict of the same fault on a fork, in words.
    """

    last_on_fork: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person was asked whether the live stream may be hit. Times are Unix seconds.

    Args:
        until: an answer that comes later does not count.
        granted: None: nobody has answered.
        by: who answered, as Airflow names the user; at: when.
    """

    asked_at: float
    until: float
    granted: bool | None = None
    by: str | None = None
    at: float | None = None

    @property
    def declined(self) -> bool:
        """A person did not want the drill, or nobody wanted it in time."""
        return self.granted is not True


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """One fault of a drill and what came of it. The fields are those of `RunState`.

    Args:
        landed: None: it did not land so far, for the reasons in `misses`.
    """

    spec: AnyFault
    misses: tuple[str, ...] = ()
    landed: LandedFault | None = None
    refusal: Refusal | None = None
    predicted: tuple[RecoveryPrediction, ...] = ()
    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """Leftovers of healing (`clean`: none).

    Args:
        kept: the drill asked to keep input and state.
        removed: scratch that was removed.
    """

    clean: bool
    message: str
    kept: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Why the experiment ended early, and in which step."""

    status: DrillStatus
    step: DrillStep
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run has come.

    Args:
        one_process: one process does all steps, so that its death abandons the run.
        steps: the steps that ended.
    """

    one_process: bool = False
    steps: Mapping[DrillStep, StepRecord] = field(default_factory=dict)

    @classmethod
    def of(cls, run: DrillRun) -> Self:
        """The view of a stored run. Raises DrillError if its facts are not those of a drill."""
        try:
            state: Self = decode(cls, run.facts)
        except (KeyError, TypeError, ValueError) as error:
            raise DrillError(
                f"the journal of the run cannot be read: {error}",
                expected="facts as this version of Streamwarden, or an earlier one, wrote them",
                where=f"drill run {run.run_id}",
                next_step="read the run's journal.json, or run the drill again",
            ) from error
        return state

    def outcome(self, step: DrillStep) -> StepOutcome | None:
        """Outcome of a step; None: it has not ended."""
        record = self.steps.get(step)
        return None if record is None else record.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState(RunProgress):
    """Everything that is recorded about a run. A field that is None or empty has no value yet.

    Args:
        drill: the drill as it was when the run began: an edited YAML file changes nothing.
        versions: what the verdict is reached with.
        code: SHA-256 of the job and of each module that it imports, by its path, when the run began.
        replays: the run whose drill this one repeats.
        live: the live stream, of a drill that breaks it; then there is no `fork`.
        audit_before, audit: of the live stream, before and after the fault.
        plan: the order of the faults; earlier: those that are over. `strike`, `misses`, `fault`, `refusal`,
            `remediation`, `predicted` and `recovery` are of the fault whose turn it is; at the end, of the last one.
        strike: the newest one; undo_due: it may have left something in place.
        misses: why earlier strikes did not land.
        reconciliation: with what the job's own oracle expects; if the twin judges alone, with the twin.
        outside: what the job did outside of the drill's folder, in the fork and in its twins.
        not_exercised: functions that got no batch again after they had written it.
        journal: path of journal.json.
    """

    drill: DrillSpec
    versions: Mapping[str, str] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    replays: str | None = None
    plan: Plan = field(default_factory=Plan)
    earlier: tuple[FaultResult, ...] = ()
    fork: ForkRecord | None = None
    preflight: Preflight | None = None
    approval: Approval | None = None
    live: ForkRecord | None = None
    audit_before: AuditRecord | None = None
    steady_before: SteadyState | None = None
    steady_after: SteadyState | None = None
    strike: AnnouncedStrike | None = None
    undo_due: bool = False
    misses: tuple[str, ...] = ()
    fault: LandedFault | None = None
    refusal: Refusal | None = None
    remediation: RemediationPlan | None = None
    predicted: tuple[RecoveryPrediction, ...] = ()
    recovery: Recovery | None = None
    batches: tuple[BatchFact, ...] = ()
    reconciliation: Reconciliation | None = None
    twin: TwinReport | None = None
    audit: AuditRecord | None = None
    outside: Outside = field(default_factory=Outside)
    not_exercised: tuple[NotExercised, ...] = ()
    judgement: Judgement | None = None
    healing: Healing | None = None
    halt: Halt | None = None
    journal: str | None = None

    @property
    def declined(self) -> bool:
        """The drill ended because no person approved it."""
        return self.halt is not None and self.approval is not None and self.approval.declined

    @property
    def step(self) -> DrillStep | None:
        """The step whose turn it is: the first that has not ended. None: each has."""
        return next((step for step in self.drill.steps if step not in self.steps), None)

    @property
    def fault_specs(self) -> tuple[Fault, ...]:
        """The faults in the order in which they strike."""
        return tuple(self.drill.sequence[index] for index in self.plan.order)

    @property
    def fault_spec(self) -> Fault:
        """The fault whose turn it is."""
        return self.fault_specs[len(self.earlier)]

    @property
    def share(self) -> float:
        """The instant of a batch that was drawn for the next strike; an earlier version drew none."""
        return self.plan.shares[len(self.earlier)] if self.plan.shares else 0.0

    @property
    def is_last(self) -> bool:
        """Whether no other fault strikes after this one."""
        return len(self.earlier) + 1 == len(self.plan.order)

    @property
    def results(self) -> tuple[FaultResult, ...]:
        """The result of each fault so far, in the order in which they struck; the newest is the current fault."""
        newest = FaultResult(
            spec=self.fault_spec,
            misses=self.misses,
            landed=self.fault,
            refusal=self.refusal,
            predicted=self.predicted,
            recovery=self.recovery,
        )
        return (*self.earlier, newest)

    @property
    def landed(self) -> LandedFault:
        """The fault that landed. Raises DrillError if none did."""
        if self.fault is None:
            raise DrillError("no fault has landed", where=self.drill.name, next_step="run the step fault first")
        return self.fault


def was_declined(run: DrillRun) -> bool:
    """Whether the run ended because no person approved it: a decision, and no failure. A run that this version cannot
    read was not."""
    try:
        return RunState.of(run).declined
    except DrillError:
        return False


WRITERS: Final[Writers] = {
    RecoveryPrediction: lambda prediction: {**asdict(prediction), "seconds": prediction.seconds},
    Reconciliation: Reconciliation.to_dict,
}
"""The types whose JSON has more than their fields, or less."""
