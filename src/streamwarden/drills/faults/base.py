"""A fault: what a drill does to a driver, and how it proves afterwards that the fault landed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.ports import (
    CheckpointFiles,
    CheckpointReader,
    Clock,
    DriverClock,
    DriverControl,
    Executors,
    InputFiles,
    Ports,
    ServiceControl,
    SinkProbe,
    SourceTopic,
)
from streamwarden.drills.records.sections import FaultSpec
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_duration


class Aftermath(StrEnum):
    """What becomes of the struck driver, if all is as it should be. It defines the recovery."""

    ENDS = "ends"  # the recovery is the start that follows
    LIVES = "lives"  # it is not started again: its end is a deviation
    REPLACED = "replaced"  # another driver has taken over, and the struck one has ended, when the strike is over
    MAY_END = "may_end"  # it goes on, or it fails in a way that a restart cures and is started again, as by supervision
    REFUSES = "refuses"  # it ends, and the driver that follows must refuse to go on: see RefusalFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A fault, or one variant of it, on the page docs/faults.md. Each field is one or more whole sentences.

    Args:
        does: what the drill does.
        promise: what Spark and the sink promise then.
        seen: what the drills of this repository saw.
        next_step: what to do when it happens to a stream.
    """

    does: str
    promise: str
    seen: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveUse:
    """Whether a fault may hit a live stream, and why.

    Args:
        reason: a clause that follows "because".
    """

    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """One driver of one fork, or of a live stream, about to be struck.

    Args:
        seed: what a fault draws from that chooses something at random.
        marked_at: Unix seconds at which a strike began whose process died before it recorded the result; None: unknown.
        record_mark: writes that moment to the journal.
    """

    run_id: str
    fork: ForkView
    driver_id: str
    spec: FaultSpec
    drivers: DriverControl
    checkpoint: CheckpointReader
    files: CheckpointFiles
    inputs: InputFiles
    sink: SinkProbe
    source: SourceTopic
    executors: Executors
    services: ServiceControl
    driver_clock: DriverClock
    clock: Clock
    seed: int
    marked_at: float | None
    record_mark: Callable[[float], None]

    def observe(self) -> DriverView:
        return self.drivers.observe(self.driver_id)

    def mark(self) -> float:
        """The moment of the strike: now, in Unix seconds. It is written to the journal before anything is done, for the
        process that continues the strike if this one is killed. That costs a write to the store. Raises StoreError."""
        moment = self.clock.now()
        self.record_mark(moment)
        return moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """What was done.

    Args:
        moment: Unix seconds; None: the moment never came, or what was done had no effect.
        evidence: what only the strike itself could see, as JSON.
    """

    moment: float | None
    message: str
    batch: int | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether the fault landed, shown by what is left after it.

    Args:
        moment: Unix seconds, the start of the recovery time: when it happened, or when an outage was over.
        planned, committed: last batch in `offsets/` and in `commits/` when it had happened.
        message: one sentence; for a miss, what was found instead.
        evidence: the facts that the sentence rests on.
        violation: what the stream already did during the strike that it must not do: a deviation.
        lost: records that the fault removed before any batch had read them: they must be reported, and no others may be
            missing.
        records: all records that the fork's own topic has for it, without the lost ones; None: it reads its origin's.
        copies: files of the fork's own input that are copies of others, which the stream is to read again.
        clock_step: seconds by which the clock of the driver was off for a while; None: it was not.
    """

    landed: bool
    driver_id: str
    moment: float
    planned: int | None
    committed: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    violation: str | None = None
    lost: tuple[TopicRange, ...] = ()
    records: int | None = None
    copies: tuple[str, ...] = ()
    clock_step: float | None = None


class Fault(Protocol):
    """One kind of fault. Everything that other modules need to know about the kind is declared here.

    Args:
        aftermath: what becomes of the struck driver.
        event: the fault as a person who is not an engineer calls it, as the subject of a sentence about the stream.
        feed: where the fork has its input from: a topic that is broken is the fork's own copy.
        needs, takes: the options of the fault's section (see `parts.OPTIONS`) that this kind must have, and may have.
            No other kind allows them.
        steps_clock: the fork's drivers need a clock that can be stepped, from their start on.
        live: whether it may hit a live stream: by default it may not.
        description: for the page docs/faults.md; variants: those of its options that differ, by how a drill's file
            spells them.
    """

    aftermath: ClassVar[Aftermath]
    event: ClassVar[str]
    feed: ClassVar[Feed] = Feed.ORIGIN
    needs: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[tuple[str, ...]] = ()
    steps_clock: ClassVar[bool] = False
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="it changes or removes data that only a fork may lose")
    description: ClassVar[Description]
    variants: ClassVar[Mapping[str, tuple[Aftermath, Description]]] = {}

    def chosen(self, fault: FaultSpec) -> Fault:
        """The fault as the drill's file chooses it: by default this one. Raises InvalidValue for options that do not
        fit one another."""
        return self

    def variant(self, fault: FaultSpec) -> str:
        """The options that make it another experiment than its kind alone, as a drill's file spells them: `target:
        commit, damage: lost`; empty if there are none. By default all options of the kind that are given."""
        given = ((option, getattr(fault, option)) for option in (*self.needs, *self.takes))
        return ", ".join(f"{option}: {_spelled(value)}" for option, value in given if value is not None)

    def require(self, stream: str, declared: StreamSpec, fault: FaultSpec) -> None:
        """Raise DrillAborted, before anything is started, if this fault cannot hit such a stream. By default it can hit
        every stream."""
        return

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        """Wait for the moment, strike, and wait until it is done, all before `deadline` (Unix seconds)."""

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """Judge by what is left. `strike` is None if the process that struck died before it recorded the strike: then
        only the evidence counts."""

    def undo(self, context: FaultContext) -> str | None:
        """Undo what a strike may have left in place; may run again. Returns what was done, None: nothing was left, as
        by default.

        Raises DrillError if it cannot be undone.
        """
        return None


@runtime_checkable
class RefusalFault(Protocol):
    """A fault after which going on would be wrong: the stream has to end and report why, supervision has to leave it
    down, and an operator applies the documented remediation."""

    cause: ClassVar[Cause]
    """The cause that the exit must be recognised as."""

    check: ClassVar[str]
    """The name of the check that must report it."""

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """What the check fails to report about this fault; None: it reports all of it.

        Args:
            evidence: the verdict's.
        """

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """The fork as the documentation lets it go on. May run again."""


def _spelled(value: object) -> str:
    if isinstance(value, float):  # the only numbers with a fraction are durations
        return format_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def prove_as_observed(
    context: FaultContext, strike: Strike | None, judge: Callable[[Strike], tuple[bool, str]]
) -> Proof:
    """The proof of a fault whose evidence only the strike itself could see.

    Args:
        judge: for a strike that did something, whether it landed, and the sentence that says so; its evidence has
            `planned` and `committed`.
    """
    if strike is not None and strike.moment is not None:
        landed, message = judge(strike)
        return Proof(
            landed=landed,
            driver_id=context.driver_id,
            moment=strike.moment,
            planned=strike.evidence["planned"],
            committed=strike.evidence["committed"],
            message=message,
            evidence=dict(strike.evidence),
        )
    position = context.checkpoint.position(context.fork)
    return Proof(
        landed=False,
        driver_id=context.driver_id,
        moment=context.clock.now(),
        planned=position.planned,
        committed=position.committed,
        message=strike.message if strike else "the process that struck died before it recorded what it had done",
        evidence=dict(strike.evidence) if strike else {},
    )


def require_this_host(context: FaultContext, what: str) -> None:
    """Raises DrillAborted for a fork in an object store.

    Args:
        what: what such a fork cannot have, in the plural.
    """
    places = (context.fork.checkpoint, context.fork.output or "")
    if any("://" in place for place in places):
        raise DrillAborted(
            f"{context.spec.kind} is not applicable: {what} need a fork on this host, and this one is in an object "
            "store",
            expected="a fork whose checkpoint and output are on this host",
            where=f"the drill of {context.fork.origin}",
            next_step="leave out `fork.at`, or drill this stream with another fault",
        )


def moment_of(context: FaultContext, view: DriverView, strike: Strike | None) -> float:
    """When the fault struck, in Unix seconds. For a strike whose process was killed: as it was marked, or else when the
    driver ended, or now if it runs."""
    if strike is not None and strike.moment is not None:
        return strike.moment
    if context.marked_at is not None:
        return context.marked_at
    return context.clock.now() if view.exit is None else view.exit.ended_at


def await_exit(context: FaultContext, *, deadline: float) -> DriverView:
    """The driver as last observed: with its recorded exit, or without one if the deadline passed first."""
    while True:
        late = context.clock.now() >= deadline
        view = context.observe()
        if view.exit is not None or late:
            return view
        context.clock.sleep(0.1)


def describe_exit(view: DriverView) -> dict[str, Any]:
    """The exit as evidence; all None while there is none."""
    exit = view.exit
    return {
        "alive": view.alive,
        "exit": exit.kind.value if exit else None,
        "exit_code": exit.exit_code if exit else None,
        "signal": exit.signal if exit else None,
        "ended_at": exit.ended_at if exit else None,
        "cut_batch": exit.cut_batch if exit else None,
        "message": exit.message if exit else "",
        "pid": view.record.process.pid if view.record.process else None,
        "host": view.record.process.host if view.record.process else None,
        "process_started_at_ticks": view.record.process.started_at if view.record.process else None,
    }


def ended_at(proof: Proof) -> float | None:
    """When the struck driver ended, Unix seconds, as `describe_exit` recorded it; None: it did not, or the fault does
    not say."""
    found = proof.evidence.get("ended_at")
    return float(found) if isinstance(found, int | float) else None
