"""The parts of a drill's file: the kinds of faults, and what each section may say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from streamwarden.errors import InvalidValue
from streamwarden.redaction import redacted
from streamwarden.stream.spec import ForeachBatch
from streamwarden.units import Seconds, SignedSeconds

FOLDER: Final = re.compile(r"s3a://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.{1,2}(/|$))[^/*?\[\]{}]+)+")
"""Where a fork may be in an object store: never a whole bucket."""

STANDARD_RECORDS: Final = 100_000
"""A standard drill is judged over at least this many keyed records."""

MOST_ATTEMPTS: Final = 100
"""Attempts of a fault; the deadlines of a step grow with them."""

MOST_TIMES: Final = 10
"""Failures, or slow batches, of one strike."""

SHORTEST_STEP: Final = 60.0
"""Seconds. A step has to be longer than what lies between the planning of a batch and the writing of its plan."""

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
    FREEZE_DRIVER = "freeze_driver"
    KILL_AFTER_DATABASE_COMMIT = "kill_after_database_commit"
    KILL_AFTER_TOPIC_WRITE = "kill_after_topic_write"
    KILL_EXECUTOR = "kill_executor"
    SERVICE_OUTAGE = "service_outage"
    PARTITIONS_ADDED = "partitions_added"
    RETENTION_PASSED = "retention_passed"
    TOPIC_RECREATED = "topic_recreated"
    CHECKPOINT_DAMAGE = "checkpoint_damage"
    INPUT_GONE = "input_gone"
    INPUT_DOUBLED = "input_doubled"
    INPUT_LATE = "input_late"
    INPUT_OUT_OF_ORDER = "input_out_of_order"
    SINK_FAILING = "sink_failing"
    SINK_SLOW = "sink_slow"
    SINK_LOCKED = "sink_locked"
    CLOCK_STEP = "clock_step"


class KillMoment(StrEnum):
    """When in a batch `kill_driver` strikes, in the order in which Spark writes: after the named files of the batch,
    and before those of the next moment."""

    AFTER_OFFSETS = "after_offsets"  # the plan, offsets/N
    AFTER_STATE = "after_state"  # a state file of version N+1
    AFTER_FILES = "after_files"  # a whole data file of the sink
    AFTER_MANIFEST = "after_manifest"  # the sink's manifest entry; then comes commits/N


class CheckpointTarget(StrEnum):
    """The part of a checkpoint that `checkpoint_damage` hits."""

    COMMIT = "commit"
    OFFSETS = "offsets"
    METADATA = "metadata"
    STATE = "state"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    DELTA = "delta"


class FileDamage(StrEnum):
    """What happens to a file."""

    LOST = "lost"
    TRUNCATED = "truncated"
    FLIPPED = "flipped"


class DrillTarget(StrEnum):
    """What is broken."""

    FORK = "fork"  # a copy of the stream, with its output redirected to scratch
    PRODUCTION = "production"  # the stream itself, while it runs, if a person approves it


class OutageService(StrEnum):
    """What is made unavailable."""

    SOURCE = "source"  # the broker of the stream's topic
    SINK = "sink"  # the database of its table, or the broker of its topic
    STORE = "store"  # Streamwarden's own store
    MASTER = "master"  # the master of its standalone cluster
    WORKER = "worker"  # the workers of that cluster on this host
    DISK = "disk"  # the file system of the fork's checkpoint, which is filled


class OracleKind(StrEnum):
    """Where the expected output comes from."""

    AUTO = "auto"  # from both: the job's own oracle where there is one, and the twin where it is possible
    JOB = "job"  # from the job's own oracle, which computes it from the whole input
    TWIN = "twin"  # from a second fork that no fault hits, which executes the same batches

    @classmethod
    def _missing_(cls, value: object) -> OracleKind | None:
        """Earlier versions wrote `batch` for the job's own oracle."""
        return cls.JOB if value == "batch" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageSpec:
    """How a service is stopped and started again. A drill stops no server by itself: it runs these two commands."""

    service: OutageService
    """what is made unavailable: the broker of the stream's `source`, the database or broker of its `sink`, the `store`
    of Streamwarden, the `master` or the `worker` of a standalone cluster, or the `disk` of the fork's checkpoint"""
    down: tuple[str, ...]
    """program and arguments that stop it, run without a shell in the project's folder, with the environment of the
    drill; the journal shows them, so they hold no secret"""
    up: tuple[str, ...]
    """program and arguments that start it again; may run more than once"""
    lasts: Seconds = 20.0
    """shortest time from the moment at which the service stops answering until `up`; the outage lasts longer, up to
    `fault.within`, until no commit has come for twice as long as a batch takes"""

    def __post_init__(self) -> None:
        for key, command in (("down", self.down), ("up", self.up)):
            whole = bool(command) and bool(command[0].strip()) and not any("\0" in part for part in command)
            require(whole, key, list(command), "a list: a program and its arguments")
            shown = redacted(list(command))
            require(shown == list(command), key, shown, "no secret: let the program read it from a file or a variable")
        require(self.lasts > 0, "lasts", self.lasts, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """What is done to the stream."""

    kind: FaultKind
    """what the drill breaks, see [faults](../how-to/drills.md#faults)"""
    attempts: int = 3
    """how often the fault is tried until it lands"""
    within: Seconds = 120.0
    """how long one attempt waits for its moment and for its effect"""
    outage: OutageSpec | None = None
    """how the service is stopped and started; only the kind `service_outage` has it, and needs it"""
    moment: KillMoment | None = None
    """when in a batch the kind `kill_driver` strikes: see [faults](../faults.md#kill_driver); null: at any moment
    between the batch's plan and its commit"""
    target: CheckpointTarget | None = None
    """which part of the checkpoint is damaged; only the kind `checkpoint_damage` has it, and needs it"""
    damage: FileDamage | None = None
    """what happens to that part: see [faults](../faults.md#checkpoint_damage) for the pairs that there are; only the
    kind `checkpoint_damage` has it, and needs it"""
    deduplicates: bool | None = None
    """true: the job drops repeated rows, so its output must be that of the input without the copy, which the job's own
    oracle tells; only the kind `input_doubled` has it"""
    lasts: Seconds | None = None
    """how long a batch has to wait for the locked table (`sink_locked`; null: 10 s), or is held up before the sink's
    manifest (`sink_slow`; null: 5 s); no other kind has it"""
    times: int | None = None
    """how many drivers fail one after the other (`sink_failing`), or how many batches are held up (`sink_slow`); no
    other kind has it; null: 1"""
    by: SignedSeconds | None = None
    """how far the clock steps, a minute at least, such as `1h` or, back, `-1h`; only the kind `clock_step` has it;
    null: 1 h"""

    def __post_init__(self) -> None:
        require(1 <= self.attempts <= MOST_ATTEMPTS, "attempts", self.attempts, f"from 1 to {MOST_ATTEMPTS}")
        require(self.within > 0, "within", self.within, "a positive duration")
        if self.lasts is not None:
            require(0 < self.lasts < self.within, "lasts", self.lasts, "a positive duration, shorter than `within`")
        if self.times is not None:
            require(1 <= self.times <= MOST_TIMES, "times", self.times, f"from 1 to {MOST_TIMES}")
        if self.by is not None:
            require(abs(self.by) >= SHORTEST_STEP, "by", self.by, "a minute at least, forth or back")
        if self.outage is not None:
            require(self.within > self.outage.lasts, "within", self.within, "more than the outage lasts")


OPTIONS: Final[Mapping[str, str]] = {
    "outage": "a mapping of `service`, `down` and `up`",
    "moment": f"one of {', '.join(KillMoment)}",
    "target": f"one of {', '.join(CheckpointTarget)}",
    "damage": f"one of {', '.join(FileDamage)}",
    "deduplicates": "true or false",
    "lasts": "a duration",
    "times": f"a number from 1 to {MOST_TIMES}",
    "by": "a duration, forth or back",
}
"""The keys of a fault's section that only some kinds of faults take -> what they may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSpec:
    """How the fork is made."""

    rewind: int | Literal["all"] = "all"
    """committed batches that the fork does again, so that there is work left to break; `all`: the fork starts with an
    empty checkpoint and reads the whole input"""
    batches: int | None = None
    """about how many batches the fork's input is cut into, which bounds how long a drill on a long input takes; null:
    as the stream cuts it. The fork of a source without an end (`rate`) ends after this many batches; null: 20"""
    at: str | None = None
    """`s3a://` folder in the stream's object store, where the fork keeps what the stream keeps there, except the input;
    null: the whole fork is on this host"""
    foreach_batch: ForeachBatch = ForeachBatch.CAPTURE
    """of a script: the rows that it passes to its function in `foreachBatch` are kept in the fork. `capture`: the
    function is not called; `run`: it is, and files that it writes with Spark go into the fork"""
    keep: bool = False
    """leave the fork's input and state in place after the drill; its logs and output always stay"""

    def __post_init__(self) -> None:
        allowed = self.rewind == "all" or (isinstance(self.rewind, int) and self.rewind >= 0)
        require(allowed, "rewind", self.rewind, "a number of batches or `all`")
        require(self.batches is None or self.batches >= 1, "batches", self.batches, "at least 1")
        require(self.at is None or FOLDER.fullmatch(self.at) is not None, "at", self.at, "s3a://BUCKET/FOLDER")


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyStateSpec:
    """The hypothesis that must hold before the fault and again after the recovery."""

    min_batches: int = 2
    """new batches that must commit"""
    checks: tuple[str, ...] = DOCUMENTED_CHECKS
    """health checks that must not be CRITICAL; at least one of them must have data"""
    within: Seconds = 180.0
    """deadline for the batches, from the launch of the driver"""

    def __post_init__(self) -> None:
        require(self.min_batches >= 1, "min_batches", self.min_batches, "at least 1")
        require(self.within > 0, "within", self.within, "a positive duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySpec:
    """How long the recovery may take."""

    target: Seconds = 90.0
    """longest time allowed from the fault to the first new committed batch"""
    deadline: Seconds = 900.0
    """how long the fork may take from the fault until it has read its bounded input and ended"""

    def __post_init__(self) -> None:
        require(self.target > 0, "target", self.target, "a positive duration")
        require(self.deadline >= self.target, "deadline", self.deadline, "at least the target")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """How the output is judged."""

    min_records: int = STANDARD_RECORDS
    """fewer input records prove nothing, and the drill says so"""
    oracle: OracleKind = OracleKind.AUTO
    """where the expected output comes from: `job`: the job's own [oracle](../how-to/oracles.md); `twin`: a
    [twin](../how-to/twin.md), which executes the same batches unbroken; `auto`: the job's own oracle if there is one,
    and the twin"""
    key: tuple[str, ...] = ()
    """columns of the output that identify a row, by which the twin's rows are compared; empty: the drill finds them"""
    tolerance: dict[str, float] = field(default_factory=dict)
    """column: how far its numbers may be from the twin's, relative to the larger one, such as `1e-9` for a sum of
    DOUBLE values"""

    def __post_init__(self) -> None:
        require(self.min_records >= 1, "min_records", self.min_records, "at least 1")
        require(len(set(self.key)) == len(self.key), "key", list(self.key), "each column once")
        for name, bound in self.tolerance.items():
            require(0 < bound < 1, f"tolerance.{name}", bound, "a number above 0 and below 1")
            require(name not in self.key, f"tolerance.{name}", bound, "a column that is not in `key`")


def require(holds: bool, key: str, value: object, allowed: str) -> None:
    """Raises InvalidValue unless `holds`."""
    if not holds:
        raise InvalidValue(repr(value), key=key, allowed=allowed)
