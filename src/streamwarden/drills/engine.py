"""The drill engine: runs the steps of a drill, each of which may run in its own process.

    begin -> steady_state -> fault -> recovery -> verification -> heal -> report

A drill on a live stream has two steps before these: preflight and approval.

State passes only through the journal store. A step that is repeated after it finished changes nothing; one that was
killed continues where it stopped. Healing and the report always run. A healing that did not pass runs again when it is
repeated, also after the report, which is then written again.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streamwarden.drills import restored as savepoint
from streamwarden.drills.fault_order import Plan, draw
from streamwarden.drills.faults import Course
from streamwarden.drills.live import approval, preflight
from streamwarden.drills.live import fault as live_fault
from streamwarden.drills.live import heal as live_heal
from streamwarden.drills.live import recovery as live_recovery
from streamwarden.drills.live import steady_state as live_steady_state
from streamwarden.drills.live import verification as live_verification
from streamwarden.drills.live.approval import Answer, ask, record_answer
from streamwarden.drills.ports import Ports
from streamwarden.drills.recorder import RunRecorder
from streamwarden.drills.records.codec import encode
from streamwarden.drills.records.journal import DrillRun, DrillStatus, DrillStep, JournalRepository
from streamwarden.drills.records.sections import DrillTarget
from streamwarden.drills.records.types import ForkView
from streamwarden.drills.reporting.outcome import decide
from streamwarden.drills.reporting.report import build_report, document, markdown
from streamwarden.drills.runs import check_run_id, new_run_id, new_seed
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import RunProgress, RunState, StepOutcome, StepRecord
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.drills.steps.fault import fault
from streamwarden.drills.steps.heal import heal
from streamwarden.drills.steps.recovery import recovery
from streamwarden.drills.steps.steady_state import steady_state
from streamwarden.drills.steps.verification import verification
from streamwarden.errors import ConfigError, DrillAborted, DrillError, StoreError, StreamwardenError

Work = Callable[[StepContext], StepResult]

TARGETS: Final[Mapping[DrillTarget, Mapping[DrillStep, Work]]] = {
    DrillTarget.FORK: {
        DrillStep.STEADY_STATE: steady_state,
        DrillStep.FAULT: fault,
        DrillStep.RECOVERY: recovery,
        DrillStep.VERIFICATION: verification,
        DrillStep.HEAL: heal,
    },
    DrillTarget.PRODUCTION: {
        DrillStep.PREFLIGHT: preflight.preflight,
        DrillStep.APPROVAL: approval.approval,
        DrillStep.STEADY_STATE: live_steady_state.steady_state,
        DrillStep.FAULT: live_fault.fault,
        DrillStep.RECOVERY: live_recovery.recovery,
        DrillStep.VERIFICATION: live_verification.verification,
        DrillStep.HEAL: live_heal.heal,
    },
}
"""The report is the engine's own: it is the same for every target."""

RESTORED: Final[Mapping[DrillStep, Work]] = {
    DrillStep.STEADY_STATE: savepoint.steady_state,
    DrillStep.FAULT: savepoint.fault,
    DrillStep.RECOVERY: savepoint.recovery,
    DrillStep.VERIFICATION: savepoint.verification,
    DrillStep.HEAL: heal,
}
"""The steps of a drill that opens a savepoint."""


