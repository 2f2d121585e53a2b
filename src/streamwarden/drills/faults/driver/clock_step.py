"""clock_step: the clock of the driver's host jumps, and is set right when a batch has run on the wrong time.

So does a host that was suspended, or whose time was wrong until NTP stepped it. Timers, TTLs and windows in processing
time go by the time that Spark writes into the plan of each batch. There are two steps: to the wrong time, and back.
Only the time of day steps; the monotonic clock, by which programs wait, goes on, as after a step of a host's clock.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

from streamwarden.clusters import manager_of
from streamwarden.drills.faults.base import (
    Description,
    ExpectedEnd,
    FaultContext,
    LiveUse,
    ObservedFault,
    Proof,
    Strike,
)
from streamwarden.drills.ports import Port, Ports
from streamwarden.drills.records.sections import require
from streamwarden.stream.spark import DeployMode
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, SignedSeconds, format_duration

STEP: Final = 3600.0
"""Seconds of the first step, forth, if the drill's file does not say."""

SHORTEST_STEP: Final = 60.0
"""Seconds. A step has to be longer than what lies between the planning of a batch and the writing of its plan."""

POLL: Final = 0.1


class DriverClock(Protocol):
    """The clock that the drivers of a run's fork see. Only the time of day steps; waits and timers go on."""

    def require(self) -> None:
        """Raises DrillAborted if no clock of a driver can be stepped on this host."""

    def provide(self, run_id: str) -> None:
        """Give the drivers that are started from now on this clock, which shows the host's time until it steps."""

    def step(self, run_id: str, by: Seconds) -> None:
        """Let it differ from the host's clock by that many seconds. The drivers notice within a second."""

    def reset(self, run_id: str) -> bool:
        """Let it show the host's time again; False: it does. May run again."""

    def remove(self, run_id: str) -> None:
        """Free what the clock takes of the host, once no driver of the run is left; may run again, and for a run
        without such a clock."""


DRIVER_CLOCK: Final = Port[DriverClock]("the drivers' clock")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(ObservedFault):
    """Proof: the time in the plan of a batch differed by the step from the time at which the plan was written, which
    the storage's own clock says; and that batch was committed. The recovery is measured from the moment at which the
    clock is right again."""

    kind: str = "clock_step"
    by: SignedSeconds | None = None
    """how far the clock steps, a minute at least, such as `1h` or, back, `-1h`; null: 1 h"""
    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.MAY_END
    event: ClassVar[str] = "a jump of its clock"
    proof: ClassVar[str] = "The time in the plan of that batch differs by the step from the time of its file."
    recovery: ClassVar[str] = "The first batch after the clock is right again."
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

    def __post_init__(self) -> None:
        ObservedFault.__post_init__(self)
        require(abs(self.size) >= SHORTEST_STEP, "by", self.by, "a minute at least, forth or back")

    @property
    def size(self) -> Seconds:
        """Seconds of the first step."""
        return STEP if self.by is None else self.by

    @property
    def variant(self) -> str:
        """How far, also if the file does not say it."""
        return f"by: {'-' if self.size < 0 else ''}{format_duration(abs(self.size))}"

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Rows that are made by the clock would be other rows after a step. A clock is one host's."""
        if declared.spark.deploy_mode is DeployMode.CLUSTER and manager_of(declared.spark.master).drills_in_cluster:
            raise self.not_applicable(
                stream,
                f"the driver of a fork of {stream} runs in its cluster, on any host",
                expected="a driver on the host on which the drill runs",
                next_step="drill this stream with `kill_driver`",
            )
        if declared.source.GENERATED:
            raise self.not_applicable(
                stream,
                f"Spark makes the rows of {stream} by the clock that would step",
                expected="a source that holds its input",
                next_step="drill this stream with `kill_driver`",
            )

    def require_host(self, ports: Ports) -> None:
        ports[DRIVER_CLOCK].require()

    def prepare(self, run_id: str, ports: Ports) -> None:
        ports[DRIVER_CLOCK].provide(run_id)

    def release(self, run_id: str, ports: Ports) -> None:
        ports[DRIVER_CLOCK].remove(run_id)

    def undo(self, context: FaultContext) -> str | None:
        return "the driver's clock is right again" if context.ports[DRIVER_CLOCK].reset(context.run_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        by = self.size
        before = context.ports.checkpoint.position(context.fork)
        context.mark()
        context.ports[DRIVER_CLOCK].step(context.run_id, by)
        try:
            batch = _await_stepped(context, by, after=before.planned, deadline=deadline)
        finally:
            context.ports[DRIVER_CLOCK].reset(context.run_id)
        after, moment = context.ports.checkpoint.position(context.fork), context.ports.clock.now()
        if batch is None:
            return Strike(moment=None, message="the clock stepped, but no batch was planned on it and committed")
        times = context.ports.checkpoint.plan_times(context.fork, batch)
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
        return replace(ObservedFault.prove(self, context, strike), clock_step=self.size)

    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        difference = strike.evidence["difference"]
        if difference is None or not _shows(difference, strike.evidence["by"]):
            return False, f"{strike.message}, but the plan of batch {strike.batch} does not show it"
        return True, f"{strike.message}: batch {strike.batch} was planned {_words(difference)} and committed; then back"


def _await_stepped(context: FaultContext, by: Seconds, *, after: int | None, deadline: float) -> int | None:
    """Wait until a batch that was planned at the wrong time is committed; None: the driver ended, or time is up."""

    def stepped() -> int | None:
        newest = context.ports.checkpoint.position(context.fork).committed
        fresh = newest is not None and newest > (-1 if after is None else after)
        return newest if fresh and newest is not None and _is_off(context, newest, by) else None

    context.wait_until(lambda: stepped() is not None or not context.observe().alive, deadline=deadline, every=POLL)
    return stepped()


def _is_off(context: FaultContext, batch: int, by: Seconds) -> bool:
    times = context.ports.checkpoint.plan_times(context.fork, batch)
    return times is not None and _shows(times.difference, by)


def _shows(difference: Seconds, by: Seconds) -> bool:
    """Whether this difference of two clocks is that step: their own, and a slow write, are shorter than the half of the
    shortest step."""
    return abs(difference - by) < SHORTEST_STEP / 2


def _words(step: Seconds) -> str:
    return f"{format_duration(abs(step))} {'ahead' if step > 0 else 'behind'}"
