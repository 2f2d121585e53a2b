"""A fault: what a drill does to a driver, and how it proves afterwards that it really happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.ports import (
    CheckpointReader,
    Clock,
    DriverControl,
    DriverView,
    Executors,
    Forks,
    ForkView,
    ServiceControl,
    SinkProbe,
    SourceTopic,
)
from streamwarden.drills.spec import FaultSpec
from streamwarden.lifecycle.signs import Cause


class Aftermath(StrEnum):
    """What becomes of the struck driver, if all is as it should be. It says what a recovery is."""

    ENDS = "ends"  # the recovery is the start that follows
    LIVES = "lives"  # nobody starts it again: its end is a deviation
    MAY_END = "may_end"  # it lives, or fails in a way that a restart cures and is started again, as supervision does
    REFUSES = "refuses"  # it ends, and the one that follows must refuse to go on: see Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """One driver of one fork, about to be struck.

    Args:
        marked: when a strike that its process did not live to tell of was begun, in Unix seconds; None: not known.
        keep: writes that moment to the journal.
    """

    run_id: str
    fork: ForkView
    driver_id: str
    spec: FaultSpec
    drivers: DriverControl
    checkpoint: CheckpointReader
    database: SinkProbe
    topic: SinkProbe
    source: SourceTopic
    executors: Executors
    services: ServiceControl
    clock: Clock
    marked: float | None
    keep: Callable[[float], None]

    def observe(self) -> DriverView:
        return self.drivers.observe(self.driver_id)

    def mark(self) -> float:
        """The moment of the strike, now, in Unix seconds: in the journal before anything is done, for the process that
        takes the strike up if this one is killed. It costs a write to the store. Raises StoreError."""
        moment = self.clock.now()
        self.keep(moment)
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
        lost: records that the fault took before any batch had read them: to be told, and to be missed by nobody else.
        records: how many records the fork's topic has for it in all, without those; None: the topic is not its own.
    """

    landed: bool
    driver_id: str
    moment: float
    planned: int | None
    committed: int | None
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    lost: tuple[TopicRange, ...] = ()
    records: int | None = None


class Fault(Protocol):
    aftermath: ClassVar[Aftermath]

    def require(self, stream: str, declared: Mapping[str, Any], fault: FaultSpec) -> None:
        """Before anything is started: raises DrillAborted if this fault cannot hit such a stream.

        Args:
            declared: the stream's StreamSpec, as JSON.
        """

    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        """Wait for the moment, strike, and wait until it is done, all before `deadline` (Unix seconds)."""

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """Judge by what is left. `strike` is None if the process that struck died before it could tell: the evidence
        alone must do."""

    def undo(self, context: FaultContext) -> str | None:
        """Take back what a strike may have left in place; may run again. Returns what was done, None: nothing stays.

        Raises DrillError if it stays.
        """


@runtime_checkable
class Refused(Protocol):
    """A fault after which going on would be wrong: the stream has to end and say why, supervision has to leave it down,
    and a person takes the way out that the documentation tells."""

    cause: ClassVar[Cause]
    """What the exit must be known as."""

    def untold(self, proof: Mapping[str, Any], evidence: Mapping[str, Any]) -> str | None:
        """What the check `input_lost` fails to tell of this fault; None: it tells all of it.

        Args:
            proof: the fault's Proof as JSON; evidence: the verdict's.
        """

    def way_out(self, run_id: str, fork: ForkView, forks: Forks) -> ForkView:
        """The fork as the documentation lets it go on."""


def prove_as_seen(context: FaultContext, strike: Strike | None, judge: Callable[[Strike], tuple[bool, str]]) -> Proof:
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
        message=strike.message if strike else "the process that struck died before it could tell what it had done",
        evidence=dict(strike.evidence) if strike else {},
    )


def moment_of(context: FaultContext, view: DriverView, strike: Strike | None) -> float:
    """When the fault struck, in Unix seconds. Of a strike that was killed: as it was marked; else when the driver
    ended, or now if it lives."""
    if strike is not None and strike.moment is not None:
        return strike.moment
    if context.marked is not None:
        return context.marked
    return context.clock.now() if view.exit is None else view.exit.ended_at


def await_exit(context: FaultContext, *, deadline: float) -> DriverView:
    """The driver as last seen: with its recorded exit, or without one if the deadline passed first."""
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
