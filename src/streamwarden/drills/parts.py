"""The parts of a drill's file: the kinds of faults, and what each section may say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from streamwarden.errors import InvalidValue
from streamwarden.redaction import redacted
from streamwarden.units import Seconds

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


class DrillTarget(StrEnum):
    """What is broken. Only `fork`: a copy of the stream with its output redirected to scratch."""

    FORK = "fork"


class OutageService(StrEnum):
    """A service that a stream needs, named by the end of the stream that it serves."""

    SOURCE = "source"  # the broker of its topic
    SINK = "sink"  # the database of its table, or the broker of its topic


class OracleKind(StrEnum):
    """Where the expected output comes from. `batch`: an independent batch computation over the whole input."""

    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageSpec:
    """How a service is stopped and started again. A drill stops no server by itself: it runs these two commands.

    Args:
        service: the one that is stopped; the connection of the stream's source or sink names it.
        down, up: program and arguments, run without a shell in the project's folder, with the environment of the drill.
            `up` may run more than once. Neither may hold a secret: the journal shows them.
        lasts: shortest time from the moment at which the service stops answering until `up`. The outage lasts longer,
            up to the fault's `within`, until no commit has come for twice as long as a batch takes.
    """

    service: OutageService
    down: tuple[str, ...]
    up: tuple[str, ...]
    lasts: Seconds = 20.0

    def __post_init__(self) -> None:
        for key, command in (("down", self.down), ("up", self.up)):
            whole = bool(command) and bool(command[0].strip()) and not any("\0" in part for part in command)
            require(whole, key, list(command), "a list: a program and its arguments")
            shown = redacted(list(command))
            require(shown == list(command), key, shown, "no secret: let the program read it from a file or a variable")
        require(self.lasts > 0, "lasts", self.lasts, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """What is done to the stream.

    Args:
        attempts: how often the fault is tried until it lands.
        within: how long one attempt waits for its moment and for its effect.
        outage: only for the kind `service_outage`, which needs it.
    """

    kind: FaultKind
    attempts: int = 3
    within: Seconds = 120.0
    outage: OutageSpec | None = None

    def __post_init__(self) -> None:
        require(self.attempts >= 1, "attempts", self.attempts, "at least 1")
        require(self.within > 0, "within", self.within, "a positive duration")
        if self.outage is not None:
            require(self.within > self.outage.lasts, "within", self.within, "more than the outage lasts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSpec:
    """How the fork is made.

    Args:
        rewind: committed batches that the fork does again (so that there is work left to break), or `all`: the fork
            starts with an empty checkpoint and reads the whole input.
        batches: about how many batches the fork's input is cut into, by the fork's own limit per batch; None: as the
            stream cuts it. It bounds how long a drill on a long input takes.
        at: URL of a folder in the stream's object store. The fork keeps there what the stream keeps in the store,
            except the input, so that the drill covers the store too. None: the whole fork is on this host.
        keep: leave the fork's input and state in place after the drill; its logs and output always stay.
    """

    rewind: int | Literal["all"] = "all"
    batches: int | None = None
    at: str | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        allowed = self.rewind == "all" or (isinstance(self.rewind, int) and self.rewind >= 0)
        require(allowed, "rewind", self.rewind, "a number of batches or `all`")
        require(self.batches is None or self.batches >= 1, "batches", self.batches, "at least 1")
        require(self.at is None or FOLDER.fullmatch(self.at) is not None, "at", self.at, "s3a://BUCKET/FOLDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateSpec:
    """The hypothesis that must hold before the fault and again after the recovery.

    Args:
        min_batches: new batches that must commit.
        checks: health checks that must not be CRITICAL; at least one of them must have data.
        within: deadline for the batches, from the launch of the driver.
    """

    min_batches: int = 2
    checks: tuple[str, ...] = DOCUMENTED_CHECKS
    within: Seconds = 180.0

    def __post_init__(self) -> None:
        require(self.min_batches >= 1, "min_batches", self.min_batches, "at least 1")
        require(self.within > 0, "within", self.within, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySpec:
    """Args:
    target: longest time allowed from the fault to the first new committed batch.
    deadline: how long the fork may take from the fault until it has read its bounded input and ended.
    """

    target: Seconds = 90.0
    deadline: Seconds = 900.0

    def __post_init__(self) -> None:
        require(self.target > 0, "target", self.target, "a positive duration")
        require(self.deadline >= self.target, "deadline", self.deadline, "at least the target")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """How the output is judged. Fewer input records than `min_records` prove nothing, and the drill says so."""

    min_records: int = STANDARD_RECORDS
    oracle: OracleKind = OracleKind.BATCH

    def __post_init__(self) -> None:
        require(self.min_records >= 1, "min_records", self.min_records, "at least 1")


def require(holds: bool, key: str, value: object, allowed: str) -> None:
    """Raises InvalidValue unless `holds`."""
    if not holds:
        raise InvalidValue(repr(value), key=key, allowed=allowed)
