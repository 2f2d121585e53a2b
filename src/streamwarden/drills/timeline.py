"""The course of a drill: a handful of moments, each with its distance from the fault. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from streamwarden.drills.journal import DrillRun, DrillStep
from streamwarden.drills.state import Approval, FaultResult, RunState, SteadyState, StepOutcome


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at Unix time `at`; `since`: seconds after the newest fault before it, of what came before
    the first fault: before that one. None if no fault landed."""

    at: float
    text: str
    since: float | None = None


def timeline(run: DrillRun, state: RunState) -> tuple[Moment, ...]:
    """The moments, oldest first."""
    struck = [result.landed.moment for result in state.results if result.landed is not None]
    of_faults = [moment for result in state.results for moment in _of_fault(result)]
    end = _steady(state.steady_after, "after the recovery")
    moments = sorted([*_before(run, state), *of_faults, *end, *_steps(state)], key=lambda moment: moment[0])
    return tuple(Moment(at, text, _since(at, struck)) for at, text in moments)


def _since(at: float, struck: Sequence[float]) -> float | None:
    return at - max((each for each in struck if each <= at), default=struck[0]) if struck else None


def _before(run: DrillRun, state: RunState) -> Iterator[tuple[float, str]]:
    fork = state.fork
    copied = "" if fork is None else f": a copy of the stream was made, with {fork.work} to read"
    yield run.started_at, f"The drill began{copied}."
    yield from _asked(state.approval)
    yield from _steady(state.steady_before, "before the fault")


def _asked(approval: Approval | None) -> Iterator[tuple[float, str]]:
    if approval is None:
        return
    yield approval.asked_at, "A person was asked whether the live stream may be hit."
    if approval.at is not None:
        yield approval.at, f"{approval.by} {'approved it' if approval.granted else 'did not approve it'}."


def _of_fault(result: FaultResult) -> Iterator[tuple[float, str]]:
    if result.landed is not None:
        yield result.landed.moment, f"The fault: {result.landed.message}."
    recovery = result.recovery
    if recovery is None:
        return
    if result.refusal is not None:
        yield recovery.launched_at, "The stream had refused to go on. It was launched with the documented remediation."
    elif recovery.restarted:
        yield recovery.launched_at, "The stream was launched again."
    if recovery.first_commit_at is not None:
        yield recovery.first_commit_at, f"The stream was back: it committed batch {recovery.first_new_batch}."


def _steady(steady: SteadyState | None, when: str) -> Iterator[tuple[float, str]]:
    if steady is not None:
        held = "held" if steady.holds else "did not hold"
        yield steady.at, f"The steady state {held} {when}: {steady.message}."


def _steps(state: RunState) -> Iterator[tuple[float, str]]:
    """The ends of the steps that nothing above stands for, and every step that failed."""
    shown = {DrillStep.VERIFICATION: "The output was compared", DrillStep.HEAL: "The drill was healed"}
    for step, record in state.steps.items():
        if record.outcome is StepOutcome.FAILED and step is not DrillStep.REPORT:
            yield record.at, f"The step {step.value} failed: {record.message}."
        elif record.outcome is StepOutcome.PASSED and step in shown:
            yield record.at, f"{shown[step]}: {record.message}."
