"""DrillSpec: one experiment on a stream as data (`config/drills/NAME.yaml`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from streamwarden.drills.faults import FAULTS
from streamwarden.drills.parts import (
    DrillTarget,
    FaultSpec,
    ForkSpec,
    RecoverySpec,
    SteadyStateSpec,
    VerificationSpec,
    require,
)
from streamwarden.errors import InvalidValue
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.units import Seconds

DRILL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A drill's name becomes a DAG id, a folder and a key of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSpec:
    """One drill: `config/drills/NAME.yaml`, validated. `file`: the YAML file that it came from."""

    name: str
    """the drill's name, which is the file's: also the id of its DAG, a folder and its key in the store"""
    stream: str
    """name of the stream that is drilled"""
    fault: FaultSpec
    description: str = ""
    """one or two sentences, shown in Airflow"""
    target: DrillTarget = DrillTarget.FORK
    """what is broken: a `fork` is a copy of the stream, with its output redirected"""
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
        kind, outage = self.fault.kind, self.fault.outage
        allowed = DRILL_NAME.fullmatch(self.name) is not None
        require(allowed, "name", self.name, f"a name that matches {DRILL_NAME.pattern}")
        if outage is None and FAULTS[kind].needs_outage:
            raise InvalidValue("missing", key="fault.outage", allowed="a mapping of `service`, `down` and `up`")
        unused = outage is None or FAULTS[kind].needs_outage
        require(unused, "fault.outage", outage, f"none: a fault of the kind {kind} has no outage")
        whole = self.fork.rewind == "all" or self.feed is Feed.ORIGIN
        require(whole, "fork.rewind", self.fork.rewind, f"`all`: the topic that {kind} breaks is a new copy")

    @property
    def feed(self) -> Feed:
        """Where the fork has its input from."""
        return FAULTS[self.fault.kind].feed

    @property
    def longest_step(self) -> Seconds:
        """The most that a step may take by the deadlines of the drill, without Spark's start-up."""
        waiting = 2 * self.steady_state.within + self.fault.attempts * self.fault.within
        return self.recovery.deadline + waiting

    @property
    def batches_needed(self) -> int:
        """Batches that the fork must have before it: steady state twice, one cut by each attempt, and slack for the
        pause between two steps that run as separate processes."""
        return 2 * self.steady_state.min_batches + self.fault.attempts + 2