class Engine:
    """Runs drills.

    Args:
        drills: the valid drills by name.
        journals: where runs and entries are kept: the only memory between steps.
    """

    def __init__(self, drills: Mapping[str, DrillSpec], journals: JournalRepository, ports: Ports) -> None:
        self._drills = drills
        self._journals = journals
        self._ports = ports

    def begin(self, drill: str, run_id: str | None = None) -> str:
        """Open a run and return its id. If the run exists already, its id is returned and nothing new begins.

        Raises ConfigError for a drill that is not configured (a run that has begun no longer needs the file), and
        DrillError for an id that is not a safe path.
        """
        if run_id is not None and self._journals.get(check_run_id(run_id)) is not None:
            return run_id
        spec = self._drills.get(drill)
        if spec is None:
            raise ConfigError(
                f"there is no valid drill {drill!r}",
                expected=f"one of: {', '.join(sorted(self._drills)) or 'none is configured'}",
                where="config/drills",
                next_step="run `streamwarden validate`",
            )
        return self._open(spec, run_id)

    def begin_as(self, spec: DrillSpec) -> str:
        """Open a run of a drill that differs from its file, and return the run's id."""
        return self._open(spec, None)

    def replay(self, run_id: str) -> str:
        """Open a new run of the drill as it was when this run began, whatever its file says now, and with what that run
        had drawn; returns the new id.

        Raises DrillError if there is no such run, or this version cannot read its journal.
        """
        state = self._recorder(check_run_id(run_id)).state
        return self._open(state.drill, None, replays=run_id, plan=state.plan)

    def _open(
        self, spec: DrillSpec, run_id: str | None, *, replays: str | None = None, plan: Plan | None = None
    ) -> str:
        plan = plan or draw(spec.repeats, spec.seed, new_seed)
        now = self._ports.clock.now()
        run_id = new_run_id(spec.name, now) if run_id is None else run_id
        facts = {
            "drill": encode(spec),
            "plan": encode(plan),
            "versions": dict(self._ports.archive.versions(spec.stream)),
            "code": dict(self._ports.code(spec.stream)),
        }
        if replays is not None:
            facts["replays"] = replays
        self._journals.save(DrillRun(run_id=run_id, drill=spec.name, stream=spec.stream, started_at=now, facts=facts))
        return run_id

    def step(self, run_id: str, step: DrillStep, *, park: bool = True) -> DrillRun:
        """Do one step and return the run.

        A deviation of the stream is a result, not an exception: read `RunProgress.of(run).outcome(step)`. Raises
        StoreError if the journal cannot be written, DrillError if another process works on this run: both are worth a
        retry.

        Args:
            park: another process runs the next step (see StepContext.park).
        """
        with self._ports.archive.lock(run_id):
            recorder = self._recorder(check_run_id(run_id))
            if step not in recorder.spec.steps:  # of a DAG whose file has another target since
                return recorder.run
            if step is not DrillStep.REPORT and not _is_done(recorder.run, step):
                self._do(recorder, step, park)
            if (step is DrillStep.REPORT or recorder.run.ended_at is not None) and not _is_done(
                recorder.run, DrillStep.REPORT
            ):
                self._report(recorder)
            return recorder.run

    def ask(self, run_id: str) -> RunState | None:
        """Record that a person is asked now whether a live stream may be hit. None: there is nothing to ask, because
        the preflight did not pass, or an answer is recorded already."""
        with self._ports.archive.lock(run_id):
            recorder = self._recorder(check_run_id(run_id))
            step = DrillStep.APPROVAL
            if step not in recorder.spec.steps or _is_done(recorder.run, step):
                return None
            if _is_skipped(recorder, step):
                return None
            ask(recorder, self._ports.clock.now())
            return recorder.state

    def answer(self, run_id: str, answer: Answer | None) -> RunState:
        """Record what the person answered, None: no answer. The first answer counts."""
        with self._ports.archive.lock(run_id):
            recorder = self._recorder(check_run_id(run_id))
            if DrillStep.APPROVAL in recorder.spec.steps and not _is_done(recorder.run, DrillStep.APPROVAL):
                record_answer(recorder, answer)
            return recorder.state

    def fork(self, run_id: str) -> ForkView | None:
        """The run's fork; None: it has none so far. Raises ConfigError if this version cannot read its spec."""
        return self._recorder(run_id).fork

    def run(self, drill: str, run_id: str | None = None) -> DrillRun:
        """Do all steps in this process. Whatever happens, the fork is healed and the report is written.

        If this process is killed, the next run of the drill heals what it left.
        """
        run_id = self.begin(drill, run_id)
        with self._ports.archive.tenure(run_id) as ours:
            if not ours:
                raise DrillError(
                    "another process is working on this drill run", where=run_id, next_step="wait for it to end"
                )
            recorder = self._recorder(run_id)
            recorder.put(one_process=True)
            return self._run_all(drill, run_id)

    def _run_all(self, drill: str, run_id: str) -> DrillRun:
        try:
            self.heal_abandoned(drill)
            for step in self._recorder(run_id).spec.experiment:
                self.step(run_id, step, park=False)
        except BaseException as error:
            self._halt(run_id, error)
            if not isinstance(error, Exception):  # Ctrl-C and the like: heal, report, and let it through
                raise
        finally:
            try:
                self.step(run_id, DrillStep.HEAL)
            finally:
                final = self.step(run_id, DrillStep.REPORT)
        return final

    def heal_abandoned(self, drill: str, *, running: str | None = None) -> Sequence[DrillRun]:
        """Heal and report the abandoned runs of this drill: those whose one process was killed, those whose remaining
        steps no process will run, and those that ended unhealed. Returns them as they are now.

        Raises StoreError, or DrillError if another process works on one of them: both are worth a retry.

        Args:
            running: the one run with a process for each step that continues; the others of that kind are abandoned.
                None: unknown, so none of that kind is touched before it has ended.
        """
        healed = []
        for run in self._journals.recent(drill=drill):
            if run.ended_at is not None:
                abandoned = not _is_done(run, DrillStep.HEAL)
            else:
                abandoned = running is not None or RunProgress.of(run).one_process
            if run.run_id == running or not abandoned:
                continue
            with self._ports.archive.tenure(run.run_id) as ours:
                if ours:
                    self.step(run.run_id, DrillStep.HEAL)
                    healed.append(self.step(run.run_id, DrillStep.REPORT))
        return healed

    def _do(self, recorder: RunRecorder, step: DrillStep, park: bool) -> None:
        if _is_skipped(recorder, step):
            return
        recorder.note(step, "began", f"step {step.value} began")
        result = self._work(recorder, step, park)
        recorder.finish_step(step, StepOutcome.PASSED if result.ok else StepOutcome.FAILED, result.message)

    def _work(self, recorder: RunRecorder, step: DrillStep, park: bool) -> StepResult:
        context = StepContext(recorder=recorder, ports=self._ports, park=park)
        try:
            return _steps(recorder.spec)[step](context)
        except StoreError:
            raise  # the journal could not be written: nothing is decided, a retry continues here
        except DrillAborted as error:
            recorder.halt(step, DrillStatus.ABORTED, str(error))
            return StepResult(ok=False, message=str(error))
        except StreamwardenError as error:
            reason = f"the step {step.value} broke: {error}"
            recorder.halt(step, DrillStatus.FAILED, reason)
            return StepResult(ok=False, message=reason)

    def _halt(self, run_id: str, error: BaseException) -> None:
        recorder = self._recorder(run_id)
        at = next(
            (step for step in recorder.spec.experiment if step not in recorder.state.steps), DrillStep.VERIFICATION
        )
        recorder.note(at, "traceback", "".join(traceback.format_exception(error)))
        recorder.halt(at, DrillStatus.FAILED, f"the step {at.value} broke: {type(error).__name__}: {error}")

    def _report(self, recorder: RunRecorder) -> None:
        outcome = decide(recorder.state)
        now = self._ports.clock.now()
        recorder.note(
            DrillStep.REPORT, "verdict", outcome.reason, status=outcome.status.value, deviated=outcome.deviated
        )
        ended_at = now if recorder.run.ended_at is None else recorder.run.ended_at
        run = replace(
            recorder.run, status=outcome.status, deviated=outcome.deviated, reason=outcome.reason, ended_at=ended_at
        )
        entries = self._journals.entries(run.run_id)
        report = markdown(build_report(run, entries))
        path = self._ports.archive.write(run.run_id, document(run, entries), report)
        passed = StepOutcome.PASSED if run.passed else StepOutcome.FAILED
        recorder.run = run
        recorder.put(
            journal=path,
            steps={
                **recorder.state.steps,
                DrillStep.REPORT: StepRecord(outcome=passed, message=outcome.reason, at=now),
            },
        )

    def _recorder(self, run_id: str) -> RunRecorder:
        return RunRecorder(run_id, self._journals, self._ports.clock, self._ports.specs)


