"""kill_driver: SIGKILL while a batch is running, between `offsets/N` and `commits/N`: at an instant that is drawn from
the whole batch, or at a named moment.

A moment may last only some milliseconds. So the driver is first stopped (SIGSTOP) as soon as the instant has come, what
it has written is read while it is paused, and only a driver that stands where it should is killed.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import ClassVar, Final, Literal

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.drills.faults.base import (
    MOST_ATTEMPTS,
    Description,
    ExpectedEnd,
    Fault,
    FaultContext,
    LiveUse,
    Proof,
    Strike,
    require_this_host,
)
from streamwarden.drills.faults.driver.batch_instants import Aim
from streamwarden.drills.records.phases import BatchCourse, BatchPhase, StruckBatch, usual_length
from streamwarden.drills.records.sections import require
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import OutputMode, StreamSpec


class KillMoment(StrEnum):
    """When in a batch `kill_driver` strikes, in the order in which Spark writes: after the named files of the batch,
    and before those of the next moment."""

    AFTER_OFFSETS = "after_offsets"  # the plan, offsets/N
    AFTER_STATE = "after_state"  # a state file of version N+1
    AFTER_FILES = "after_files"  # a whole data file of the sink
    AFTER_MANIFEST = "after_manifest"  # the sink's manifest entry; then comes commits/N
    AFTER_HANDOVER = "after_handover"  # a function of foreachBatch has returned, or raised after its first write


POLL = 0.003
"""Seconds between two reads of the logs: the window is some hundred milliseconds wide."""

OBSERVE_EVERY = 0.5
"""Seconds between two checks of the process, which cost more than reading the logs."""

FITTING: Final = {"database": "kill_after_database_commit", "broker": "kill_after_topic_write"}
"""What serves a sink -> the fault that strikes between the sink's write and Spark's commit."""

_OF_LIST: Final = (KillMoment.AFTER_FILES, KillMoment.AFTER_MANIFEST)

_AGAIN: Final = "The batch runs again from the same plan. "

_MOMENTS: Final[Mapping[str, Description]] = {
    KillMoment.AFTER_OFFSETS: Description(
        does="Kills the driver when `offsets/N` is written and neither the state nor the sink has anything of batch N.",
        promise=f"{_AGAIN}Nothing of it existed, so nothing can be there twice.",
        seen="The output was right.",
        next_step="Nothing: the restart cures it.",
    ),
    KillMoment.AFTER_STATE: Description(
        does="Kills the driver when a file of the state's version N+1 is written, and no whole data file of the sink.",
        promise=f"{_AGAIN}The restart loads version N of the state; the files of version N+1 are replaced.",
        seen="The output was right.",
        next_step="Nothing: the restart cures it.",
    ),
    KillMoment.AFTER_FILES: Description(
        does="Kills the driver when a data file of batch N is whole and the manifest has no entry of it.",
        promise=f"{_AGAIN}Its data files are written under new names. Only those are in the manifest.",
        seen="Through the manifest the output was right. A reader that lists the folder (`*.parquet`) got rows twice.",
        next_step="Read the output through its manifest, as Spark does.",
    ),
    KillMoment.AFTER_MANIFEST: Description(
        does="Kills the driver when the manifest has its entry of batch N and `commits/N` is absent.",
        promise=f"{_AGAIN}The sink finds the entry and writes nothing for batch N.",
        seen="The output was right.",
        next_step="Nothing: the restart cures it.",
    ),
    KillMoment.AFTER_HANDOVER: Description(
        does="Kills the driver when the function of foreachBatch that got batch N has returned, or has raised after "
        "its first write, and `commits/N` is absent: the driver waits there for the drill. In the fork of a script, "
        "the capture is that function.",
        promise=f"{_AGAIN}The function gets the same rows under the same batch id.",
        seen="A function that appends without the batch id wrote its rows twice.",
        next_step="Tie what the function writes to the batch id.",
    ),
}

STRIKES: Final = 3
"""Strikes of a drill that names no moment: one for each phase of a batch."""

_STRIKES_ALLOWED: Final = f"from 1 to {MOST_ATTEMPTS}"

_COMPARED: Final = 8
"""Newest batches whose phases are measured before a strike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MidBatchKill(Fault):
    """Proof: the driver ended by signal 9, `offsets/N` is there, `commits/N` is not; for a moment also that the files
    of the batch are those of that moment, read after the driver's death."""

    expected_end: ClassVar[ExpectedEnd] = ExpectedEnd.ENDS
    recovery: ClassVar[str] = "The start that follows."
    missed: ClassVar[str] = "no batch was caught between its plan and its commit"

    @property
    def wanted(self) -> KillMoment | None:
        """The moment of a batch at which it strikes; None: at any moment between the plan and the commit."""
        return None

    def undo(self, context: FaultContext) -> str | None:
        """A driver that was paused to look at its files, or waits after a function, continues."""
        context.ports.drivers.hold_batch(context.driver_id, False)
        return "the driver was stopped and goes on" if context.ports.drivers.thaw(context.driver_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        batch = self.aim(context, deadline=deadline)
        if batch is None:
            missed = self.missed if self.wanted is None else f"no batch was caught {self.wanted}"
            return Strike(moment=None, message=missed)
        moment = context.ports.clock.now()
        if not context.ports.drivers.kill(context.driver_id):
            return Strike(moment=None, message="the driver's process was already gone", batch=batch)
        context.await_exit(deadline=deadline)
        return Strike(moment=moment, message=f"SIGKILL while batch {batch} was running", batch=batch)

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        """Wait until a batch is at the instant that was drawn, or at the wanted moment; its id, or None if the driver
        ended or time is up."""
        if self.wanted is None:
            return stop_at_share(context, deadline=deadline)
        return stop_at(self, context, self.wanted, deadline=deadline)

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        view = context.observe()
        checkpoint, fork = context.ports.checkpoint, context.fork
        position = checkpoint.position(fork)
        planned, wanted = position.planned, self.wanted
        offsets = planned is not None and checkpoint.is_planned(fork, planned)
        commits = planned is not None and checkpoint.is_committed(fork, planned)
        traces = None if wanted is None or planned is None else checkpoint.traces(fork, planned)
        killed = view.exit is not None and view.exit.signal == signal.SIGKILL
        in_time = wanted is None or (planned is not None and _stands(context, planned, wanted))
        moment = context.moment_of(strike, view)
        struck = None if planned is None or not killed else _struck(context, planned, moment)
        if view.alive or view.exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not killed:
            message = f"the driver was already over: {view.exit.kind.value} {view.exit.message}".rstrip()
        elif not offsets or commits:
            message = f"the driver died by signal 9, but batch {planned} was committed before it died"
        else:
            left = "" if traces is None else f"; {'' if in_time else f'not {wanted}, but '}{_describe(traces)}"
            where = "" if struck is None else f", {struck.words}"
            message = (
                f"the driver died by signal 9{where}, with offsets/{planned} written and commits/{planned} absent{left}"
            )
        landed = killed and not view.alive and offsets and not commits and in_time
        evidence = {
            "offsets_written": offsets,
            "commits_written": commits,
            "aimed_at_batch": strike.batch if strike else None,
            **({"share": context.share} if wanted is None else {}),
            **({} if traces is None else {"traces": asdict(traces)}),
        }
        return context.proof(
            strike,
            view,
            position,
            landed=landed,
            message=message,
            evidence=evidence,
            struck=None if commits else struck,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDriver(MidBatchKill):
    """A crash in mid-batch, at instants that are drawn from the whole batch or at a named moment."""

    kind: str = "kill_driver"
    moment: KillMoment | None = None
    """when in a batch the kind `kill_driver` strikes: see [faults](../faults.md#kill_driver); null: at instants that
    each run draws from the whole batch, from its plan to its commit"""
    strikes: int | None = None
    """how often `kill_driver` strikes in a run, each time after the stream has come back. Without a `moment` the
    strikes are spread over the phases of a batch: before the sink writes, while it writes, and between its write and
    the commit. null: three times without a `moment`, or less often in a fork with few batches; once with a `moment`,
    among several `faults` and on the live stream"""
    event: ClassVar[str] = "a crash in mid-batch"
    proof: ClassVar[str] = (
        "The driver ended by signal 9; `offsets/N` exists, `commits/N` does not; the report says how far into the "
        "batch, and in which phase. With a `moment`, the files of the batch are those of the moment."
    )
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="it ends a process that supervision starts again, and changes no file",
    )
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to the driver's process group while a batch runs: `offsets/N` exists, `commits/N` does "
        "not.",
        promise="The planned batch runs again with the same input.",
        seen="The output of Streamwarden's sinks was right in each phase. A function of foreachBatch that appends "
        "without the batch id wrote its rows twice.",
        next_step="Nothing: supervision starts the stream again.",
    )
    variants: ClassVar[Mapping[str, tuple[ExpectedEnd, Description]]] = {
        f"moment: {kill_moment}": (ExpectedEnd.ENDS, _MOMENTS[kill_moment]) for kill_moment in KillMoment
    }

    def __post_init__(self) -> None:
        Fault.__post_init__(self)  # without super(): a dataclass with slots is created twice
        require(self.strikes is None or 1 <= self.strikes <= MOST_ATTEMPTS, "strikes", self.strikes, _STRIKES_ALLOWED)

    @property
    def wanted(self) -> KillMoment | None:
        return self.moment

    @property
    def repeats(self) -> int:
        return self.strikes or (STRIKES if self.moment is None else 1)

    @property
    def least_repeats(self) -> int:
        return self.strikes or 1

    @property
    def variant(self) -> str:
        """The number of strikes makes it no other experiment."""
        return "" if self.moment is None else f"moment: {self.moment}"

    @property
    def detail(self) -> str:
        return "" if self.moment is None else f" at the moment {self.moment}"

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Only a sink that lists the files of each batch shows when it has written and listed them."""
        if self.moment in _OF_LIST and (declared.sink.LOG is None or declared.sink.mode is not OutputMode.APPEND):
            instead = FITTING.get(declared.sink.SERVICE or "")
            other = "`moment: after_handover`" if instead is None else f"`{instead}`, without a moment"
            raise DrillAborted(
                f"the moment {self.moment} is not applicable: the sink of {stream} is of the kind "
                f"{declared.sink.kind} in mode {declared.sink.mode}, which lists no files of a batch",
                expected="a sink of files, or a Delta table in append mode",
                where=f"fault.moment of the drill of {stream}",
                next_step=f"drill this stream with {other}",
            )


def moment_in(traces: BatchTraces) -> KillMoment | None:
    """The moment at which a batch stands, by the last of the files that it has written; None: it is not running.
    Pure."""
    if traces.planned_at is None or traces.committed:
        return None
    if traces.listed:
        return KillMoment.AFTER_MANIFEST
    if traces.files:
        return KillMoment.AFTER_FILES
    return KillMoment.AFTER_STATE if traces.state else KillMoment.AFTER_OFFSETS


def await_running_batch(context: FaultContext, *, deadline: float) -> int | None:
    """Wait until a batch is planned and not committed; its id, or None if the driver ended or time is up."""

    def running() -> int | None:
        position = context.ports.checkpoint.position(context.fork)
        return position.planned if position.gap > 0 else None

    return await_batch(context, running, deadline=deadline)


def courses_before(context: FaultContext, batch: int | None) -> list[BatchCourse]:
    """How the newest batches before this one went, as far as they are committed."""
    end = 0 if batch is None else batch
    numbers = range(max(end - _COMPARED, 0), end)
    seen = context.ports.checkpoint.courses(context.fork, numbers)
    return [course for course in seen if course.committed_at is not None]


def _struck(context: FaultContext, batch: int, moment: float) -> StruckBatch:
    course = context.ports.checkpoint.course(context.fork, batch)
    return StruckBatch(
        batch=batch,
        into=max(moment - (course.planned_at or moment), 0.0),
        usual=usual_length(courses_before(context, batch)) or None,  # an object store's times are whole seconds
        phase=course.phase,
        wrote=course.wrote,
    )


def stop_at_share(context: FaultContext, *, deadline: float) -> int | None:
    """Wait for the instant of a batch that was drawn and pause the driver there (SIGSTOP); the batch, or None if the
    driver ended or time is up. A driver that cannot be paused is killed as it runs.

    A batch that an earlier driver planned does not count: nothing shows when this one began it.
    """
    drivers, checkpoint, clock = context.ports.drivers, context.ports.checkpoint, context.ports.clock
    since = context.observe().record.launched_at
    aim = Aim(context.share, partial(courses_before, context))
    if aim.phase is BatchPhase.WRITTEN:
        drivers.hold_batch(context.driver_id, True)

    def stopped() -> int | Literal[False] | None:
        position = checkpoint.position(context.fork)
        batch = position.planned
        if batch is None or position.gap == 0:
            return None
        course = checkpoint.course(context.fork, batch)
        if course.committed_at is not None or course.planned_at is None or course.planned_at < since:
            return None
        due = aim.due_at(batch, course)
        if due is None or clock.now() < due:
            return None
        paused = drivers.freeze(context.driver_id)
        if not checkpoint.is_committed(context.fork, batch):
            return batch
        if paused:
            drivers.thaw(context.driver_id)
        return None

    return _let_go_unless_hit(context, await_batch(context, stopped, deadline=deadline))


def _let_go_unless_hit(context: FaultContext, batch: int | None) -> int | None:
    """A driver that was asked to wait after a function, and was not hit there, goes on."""
    if batch is None:
        context.ports.drivers.hold_batch(context.driver_id, False)
    return batch


def _stands(context: FaultContext, batch: int, wanted: KillMoment, since: float = 0.0) -> bool:
    """Whether the batch is at the wanted moment, and was planned after `since`."""
    if wanted is KillMoment.AFTER_HANDOVER:
        course = context.ports.checkpoint.course(context.fork, batch)
        handed_over = course.function and course.phase is BatchPhase.WRITTEN
        return handed_over and (course.planned_at or 0.0) >= since
    traces = context.ports.checkpoint.traces(context.fork, batch)
    return moment_in(traces) is wanted and (traces.planned_at or 0.0) >= since


def _require_function(fault: Fault, context: FaultContext) -> None:
    """Raises DrillAborted if no function gets the rows of the batches."""
    before = courses_before(context, context.ports.checkpoint.position(context.fork).planned)
    if before and not any(course.function for course in before):
        raise fault.not_applicable(
            context.fork.origin,
            f"no function of foreachBatch gets the rows of {context.fork.stream}",
            expected="a job or a script that passes a function to foreachBatch, or a sink that does",
            next_step="drill this stream without a moment, or with another one",
        )


def await_batch(
    context: FaultContext, wanted: Callable[[], int | Literal[False] | None], *, deadline: float
) -> int | None:
    """Wait for a batch as `wanted` finds it (False: none will come); None: the driver ended or time is up."""
    clock, next_observation = context.ports.clock, 0.0

    def probe() -> int | Literal[False] | None:
        nonlocal next_observation
        batch = wanted()
        if batch is not None or clock.now() < next_observation:
            return batch
        next_observation = clock.now() + OBSERVE_EVERY
        return None if context.observe().alive else False

    result = context.wait_for(probe, deadline=deadline, every=POLL) if clock.now() < deadline else None
    return None if result is False else result


def stop_at(fault: Fault, context: FaultContext, wanted: KillMoment, *, deadline: float) -> int | None:
    """Wait for the moment and pause the driver there (SIGSTOP); the batch, or None if the driver ended or time is up.

    A batch that an earlier driver planned does not count: files that it has already are not this driver's.
    """
    require_this_host(fault, context, "the moments of a batch, which the times of files show,")
    if wanted is KillMoment.AFTER_HANDOVER:
        _require_function(fault, context)
        context.ports.drivers.hold_batch(context.driver_id, True)
    since = context.observe().record.launched_at

    def stopped() -> int | Literal[False] | None:
        batch = context.ports.checkpoint.position(context.fork).planned
        if batch is None or not _stands(context, batch, wanted, since):
            return None
        if not context.ports.drivers.freeze(context.driver_id):
            return False
        if _stands(context, batch, wanted, since):
            return batch
        context.ports.drivers.thaw(context.driver_id)
        return None

    return _let_go_unless_hit(context, await_batch(context, stopped, deadline=deadline))


def _describe(traces: BatchTraces) -> str:
    """`2 state files, 1 whole data file, no manifest entry`."""
    entry = "its manifest entry" if traces.listed else "no manifest entry"
    return f"{_count(traces.state, 'state file')}, {_count(traces.files, 'whole data file')}, {entry}"


def _count(number: int, name: str) -> str:
    return f"{number or 'no'} {name}{'' if number == 1 else 's'}"
