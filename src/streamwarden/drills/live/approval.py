"""Ask a person, and record the answer. Airflow carries both; the engine decides what an answer is worth."""

from dataclasses import dataclass, replace

from streamwarden.drills.recorder import RunRecorder
from streamwarden.drills.records.journal import DrillStatus, DrillStep
from streamwarden.drills.spec import DrillSpec
from streamwarden.drills.state import Approval, RunState, StepOutcome
from streamwarden.drills.steps import StepContext, StepResult
from streamwarden.errors import DrillAborted


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a person at Unix time `at`. `by`: the user, as Airflow names the account."""

    approved: bool
    by: str
    at: float


def approval(context: StepContext) -> StepResult:
    """Raises DrillAborted: no approval was requested. `ask` and `record_answer` end the step otherwise."""
    spec = context.recorder.spec
    raise DrillAborted(
        f"nobody approved the drill {spec.name}, which hits the live stream {spec.stream}",
        expected="the approval of a person, given in Airflow",
        where=f"drill {spec.name}",
        next_step=spec.how_to_run,
    )


def ask(recorder: RunRecorder, now: float) -> Approval:
    """Record that a person is asked at `now`; a repeated question has the deadline of the first one."""
    asked = recorder.state.approval
    if asked is None:
        asked = Approval(asked_at=now, until=now + recorder.spec.waits)
        recorder.put(approval=asked)
        recorder.note(DrillStep.APPROVAL, "asked", "a person was asked for approval", until=asked.until)
    return asked


def record_answer(recorder: RunRecorder, answer: Answer | None) -> None:
    """Record the answer, which ends the step; None: no answer. Anything but an approval in time aborts."""
    asked = recorder.state.approval
    if asked is None:  # the answer belongs to no question of this run
        answer, asked = None, Approval(asked_at=recorder.run.started_at, until=recorder.run.started_at)
    late = answer is not None and answer.at > asked.until
    granted = answer.approved and not late if answer is not None else None
    by, at = (None, None) if answer is None else (answer.by, answer.at)
    recorder.put(approval=replace(asked, granted=granted, by=by, at=at))
    message = _message(answer, late=late)
    if granted:
        recorder.note(DrillStep.APPROVAL, "approved", message, by=by, at=at)
        recorder.finish_step(DrillStep.APPROVAL, StepOutcome.PASSED, message)
        return
    recorder.halt(DrillStep.APPROVAL, DrillStatus.ABORTED, message)
    recorder.finish_step(DrillStep.APPROVAL, StepOutcome.FAILED, message)


def _message(answer: Answer | None, *, late: bool) -> str:
    if answer is None:
        return "nobody approved the drill in time"
    if late:
        return f"{answer.by} answered too late"
    return f"{answer.by} {'approved' if answer.approved else 'rejected'} the drill"


def subject(drill: DrillSpec) -> str:
    """The request for approval in one line."""
    return f"Hit the live stream {drill.stream} with {drill.breaks}?"


def body(state: RunState) -> str:
    """The request in Markdown: what will happen, what is known of it, and until when an answer counts."""
    drill = state.drill
    (given,) = drill.sequence
    fault = given.chosen
    last_on_fork = state.preflight.last_on_fork if state.preflight is not None else "unknown"
    lines = [
        f"The drill **{drill.name}** hits the live stream **{drill.stream}** itself, not a copy of it.",
        f"- **Fault**: {given.kind}{given.detail}. {fault.description.does}",
        f"- **Why it may**: {fault.live.reason}.",
        f"- **What follows**: supervision starts the stream again if its driver ends. The first new batch is expected "
        f"within {drill.recovery.target:.0f} s. Nothing is deleted, and an audit checks the output before and after.",
        f"- **The same fault on a fork**: {last_on_fork}.",
    ]
    if drill.production is not None and state.approval is not None:
        hours = drill.production.allowed_hours
        lines += [
            f"- **Allowed hours**: {hours}. After an approval outside of them the drill is aborted.",
            f"- **An answer counts until**: {hours.clock(state.approval.until)}. Without one the drill is aborted.",
        ]
    return "\n\n".join([lines[0], "\n".join(lines[1:])]) + "\n"
