"""A fault: what a drill does to a driver, and how it proves afterwards that the fault landed."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol, TypeVar, runtime_checkable

from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.ports import Ports
from streamwarden.drills.records.phases import StruckBatch
from streamwarden.drills.records.sections import require
from streamwarden.drills.records.types import DriverView, ForkView
from streamwarden.drills.waiting import wait_for
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.failures.failure_patterns import Cause
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds, format_duration

MOST_ATTEMPTS: Final = 100
"""Attempts of a fault; the deadlines of a step grow with them."""

F = TypeVar("F", bound="Fault")
T = TypeVar("T")


class ExpectedEnd(StrEnum):
    """The expected end of the struck driver. It defines the recovery."""

    ENDS = "ends"  # the recovery is the start that follows
    LIVES = "lives"  # it is not started again: its end is a deviation
    REPLACED = "replaced"  # another driver has taken over, and the struck one has ended, when the strike is over
    MAY_END = (
        "may_end"  # it continues, or it fails in a way that a restart cures and is started again, as by supervision
    )
    REFUSES = "refuses"  # it ends, and the driver that follows must refuse to continue: see RefusalFault


class Course(StrEnum):
    """The course of a drill on a fork."""

    STRUCK = "struck"  # a driver of the fork is struck, and has to come back
    RESTORED = "restored"  # the fork is a savepoint that is opened: see `drills.restored`


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
class Strike:
    """An injected fault.

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
        struck: where in a batch it fell; None: the fault does not cut a batch.
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
    struck: StruckBatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """One driver of one fork, or of a live stream, about to be struck.

    Args:
        seed: what a fault draws from that chooses something at random.
        share: the instant of a batch that was drawn for the strike, from 0 to 1: see `driver.batch_instants`.
        marked_at: Unix seconds at which a strike began whose process died before it recorded the result; None: unknown.
        record_mark: writes that moment to the journal.
    """

    run_id: str
    fork: ForkView
    driver_id: str
    ports: Ports
    seed: int
    share: float
    marked_at: float | None
    record_mark: Callable[[float], None]

    def observe(self) -> DriverView:
        return self.ports.drivers.observe(self.driver_id)

    def mark(self) -> float:
        """The moment of the strike: now, in Unix seconds. It is written to the journal before anything is done, for the
        process that continues the strike if this one is killed. That costs a write to the store. Raises StoreError."""
        moment = self.ports.clock.now()
        self.record_mark(moment)
        return moment

    def wait_for(self, probe: Callable[[], T | None], *, deadline: float, every: Seconds) -> T | None:
        """`waiting.wait_for` on the drill's clock."""
        return wait_for(probe, clock=self.ports.clock, deadline=deadline, every=every)

    def wait_until(self, condition: Callable[[], bool], *, deadline: float, every: Seconds) -> bool:
        """Wait until the condition holds; False: it does not at `deadline` (Unix seconds)."""
        return self.wait_for(lambda: condition() or None, deadline=deadline, every=every) is True

    def await_exit(self, *, deadline: float) -> DriverView:
        """The driver as last observed: with its recorded exit, or without one if the deadline passed first."""
        self.wait_until(lambda: self.observe().exit is not None, deadline=deadline, every=0.1)
        return self.observe()

    def proof(
        self,
        strike: Strike | None,
        view: DriverView,
        position: LogPosition,
        *,
        landed: bool,
        message: str,
        evidence: Mapping[str, Any],
        **facts: Any,
    ) -> Proof:
        """The proof by the driver and the logs as they are now. `facts`: other fields of the proof."""
        return Proof(
            landed=landed,
            driver_id=self.driver_id,
            moment=self.moment_of(strike, view),
            planned=position.planned,
            committed=position.committed,
            message=message,
            evidence={**describe_exit(view), **evidence},
            **facts,
        )

    def moment_of(self, strike: Strike | None, view: DriverView) -> float:
        """When the fault struck, in Unix seconds. For a strike whose process was killed: as it was marked, or else when
        the driver ended, or now if it runs."""
        if strike is not None and strike.moment is not None:
            return strike.moment
        if self.marked_at is not None:
            return self.marked_at
        return self.ports.clock.now() if view.exit is None else view.exit.ended_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """One kind of fault, with the options that a drill's file chose: the fields are the keys of its section, and the
    text below each one is its documentation. Everything else that other modules need to know about the kind is declared
    here too.

    Args:
        expected_end: what becomes of the struck driver.
        event: the fault as a person who is not an engineer calls it, as the subject of a sentence about the stream.
        proof: what proves that it landed; recovery: what counts as the recovery from it. For the page docs/faults.md.
        feed: where the fork has its input from: a topic that is broken is the fork's own copy.
        live: whether it may hit a live stream: by default it may not.
        course: what the steps of the drill do.
        description: for the page docs/faults.md; variants: those of its options that differ, by how a drill's file
            spells them.
    """

    expected_end: ClassVar[ExpectedEnd]
    event: ClassVar[str]
    proof: ClassVar[str]
    recovery: ClassVar[str]
    feed: ClassVar[Feed] = Feed.ORIGIN
    course: ClassVar[Course] = Course.STRUCK
    live: ClassVar[LiveUse] = LiveUse(allowed=False, reason="it changes or removes data that only a fork may lose")
    description: ClassVar[Description]
    variants: ClassVar[Mapping[str, tuple[ExpectedEnd, Description]]] = {}

    kind: str
    """what the drill breaks, see [faults](../how-to/drills.md#faults)"""
    attempts: int = 3
    """how often the fault is tried until it lands"""
    within: Seconds = 120.0
    """how long one attempt waits for its moment and for its effect"""

    def __post_init__(self) -> None:
        require(1 <= self.attempts <= MOST_ATTEMPTS, "attempts", self.attempts, f"from 1 to {MOST_ATTEMPTS}")
        require(self.within > 0, "within", self.within, "a positive duration")

    @classmethod
    def options(cls) -> tuple[Field[Any], ...]:
        """The keys that other kinds do not have."""
        return fields(cls)[len(fields(Fault)) :]

    @classmethod
    def needs_options(cls) -> bool:
        """A drill's file has to give one of them."""
        return any(option.default is MISSING for option in cls.options())

    @property
    def chosen(self) -> "Fault":
        """The fault as its options choose it: by default this one."""
        return self

    @property
    def variant(self) -> str:
        """The options that make it another experiment than its kind alone, as a drill's file spells them: `target:
        commit, damage: lost`; empty if there are none. By default all options of the kind that are given."""
        given = ((option.name, getattr(self, option.name)) for option in self.options())
        return ", ".join(f"{name}: {_spelled(value)}" for name, value in given if value is not None)

    @property
    def repeats(self) -> int:
        """How often it strikes in a run that has no other fault; by default once."""
        return 1

    @property
    def least_repeats(self) -> int:
        """How often it has to strike at least: a fork with few batches may get fewer strikes. By default as often."""
        return self.repeats

    @property
    def detail(self) -> str:
        """Text after the kind in the question to the person who has to approve it; empty by default."""
        return ""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the drill's file that it runs; by default none."""
        return ()

    @property
    def drops_copies(self) -> bool:
        """The output must be that of the input without the files that the fault has copied."""
        return False

    def as_kind(self, kind: type[F]) -> F:
        """The same options as a fault of another class that has them."""
        return kind(**{option.name: getattr(self, option.name) for option in fields(self)})

    def not_applicable(self, stream: str, why: str, *, expected: str, next_step: str) -> DrillAborted:
        """The refusal of a stream that this fault cannot hit."""
        return DrillAborted(
            f"{self.kind} is not applicable: {why}",
            expected=expected,
            where=f"the drill of {stream}",
            next_step=next_step,
        )

    def wrong_sink(self, stream: str, declared: StreamSpec, lacks: str, *, expected: str, instead: str) -> DrillAborted:
        """The refusal of a stream whose sink lacks something. `instead`: the fault to drill it with."""
        what = f"the sink of {stream} is of the kind {declared.sink.kind}, which has no {lacks}"
        return self.not_applicable(stream, what, expected=expected, next_step=f"drill this stream with `{instead}`")

    def require(self, stream: str, declared: StreamSpec) -> None:
        """Raise DrillAborted, before anything is started, if this fault cannot hit such a stream. By default it can hit
        every stream."""
        return

    def require_host(self, ports: Ports) -> None:
        """Raise DrillAborted, before the fork is made, if this host does not have what the fault needs."""
        return

    def prepare(self, run_id: str, ports: Ports) -> None:
        """Give a fork that was made what the fault needs, before its first driver starts."""
        return

    def release(self, run_id: str, ports: Ports) -> None:
        """Free what `prepare` takes of the host, once no driver of the run is left; may run again, and for a run that
        prepared nothing."""
        return

    @abstractmethod
    def strike(self, context: FaultContext, *, deadline: float) -> Strike:
        """Wait for the moment, strike, and wait until it is done, all before `deadline` (Unix seconds)."""

    @abstractmethod
    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        """Judge by what is left. `strike` is None if the process that struck died before it recorded the strike: then
        only the evidence counts."""

    def undo(self, context: FaultContext) -> str | None:
        """Undo what a strike may have left in place; may run again. Returns what was done, None: nothing was left, as
        by default.

        Raises DrillError if it cannot be undone.
        """
        return None


