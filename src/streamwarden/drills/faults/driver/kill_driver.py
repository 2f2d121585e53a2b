"""kill_driver: SIGKILL while a batch is running, between `offsets/N` and `commits/N`, or at a named moment between
them.

A moment may last only some milliseconds. So the driver is first stopped (SIGSTOP) as soon as the files of the moment
are there, what it has written is read while it stands still, and only a driver that stands at the right moment is
killed.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.drills.faults.base import (
    Aftermath,
    Description,
    Fault,
    FaultContext,
    LiveUse,
    Proof,
    Strike,
    await_exit,
    describe_exit,
    moment_of,
    require_this_host,
)
from streamwarden.drills.records.sections import FaultKind, FaultSpec, KillMoment
from streamwarden.errors import DrillAborted
from streamwarden.stream.spec import StreamSpec

POLL = 0.003
"""Seconds between two reads of the logs: the window is some hundred milliseconds wide."""

OBSERVE_EVERY = 0.5
"""Seconds between two checks of the process, which cost more than reading the logs."""

FITTING: Final = {"database": FaultKind.KILL_AFTER_DATABASE_COMMIT, "broker": FaultKind.KILL_AFTER_TOPIC_WRITE}
"""What serves a sink -> the fault that strikes between the sink's write and Spark's commit."""

_OF_MANIFEST: Final = (KillMoment.AFTER_FILES, KillMoment.AFTER_MANIFEST)

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
}


@dataclass(frozen=True, slots=True)
class KillDriver(Fault):
    """Proof: the driver ended by signal 9, `offsets/N` is there, `commits/N` is not; for a moment also that the files
    of the batch are those of that moment, read after the driver's death."""

    aftermath: ClassVar[Aftermath] = Aftermath.ENDS
    event: ClassVar[str] = "a crash in mid-batch"
    live: ClassVar[LiveUse] = LiveUse(
        allowed=True,
        reason="it ends a process that supervision starts again, and changes no file",
    )
    takes: ClassVar[tuple[str, ...]] = ("moment",)
    missed: ClassVar[str] = "no batch was caught between its plan and its commit"
    description: ClassVar[Description] = Description(
        does="Sends SIGKILL to the driver's process group while a batch runs: `offsets/N` exists, `commits/N` does "
        "not.",
        promise="The planned batch runs again with the same input.",
        seen="The output was right, at every moment of the batch.",
        next_step="Nothing: supervision starts the stream again.",
    )
    variants: ClassVar[Mapping[str, tuple[Aftermath, Description]]] = {
        f"moment: {each}": (Aftermath.ENDS, _MOMENTS[each]) for each in KillMoment
    }

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """Only Spark's own file sink has a manifest."""
        if fault.moment in _OF_MANIFEST and not declared.sink.MANIFEST:
            instead = FITTING.get(declared.sink.SERVICE or "", FaultKind.KILL_DRIVER)
            raise DrillAborted(
                f"the moment {fault.moment} is not applicable: the sink of {stream} is of the kind "
                f"{declared.sink.kind}, which has no manifest",
                expected="a sink that writes files",
                where=f"fault.moment of the drill of {stream}",
                next_step=f"drill this stream with `{instead}`, without a moment",
            )

    def undo(self, context: FaultContext) -> str | None:
        """A driver that was stopped to look at its files goes on."""
        return "the driver was stopped and goes on" if context.drivers.thaw(context.driver_id) else None

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        batch = self.aim(context, deadline=deadline)
        if batch is None:
            wanted = context.spec.moment
            return Strike(moment=None, message=self.missed if wanted is None else f"no batch was caught {wanted}")
        moment = context.clock.now()
        if not context.drivers.kill(context.driver_id):
            return Strike(moment=None, message="the driver's process was already gone", batch=batch)
        await_exit(context, deadline=deadline)
        return Strike(moment=moment, message=f"SIGKILL while batch {batch} was running", batch=batch)

    def aim(self, context: FaultContext, *, deadline: float) -> int | None:
        """Wait until a batch is planned and not committed, or until it is at the wanted moment; its id, or None if the
        driver ended or time is up."""
        if context.spec.moment is None:
            return await_running_batch(context, deadline=deadline)
        return stop_at(context, context.spec.moment, deadline=deadline)

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        view = context.observe()
        position = context.checkpoint.position(context.fork)
        planned, wanted = position.planned, context.spec.moment
        offsets = planned is not None and context.checkpoint.is_planned(context.fork, planned)
        commits = planned is not None and context.checkpoint.is_committed(context.fork, planned)
        traces = None if wanted is None or planned is None else context.checkpoint.traces(context.fork, planned)
        killed = view.exit is not None and view.exit.signal == signal.SIGKILL
        in_time = wanted is None or (traces is not None and moment_in(traces) is wanted)
        if view.alive or view.exit is None:
            message = "the driver is still alive" + (f": {strike.message}" if strike else "")
        elif not killed:
            message = f"the driver was already over: {view.exit.kind.value} {view.exit.message}".rstrip()
        elif not offsets or commits:
            message = f"the driver died by signal 9, but batch {planned} was committed before it died"
        else:
            left = "" if traces is None else f"; {'' if in_time else f'not {wanted}, but '}{_describe(traces)}"
            message = f"the driver died by signal 9 with offsets/{planned} written and commits/{planned} absent{left}"
        return Proof(
            landed=killed and not view.alive and offsets and not commits and in_time,
            driver_id=context.driver_id,
            moment=moment_of(context, view, strike),
            planned=planned,
            committed=position.committed,
            message=message,
            evidence={
                **describe_exit(view),
                "offsets_written": offsets,
                "commits_written": commits,
                "aimed_at_batch": strike.batch if strike else None,
                **({} if traces is None else {"traces": asdict(traces)}),
            },
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
    next_observation = 0.0
    while (now := context.clock.now()) < deadline:
        position = context.checkpoint.position(context.fork)
        if position.gap > 0:
            return position.planned
        if now >= next_observation:
            if not context.observe().alive:
                return None
            next_observation = now + OBSERVE_EVERY
        context.clock.sleep(POLL)
    return None


def stop_at(context: FaultContext, wanted: KillMoment, *, deadline: float) -> int | None:
    """Wait for the moment, and let the driver stand still (SIGSTOP) at it; the batch, or None if the driver ended or
    time is up.

    A batch that an earlier driver planned does not count: files that it has already are not this driver's.
    """
    require_this_host(context, "the moments of a batch, which the times of files show,")
    since, next_observation = context.observe().record.launched_at, 0.0

    def stands(batch: int) -> bool:
        traces = context.checkpoint.traces(context.fork, batch)
        return moment_in(traces) is wanted and (traces.planned_at or 0.0) >= since

    while (now := context.clock.now()) < deadline:
        batch = context.checkpoint.position(context.fork).planned
        if batch is not None and stands(batch):
            if not context.drivers.freeze(context.driver_id):
                return None
            if stands(batch):
                return batch
            context.drivers.thaw(context.driver_id)
        if now >= next_observation:
            if not context.observe().alive:
                return None
            next_observation = now + OBSERVE_EVERY
        context.clock.sleep(POLL)
    return None


def _describe(traces: BatchTraces) -> str:
    """`2 state files, 1 whole data file, no manifest entry`."""
    entry = "its manifest entry" if traces.listed else "no manifest entry"
    return f"{_count(traces.state, 'state file')}, {_count(traces.files, 'whole data file')}, {entry}"


def _count(number: int, name: str) -> str:
    return f"{number or 'no'} {name}{'' if number == 1 else 's'}"
