"""The course of a drill: a handful of moments, each with its distance from the fault. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from streamwarden.drills.faults.base import ended_at
from streamwarden.drills.records.journal import DrillRun, DrillStep
from streamwarden.drills.state import Approval, FaultResult, RunState, SteadyState, StepOutcome


class Phase(StrEnum):
    """How the stream stands between two moments."""

    UP = "up"
    DOWN = "down"
    CATCHING_UP = "catching-up"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at Unix time `at`.

    Args:
        since: seconds after the newest fault before it, of what came before the first fault: before that one. None if
            no fault landed.
        label: two or three words for a drawing; empty: it is not drawn.
        phase: what begins with it; None: the phase continues.
    """

    at: float
    text: str
    since: float | None = None
    label: str = ""
    phase: Phase | None = None


def timeline(run: DrillRun, state: RunState) -> tuple[Moment, ...]:
    """The moments, oldest first."""
    struck = [result.landed.moment for result in state.results if result.landed is not None]
    several = len(state.plan.order) > 1
    of_faults = [moment for result in state.results for moment in _of_fault(result, several)]
    end = _steady(state.steady_after, "after the recovery", "steady again")
    unordered = [*_before(run, state), *of_faults, *end, *_caught_up(state), *_steps(state), *_verdict(run)]
    moments = sorted(unordered, key=lambda moment: moment.at)
    return tuple(replace(moment, since=_since(moment.at, struck)) for moment in moments)


def _since(at: float, struck: Sequence[float]) -> float | None:
    return at - max((moment for moment in struck if moment <= at), default=struck[0]) if struck else None


def _before(run: DrillRun, state: RunState) -> Iterator[Moment]:
    fork = state.fork
    copied = "" if fork is None else f": a copy of the stream was made, with {fork.work} to read"
    yield Moment(run.started_at, f"The drill began{copied}.", label="drill began", phase=Phase.UP)
    yield from _asked(state.approval)
    yield from _steady(state.steady_before, "before the fault", "steady state")


def _asked(approval: Approval | None) -> Iterator[Moment]:
    if approval is None:
        return
    yield Moment(approval.asked_at, "A person was asked whether the live stream may be hit.", label="person asked")
    if approval.at is not None:
        answer = "approved it" if approval.granted else "did not approve it"
        yield Moment(approval.at, f"{approval.by} {answer}.", label="approved" if approval.granted else "not approved")


def _of_fault(result: FaultResult, several: bool) -> Iterator[Moment]:
    if result.landed is not None:
        struck, over = result.landed.moment, ended_at(result.landed)
        label = f"fault {result.spec.kind}" if several else "fault"
        yield Moment(struck, f"The fault: {result.landed.message}.", label=label, phase=Phase.DOWN)
        if over is not None and over >= struck:
            yield Moment(over, "The end of the driver was detected.", label="end detected")
    recovery = result.recovery
    if recovery is None:
        return
    if result.refusal is not None:
        text = "The stream had refused to go on. It was launched with the documented remediation."
        yield Moment(recovery.launched_at, text, label="launched, remedied")
    elif recovery.restarted:
        yield Moment(recovery.launched_at, "The stream was launched again.", label="launched again")
    if recovery.first_commit_at is not None:
        text = f"The stream was back: it committed batch {recovery.first_new_batch}."
        yield Moment(recovery.first_commit_at, text, label="first new commit", phase=Phase.CATCHING_UP)


def _steady(steady: SteadyState | None, when: str, label: str) -> Iterator[Moment]:
    if steady is not None:
        held = "held" if steady.holds else "did not hold"
        shown = label if steady.holds else f"no {label}"
        yield Moment(steady.at, f"The steady state {held} {when}: {steady.message}.", label=shown)


def _steps(state: RunState) -> Iterator[Moment]:
    """The ends of the steps that nothing above stands for, and every step that failed."""
    for step, record in state.steps.items():
        if record.outcome is StepOutcome.FAILED and step is not DrillStep.REPORT:
            text = f"The step {step.value} failed: {record.message}."
            yield Moment(record.at, text, label=f"{step.value.replace('_', ' ')} failed")
        elif record.outcome is StepOutcome.PASSED and step is DrillStep.VERIFICATION:
            yield Moment(record.at, f"The output was compared: {record.message}.", label="output compared")
        elif record.outcome is StepOutcome.PASSED and step is DrillStep.HEAL:
            yield Moment(record.at, f"The drill was healed: {record.message}.")


def _caught_up(state: RunState) -> Iterator[Moment]:
    recovery, record = state.recovery, state.steps.get(DrillStep.RECOVERY)
    if recovery is not None and recovery.completed and record is not None:
        text = f"The stream had caught up: {recovery.message}."
        yield Moment(record.at, text, label="caught up", phase=Phase.ENDED)


def _verdict(run: DrillRun) -> Iterator[Moment]:
    if run.ended_at is not None:
        yield Moment(run.ended_at, "The drill ended with its verdict.", label="verdict", phase=Phase.ENDED)
