"""DrillSpec: one experiment on a stream as data (`config/drills/NAME.yaml`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from streamwarden.errors import InvalidValue
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.units import Seconds

DRILL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A drill's name becomes a DAG id, a folder and a key of the store."""

FOLDER: Final = re.compile(r"s3a://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[^/*?\[\]{}]+)+")
"""Where a fork may be in an object store: never a whole bucket."""

STANDARD_RECORDS: Final = 100_000
"""A standard drill is judged over at least this many keyed records."""

DOCUMENTED_CHECKS: Final = (
    "state_size",
    "checkpoint_duration",
    "state_update_latency",
    "state_cleanup_time",
    "memory_usage",
)
"""The five documented checks: the default health part of a steady state."""


class FaultKind(StrEnum):
    CONTROLLED_RESTART = "controlled_restart"
    KILL_DRIVER = "kill_driver"
    KILL_AFTER_DATABASE_COMMIT = "kill_after_database_commit"
    KILL_AFTER_TOPIC_WRITE = "kill_after_topic_write"
    KILL_EXECUTOR = "kill_executor"
    SERVICE_OUTAGE = "service_outage"
    PARTITIONS_ADDED = "partitions_added"
    RETENTION_PASSED = "retention_passed"
    TOPIC_RECREATED = "topic_recreated"

    @property
    def feed(self) -> Feed:
        """Where the fork that it strikes has its input from: a topic that is broken is the fork's own."""
        return _OWN_TOPIC.get(self, Feed.ORIGIN)


_OWN_TOPIC: Final[Mapping[FaultKind, Feed]] = {
    FaultKind.PARTITIONS_ADDED: Feed.GROWING,
    FaultKind.RETENTION_PASSED: Feed.COPY,
    FaultKind.TOPIC_RECREATED: Feed.COPY,
}


class DrillTarget(StrEnum):
    """What is broken. Only `fork`: a copy of the stream with its output redirected to scratch."""

    FORK = "fork"


class OutageService(StrEnum):
    """A service that a stream lives on, by the end of the stream at which it stands."""

    SOURCE = "source"  # the broker of its topic
    SINK = "sink"  # the database of its table, or the broker of its topic


