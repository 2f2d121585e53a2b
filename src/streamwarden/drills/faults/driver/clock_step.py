"""clock_step: the clock of the driver's host jumps, and is set right when a batch has run on the wrong time.

So does a host that was suspended, or whose time was wrong until NTP stepped it. Timers, TTLs and windows in processing
time go by the time that Spark writes into the plan of each batch. There are two steps: to the wrong time, and back.
Only the time of day steps; the monotonic clock, by which programs wait, goes on, as after a step of a host's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Final

from streamwarden.drills.faults.base import (
    Aftermath,
    Description,
    Fault,
    FaultContext,
    LiveUse,
    Proof,
    Strike,
    prove_as_observed,
)
from streamwarden.drills.records.sections import SHORTEST_STEP, FaultKind, FaultSpec
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_duration

STEP: Final = 3600.0
"""Seconds of the first step, forth, if the drill's file does not say."""

POLL: Final = 0.1


@dataclass(frozen=True, slots=True)
class ClockStep(Fault):
    """Proof: the time in the plan of a batch differed by the step from the time at which the plan was written, which
    the storage's own clock says; and that batch was committed. The recovery is measured from the moment at which the
    clock is right again."""

    aftermath: ClassVar[Aftermath] = Aftermath.MAY_END
    event: ClassVar[str] = "a jump of its clock"
    takes: ClassVar[tuple[str, ...]] = ("by",)
    steps_clock: ClassVar[bool] = True
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="a driver that runs cannot be given another clock")
    description: ClassVar[Description] = Description(
        does=f"Steps the clock of the driver's processes by `fault.by`, {format_duration(STEP)} forth by default, with "
        "libfaketime. When a batch that was planned at the wrong time is committed, steps the clock back.",
        promise="Spark takes the time of a batch from the driver's clock and keeps it in the plan. Event time does not "
        "depend on it. Timers, TTLs and windows in processing time do: a step forth lets them expire early, a step "
        "back late. No row is lost or doubled.",
        seen="An hour ahead, and an hour behind: the driver went on, and the output was right. With the step ahead a "
        "TTL of ten minutes was over at once. Not in a drill, whose fork runs its batches without a pause: a query "
        "with an interval of one second, whose clock stepped 300 s back, ran no batch in the 100 s for which it was "
        "watched.",
        next_step="After a step back restart a stream whose trigger has an interval: Spark waits until the clock "
        "shows the time of the next batch again. Let NTP slew the clocks of the hosts instead of stepping them.",
    )

    def variant(self, fault: FaultSpec) -> str:
        """How far, also if the file does not say it."""
        by = _by(fault)
        return f"by: {'-' if by < 0 else ''}{format_duration(abs(by))}"

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """Rows that are made by the clock would be other rows after a step."""
        if declared.source.GENERATED:
            raise DrillAborted(
                f"{fault.kind} is not applicable: Spark makes the rows of {stream} by the clock that would step",
                expected="a source that holds its input",
                where=f"the drill of {stream}",
                next_step=f"drill this stream with `{FaultKind.KILL_DRIVER}`",
            )

    def undo(self, context: FaultContext) -> str | None:
        return "the driver's clock is right again" if context.driver_clock.reset(context.run_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        by = _by(context.spec)
        before = context.checkpoint.position(context.fork)
        context.mark()
        context.driver_clock.step(context.run_id, by)
        try:
            batch = _await_stepped(context, by, after=before.planned, deadline=deadline)
        finally:
            context.driver_clock.reset(context.run_id)
        after, moment = context.checkpoint.position(context.fork), context.clock.now()
        if batch is None:
            return Strike(moment=None, message="the clock stepped, but no batch was planned on it and committed")
        times = context.checkpoint.plan_times(context.fork, batch)
        return Strike(
            moment=moment,
            message=f"the clock of the driver stepped {_words(by)}",
            batch=batch,
            evidence={
                "planned": after.planned,
                "committed": after.committed,
                "by": by,
                "stepped_batch": batch,
                "difference": None if times is None else times.difference,
            },
        )

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """A miss may have let a batch run on the wrong time too."""
        return replace(prove_as_observed(context, strike, _judge), clock_step=_by(context.spec))


def _by(fault: FaultSpec) -> Seconds:
    return STEP if fault.by is None else fault.by


def _await_stepped(context: FaultContext, by: Seconds, *, after: int | None, deadline: float) -> int | None:
    """Wait until a batch that was planned at the wrong time is committed; None: the driver ended, or time is up."""

    def stepped() -> int | None:
        newest = context.checkpoint.position(context.fork).committed
        fresh = newest is not None and newest > (-1 if after is None else after)
        return newest if fresh and newest is not None and _is_off(context, newest, by) else None

    def probe() -> bool | None:
        return True if stepped() is not None or not context.observe().alive else None

    wait_for(probe, clock=context.clock, deadline=deadline, every=POLL)
    return stepped()


def _is_off(context: FaultContext, batch: int, by: Seconds) -> bool:
    times = context.checkpoint.plan_times(context.fork, batch)
    return times is not None and _shows(times.difference, by)


def _shows(difference: Seconds, by: Seconds) -> bool:
    """Whether this difference of two clocks is that step: their own, and a slow write, are shorter than the half of the
    shortest step."""
    return abs(difference - by) < SHORTEST_STEP / 2


def _judge(strike: Strike) -> tuple[bool, str]:
    seen = strike.evidence
    difference = seen["difference"]
    if difference is None or not _shows(difference, seen["by"]):
        return False, f"{strike.message}, but the plan of batch {strike.batch} does not show it"
    return True, f"{strike.message}: batch {strike.batch} was planned {_words(difference)} and committed; then back"


def _words(step: Seconds) -> str:
    return f"{format_duration(abs(step))} {'ahead' if step > 0 else 'behind'}"