class ObservedFault(Fault):
    """A fault whose evidence only the strike itself could see; it has `planned` and `committed`."""

    __slots__ = ()

    @abstractmethod
    def judge(self, context: FaultContext, strike: Strike) -> tuple[bool, str]:
        """Whether a strike that did something landed, and the sentence that says so."""

    def prove(self, context: FaultContext, strike: Strike | None) -> Proof:
        if strike is not None and strike.moment is not None:
            landed, message = self.judge(context, strike)
            moment, planned, committed = strike.moment, strike.evidence["planned"], strike.evidence["committed"]
        else:
            position, moment = context.ports.checkpoint.position(context.fork), context.ports.clock.now()
            planned, committed, landed = position.planned, position.committed, False
            message = strike.message if strike else "the process that struck died before it recorded what it had done"
        return Proof(
            landed=landed,
            driver_id=context.driver_id,
            moment=moment,
            planned=planned,
            committed=committed,
            message=message,
            evidence=dict(strike.evidence) if strike else {},
        )


@runtime_checkable
class RefusalFault(Protocol):
    """A fault after which going on would be wrong: the stream has to end and report why, supervision has to leave it
    down, and an operator applies the documented remediation."""

    cause: ClassVar[Cause]
    """The cause that the exit must be recognised as."""

    check: ClassVar[str]
    """The name of the check that must report it."""

    def unreported(self, proof: Proof, evidence: Mapping[str, Any]) -> str | None:
        """The part of this fault that the check does not report; None: it reports all.

        Args:
            evidence: the verdict's.
        """

    def remediate(self, run_id: str, fork: ForkView, ports: Ports) -> ForkView:
        """The fork as the documentation lets it continue. May run again."""