def _steps(spec: DrillSpec) -> Mapping[DrillStep, Work]:
    restored = spec.target is DrillTarget.FORK and spec.course is Course.RESTORED
    return RESTORED if restored else TARGETS[spec.target]


def _is_done(run: DrillRun, step: DrillStep) -> bool:
    """Whether nothing is left to do. A run that has ended may only lack a healing that passed and the report of it."""
    outcome = RunProgress.of(run).outcome(step)
    if step is DrillStep.HEAL:
        return outcome is StepOutcome.PASSED
    return outcome is not None or (step is not DrillStep.REPORT and run.ended_at is not None)


def _is_skipped(recorder: RunRecorder, step: DrillStep) -> bool:
    """Skip the step if it must not run now."""
    obstacle = _obstacle(recorder, step)
    if obstacle is not None:
        recorder.note(step, "skipped", obstacle)
        recorder.finish_step(step, StepOutcome.SKIPPED, obstacle)
    return obstacle is not None


def _obstacle(recorder: RunRecorder, step: DrillStep) -> str | None:
    """Why this step must not run now; None if it may."""
    if step is DrillStep.HEAL:
        return None
    halt = recorder.state.halt
    if halt is not None:
        return f"skipped: the drill was {halt.status.value} in the step {halt.step.value}"
    experiment = recorder.spec.experiment
    position = experiment.index(step)
    if position == 0:
        return None
    before = experiment[position - 1]
    outcome = recorder.state.outcome(before)
    late = step is DrillStep.VERIFICATION and outcome is StepOutcome.FAILED  # a late recovery is verified too
    return None if late or outcome is StepOutcome.PASSED else f"skipped: the step {before.value} did not pass"