class OracleKind(StrEnum):
    """Where the expected output comes from. `batch`: an independent batch computation over the whole input."""

    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageSpec:
    """How a service is taken away and brought back. A drill ends no server by itself: it runs these two commands.

    Args:
        service: the one that is gone; the connection of the stream's source or sink names it.
        down, up: program and arguments, run without a shell in the project's folder, with the environment of the drill.
            `up` may run more than once. Neither holds a secret: the journal shows them.
        lasts: at least so long, from the moment at which the service answers no more until `up`; longer, up to the
            fault's `within`, until no commit has come for twice as long as a batch takes.
    """

    service: OutageService
    down: tuple[str, ...]
    up: tuple[str, ...]
    lasts: Seconds = 20.0

    def __post_init__(self) -> None:
        for key, command in (("down", self.down), ("up", self.up)):
            whole = bool(command) and bool(command[0].strip()) and not any("\0" in part for part in command)
            _require(whole, key, list(command), "a list: a program and its arguments")
        _require(self.lasts > 0, "lasts", self.lasts, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """What is done to the stream.

    Args:
        attempts: how often the fault is tried until it lands.
        within: how long one attempt waits for its moment and for what it does to be done.
        outage: of the kind `service_outage` alone, which needs it.
    """

    kind: FaultKind
    attempts: int = 3
    within: Seconds = 120.0
    outage: OutageSpec | None = None

    def __post_init__(self) -> None:
        _require(self.attempts >= 1, "attempts", self.attempts, "at least 1")
        _require(self.within > 0, "within", self.within, "a positive duration")
        if self.kind is FaultKind.SERVICE_OUTAGE:
            if self.outage is None:
                raise InvalidValue("missing", key="outage", allowed="a mapping of `service`, `down` and `up`")
        else:
            _require(self.outage is None, "outage", self.outage, f"none: a fault of the kind {self.kind} has no outage")
        if self.outage is not None:
            _require(self.within > self.outage.lasts, "within", self.within, "more than the outage lasts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSpec:
    """How the fork is made.

    Args:
        rewind: committed batches that the fork does again (so that there is work left to break), or `all`: the fork
            starts with an empty checkpoint and reads the whole input.
        batches: about how many batches the fork's input is cut into, by a limit per batch of its own; None: as the
            stream cuts it. It bounds how long a drill on a long input takes.
        at: URL of a folder in the stream's object store, in which the fork has what the stream has there, but for the
            input: then the store is drilled too. None: all of the fork is on this host.
        keep: leave the fork's input and state in place after the drill; its logs and output always stay.
    """

    rewind: int | Literal["all"] = "all"
    batches: int | None = None
    at: str | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        allowed = self.rewind == "all" or (isinstance(self.rewind, int) and self.rewind >= 0)
        _require(allowed, "rewind", self.rewind, "a number of batches or `all`")
        _require(self.batches is None or self.batches >= 1, "batches", self.batches, "at least 1")
        _require(self.at is None or FOLDER.fullmatch(self.at) is not None, "at", self.at, "s3a://BUCKET/FOLDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateSpec:
    """The hypothesis that must hold before the fault and again after the recovery.

    Args:
        min_batches: new batches that must commit.
        checks: health checks that must not be CRITICAL; at least one of them must know something.
        within: deadline for the batches, from the launch of the driver.
    """

    min_batches: int = 2
    checks: tuple[str, ...] = DOCUMENTED_CHECKS
    within: Seconds = 180.0

    def __post_init__(self) -> None:
        _require(self.min_batches >= 1, "min_batches", self.min_batches, "at least 1")
        _require(self.within > 0, "within", self.within, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySpec:
    """Args:
    target: longest time allowed from the fault to the first new committed batch.
    deadline: how long the fork may take from the fault until it has read its bounded input and ended.
    """

    target: Seconds = 90.0
    deadline: Seconds = 900.0

    def __post_init__(self) -> None:
        _require(self.target > 0, "target", self.target, "a positive duration")
        _require(self.deadline >= self.target, "deadline", self.deadline, "at least the target")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """How the output is judged. Fewer input records than `min_records` prove nothing, and the drill says so."""

    min_records: int = STANDARD_RECORDS
    oracle: OracleKind = OracleKind.BATCH

    def __post_init__(self) -> None:
        _require(self.min_records >= 1, "min_records", self.min_records, "at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSpec:
    """One drill: `config/drills/NAME.yaml`, validated.

    Args:
        stream: name of the stream that is drilled.
        schedule: when Airflow runs it (cron expression or preset); None: only when asked.
        file: the YAML file this spec came from.
    """

    name: str
    stream: str
    fault: FaultSpec
    description: str = ""
    target: DrillTarget = DrillTarget.FORK
    fork: ForkSpec = field(default_factory=ForkSpec)
    steady_state: SteadyStateSpec = field(default_factory=SteadyStateSpec)
    recovery: RecoverySpec = field(default_factory=RecoverySpec)
    verification: VerificationSpec = field(default_factory=VerificationSpec)
    schedule: str | None = None
    owner: str = "streamwarden"
    tags: tuple[str, ...] = ()
    file: str = ""

    def __post_init__(self) -> None:
        allowed = DRILL_NAME.fullmatch(self.name) is not None
        _require(allowed, "name", self.name, f"a name that matches {DRILL_NAME.pattern}")
        whole = self.fork.rewind == "all" or self.fault.kind.feed is Feed.ORIGIN
        _require(whole, "fork.rewind", self.fork.rewind, f"`all`: the topic that {self.fault.kind} breaks begins anew")

    @property
    def batches_needed(self) -> int:
        """Batches that the fork must have before it: steady state twice, one cut by each attempt, and slack for the
        pause between two steps that run as separate processes."""
        return 2 * self.steady_state.min_batches + self.fault.attempts + 2


def drill_to_dict(spec: DrillSpec) -> dict[str, Any]:
    """JSON form of a drill: what its journal keeps."""
    return asdict(spec)


def drill_from_dict(raw: Mapping[str, Any]) -> DrillSpec:
    """The inverse of `drill_to_dict`, for steps that run in another process. Raises ValueError or TypeError."""
    fault, steady = dict(raw["fault"]), dict(raw["steady_state"])
    fault["kind"] = FaultKind(fault["kind"])
    if fault.get("outage") is not None:
        outage = dict(fault["outage"])
        commands = {"down": tuple(outage["down"]), "up": tuple(outage["up"])}
        fault["outage"] = OutageSpec(**{**outage, **commands, "service": OutageService(outage["service"])})
    steady["checks"] = tuple(steady["checks"])
    verification = dict(raw["verification"])
    verification["oracle"] = OracleKind(verification["oracle"])
    return DrillSpec(
        **{
            **raw,
            "fault": FaultSpec(**fault),
            "target": DrillTarget(raw["target"]),
            "fork": ForkSpec(**raw["fork"]),
            "steady_state": SteadyStateSpec(**steady),
            "recovery": RecoverySpec(**raw["recovery"]),
            "verification": VerificationSpec(**verification),
            "tags": tuple(raw["tags"]),
        }
    )


def _require(holds: bool, key: str, value: object, allowed: str) -> None:
    if not holds:
        raise InvalidValue(repr(value), key=key, allowed=allowed)
