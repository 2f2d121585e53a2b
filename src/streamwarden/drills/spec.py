"""DrillSpec: one experiment on a stream as data (`config/drills/NAME.yaml`)."""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from streamwarden.drills.fault_order import LONGEST_PAUSE
from streamwarden.drills.faults import AnyFault, Course, Fault
from streamwarden.drills.production import ProductionSpec
from streamwarden.drills.records.journal import FORK_STEPS, PRODUCTION_STEPS, DrillStep
from streamwarden.drills.records.sections import (
    DrillTarget,
    ForkSpec,
    RecoverySpec,
    SteadyStateSpec,
    VerificationSpec,
    require,
)
from streamwarden.errors import InvalidValue
from streamwarden.health.check_relations import DRILL, OVERDUE
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.units import Seconds

DRILL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A drill's name becomes a DAG id, a folder and a key of the store."""

_RESERVED: Final = OVERDUE.removeprefix(DRILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSpec:
    """One drill: `config/drills/NAME.yaml`, validated. `file`: the YAML file that it came from."""

    name: str
    """the drill's name, which is the file's: also the id of its DAG, a folder and its key in the store"""
    stream: str
    """name of the stream that is drilled"""
    fault: AnyFault | None = None
    """what the drill breaks; `faults` takes its place if there are several"""
    faults: tuple[AnyFault, ...] = ()
    """several faults, each a mapping such as `fault`, that strike one after the other: each must land, and the stream
    must have come back from it, before the next one strikes; the output is judged once, at the end"""
    seed: int | Literal["new"] | None = None
    """what the order of `faults` and the batches between them are drawn from. A number: each run draws the same; `new`:
    each run draws a new number, which its journal keeps and `drill replay` uses again; null: the faults strike in the
    order of the file, each as soon as possible"""
    description: str = ""
    """one or two sentences, shown in Airflow"""
    target: DrillTarget = DrillTarget.FORK
    """what is broken: a `fork` is a copy of the stream, with its output redirected; `production` is the live stream
    itself, which a person has to approve in Airflow"""
    production: ProductionSpec | None = None
    """when the live stream may be hit; only the target `production` has it, and needs it"""
    fork: ForkSpec = field(default_factory=ForkSpec)
    steady_state: SteadyStateSpec = field(default_factory=SteadyStateSpec)
    recovery: RecoverySpec = field(default_factory=RecoverySpec)
    verification: VerificationSpec = field(default_factory=VerificationSpec)
    schedule: str | None = None
    """when Airflow runs it: a cron expression or a preset such as `@daily`; null: only when asked"""
    owner: str = "streamwarden"
    """the person or team to ask, shown in Airflow"""
    tags: tuple[str, ...] = ()
    """tags of the DAG"""
    file: str = ""

    def __post_init__(self) -> None:
        allowed = DRILL_NAME.fullmatch(self.name) is not None
        require(allowed, "name", self.name, f"a name that matches {DRILL_NAME.pattern}")
        free = self.name != _RESERVED
        require(free, "name", self.name, f"another name: the check `{OVERDUE}` is about all drills of a stream")
        one = (self.fault is None) is not (not self.faults)
        require(one, "fault", None if self.fault is None else self.fault.kind, "either `fault` or `faults`")
        self._require_faults()
        if self.target is DrillTarget.PRODUCTION:
            _require_for_production(self)
            return
        allowed_nowhere = f"none: the target {self.target} has no `production`"
        require(self.production is None, "production", self.production, allowed_nowhere)
        whole = self.fork.rewind == "all" or self.feed is Feed.ORIGIN
        if self.course is Course.RESTORED:
            alone = self.fork == ForkSpec(keep=self.fork.keep)
            require(alone, "fork", self.fork, "`keep` alone: the fork is the newest savepoint")
        broken = f"`all`: the topic that {self.breaks} breaks is a new copy"
        require(whole, "fork.rewind", self.fork.rewind, broken)

    def _require_faults(self) -> None:
        for number, fault in enumerate(self.sequence):
            key = "fault" if self.fault is not None else f"faults.{number}"
            alone = len(self.sequence) == 1 or fault.feed is Feed.ORIGIN
            require(alone, f"{key}.kind", fault.kind, "a fault that does not change the fork's topic: it is alone")
            alone = len(self.sequence) == 1 or fault.course is Course.STRUCK
            require(alone, f"{key}.kind", fault.kind, "a fault that strikes a driver: a savepoint is restored alone")

    @property
    def sequence(self) -> tuple[Fault, ...]:
        """The faults in the order of the file."""
        return self.faults if self.fault is None else (self.fault,)

    @property
    def repeats(self) -> tuple[int, ...]:
        """How often each fault strikes in a run: one of several faults, and one that hits the live stream, strikes once
        unless its section says more."""
        if self.target is DrillTarget.PRODUCTION or self.faults:
            return tuple(fault.least_repeats for fault in self.sequence)
        return tuple(fault.repeats for fault in self.sequence)

    def strikes_in(self, batches: int | None) -> int:
        """How many strikes of the drill's one fault a fork with that many batches has room for; None: not known."""
        most, least = self.sequence[0].repeats, self.sequence[0].least_repeats
        if self.faults or batches is None:
            return sum(self.repeats)
        return max([least, *(count for count in range(least, most + 1) if self._needed(count) <= batches)])

    @property
    def breaks(self) -> str:
        """The kinds of its faults, in the order of the file: `kill_driver, sink_failing`."""
        return ", ".join(fault.kind for fault in self.sequence)

    @property
    def steps(self) -> tuple[DrillStep, ...]:
        """All steps, in their order."""
        return _STEPS[self.target]

    @property
    def experiment(self) -> tuple[DrillStep, ...]:
        """The steps that a halt skips. Healing and the report run whatever happened."""
        return tuple(step for step in self.steps if step not in (DrillStep.HEAL, DrillStep.REPORT))

    @property
    def how_to_run(self) -> str:
        """How a person runs it once, as a clause."""
        if self.target is DrillTarget.PRODUCTION:
            return f"trigger the DAG drill_{self.name} in Airflow and approve it there"
        return f"run `streamwarden drill run {self.name}`"

    @property
    def waits(self) -> Seconds:
        """How long a run may wait for a person."""
        return self.production.approval_within if self.production is not None else 0.0

    @property
    def feed(self) -> Feed:
        """Where the fork has its input from. Several faults leave it as it is."""
        return self.sequence[0].feed

    @property
    def course(self) -> Course:
        """What its steps do, on a fork."""
        return self.sequence[0].course

    @property
    def longest_step(self) -> Seconds:
        """The most that a step may take by the deadlines of the drill, without Spark's start-up. The verification may
        run two twins, each of which has the time of the recovery."""
        strikes = list(zip(self.sequence, self.repeats, strict=True))
        striking = sum(times * fault.attempts * fault.within for fault, times in strikes)
        between = (sum(self.repeats) - 1) * self.recovery.deadline
        waiting = 2 * self.steady_state.within + striking + between
        return self.recovery.deadline + max(waiting, self.recovery.deadline)

    @property
    def batches_needed(self) -> int:
        """Batches that the fork must have before it: steady state twice, one cut by each attempt, one that shows the
        recovery from each fault before the last, the pauses, and slack for the pause between two steps that run as
        separate processes."""
        return self._needed(sum(fault.least_repeats for fault in self.sequence))

    def _needed(self, strikes: int) -> int:
        """The same for so many strikes. One fault that strikes several times uses for its further strikes what its
        misses would use."""
        attempts = sum(fault.attempts for fault in self.sequence)
        if self.faults:
            attempts += strikes - 1
        pauses = 0 if self.seed is None else LONGEST_PAUSE * strikes
        return 2 * self.steady_state.min_batches + max(attempts, strikes) + pauses + 2


_STEPS: Final = {DrillTarget.FORK: FORK_STEPS, DrillTarget.PRODUCTION: PRODUCTION_STEPS}


def _require_for_production(spec: DrillSpec) -> None:
    """Raises InvalidValue unless the drill says when, and says nothing of a fork or of an oracle."""
    if spec.production is None:
        raise InvalidValue("missing", key="production", allowed="a mapping with `allowed_hours`")
    require(not spec.faults, "faults", [fault.kind for fault in spec.faults], "one `fault`: a live stream is hit once")
    once = spec.sequence[0].least_repeats == 1
    require(once, "fault.strikes", spec.sequence[0].least_repeats, "1: a live stream is hit once")
    require(spec.fork == ForkSpec(), "fork", spec.fork, "none: the target production makes no fork")
    given, plain = spec.verification, VerificationSpec()
    for key in ("oracle", "key", "tolerance"):
        value = getattr(given, key)
        require(value == getattr(plain, key), f"verification.{key}", value, "none: an audit judges the live stream")
