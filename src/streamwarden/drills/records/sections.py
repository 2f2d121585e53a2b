"""The sections of a drill's file, without those of the faults: each fault declares its own options."""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from streamwarden.errors import InvalidValue
from streamwarden.stream.spec import ForeachBatch
from streamwarden.units import Seconds

FOLDER: Final = re.compile(
    r"(s3a://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]|hdfs://[A-Za-z0-9._:-]+)(/(?!\.{1,2}(/|$))[^/*?\[\]{}]+)+"
)
"""Where a fork may be in an object store or in HDFS: never a whole bucket, nor the root."""

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


class DrillTarget(StrEnum):
    """The target of a drill."""

    FORK = "fork"  # a copy of the stream, with its output redirected to scratch
    PRODUCTION = "production"  # the stream itself, while it runs, if a person approves it


class OracleKind(StrEnum):
    """Where the expected output comes from."""

    AUTO = "auto"  # from both: the job's own oracle where there is one, and the twin where it is possible
    JOB = "job"  # from the job's own oracle, which computes it from the whole input
    TWIN = "twin"  # from a second fork that no fault hits, which executes the same batches


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkSpec:
    """Settings of a fork."""

    rewind: int | Literal["all"] = "all"
    """committed batches that the fork does again, so that there is work left to break; `all`: the fork starts with an
    empty checkpoint and reads the whole input"""
    batches: int | None = None
    """about how many batches the fork's input is cut into, which bounds how long a drill on a long input takes; null:
    as the stream cuts it. The fork of a source without an end (`rate`) ends after this many batches; null: 20"""
    at: str | None = None
    """`s3a://` or `hdfs://` folder, where the fork keeps what the stream keeps in its object store or HDFS, except the
    input; null: the whole fork is on this host"""
    foreach_batch: ForeachBatch = ForeachBatch.CAPTURE
    """of a script: the rows that it passes to its function in `foreachBatch` are kept in the fork. `capture`: the
    function is not called; `run`: it is, and files that it writes with Spark go into the fork"""
    keep: bool = False
    """leave the fork's input and state in place after the drill; its logs and output always stay"""

    def __post_init__(self) -> None:
        allowed = self.rewind == "all" or (isinstance(self.rewind, int) and self.rewind >= 0)
        require(allowed, "rewind", self.rewind, "a number of batches or `all`")
        require(self.batches is None or self.batches >= 1, "batches", self.batches, "at least 1")
        require(
            self.at is None or FOLDER.fullmatch(self.at) is not None,
            "at",
            self.at,
            "s3a://BUCKET/FOLDER or hdfs://HOST/FOLDER",
        )


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
    """Time limits of the recovery."""

    target: Seconds = 90.0
    """longest time allowed from the fault to the first new committed batch"""
    deadline: Seconds = 900.0
    """how long the fork may take from the fault until it has read its bounded input and ended"""

    def __post_init__(self) -> None:
        require(self.target > 0, "target", self.target, "a positive duration")
        require(self.deadline >= self.target, "deadline", self.deadline, "at least the target")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSpec:
    """Settings of the verification."""

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