def _spelled(value: object) -> str:
    if isinstance(value, float):  # the only numbers with a fraction are durations
        return format_duration(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def require_this_host(fault: Fault, context: FaultContext, what: str) -> None:
    """Raises DrillAborted for a fork that is not on this host.

    Args:
        what: what such a fork cannot have, in the plural.
    """
    places = (context.fork.checkpoint, context.fork.output or "")
    if any("://" in place for place in places):
        raise DrillAborted(
            f"{fault.kind} is not applicable: {what} need a fork on this host, which this one is not",
            expected="a fork whose checkpoint and output are on this host",
            where=f"the drill of {context.fork.origin}",
            next_step="leave out `fork.at`, or drill this stream with another fault",
        )


def describe_exit(view: DriverView) -> dict[str, Any]:
    """The exit as evidence; all None while there is none."""
    process = view.record.process
    return {
        "alive": view.alive,
        "exit": view.exit.kind.value if view.exit else None,
        **{name: getattr(view.exit, name, None) for name in ("exit_code", "signal", "ended_at", "cut_batch")},
        "message": view.exit.message if view.exit else "",
        **{name: getattr(process, name, None) for name in ("pid", "host")},
        "process_started_at_ticks": process.started_at if process else None,
    }


def ended_at(proof: Proof) -> float | None:
    """When the struck driver ended, Unix seconds, as `describe_exit` recorded it; None: it did not, or the fault does
    not say."""
    at = proof.evidence.get("ended_at")
    return float(at) if isinstance(at, int | float) else None
