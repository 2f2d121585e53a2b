"""What the drill engine needs of the outside, as small Protocols. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamwarden.checkpoint.logs import LogPosition
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.spec import ForkSpec, OutageService
from streamwarden.health.verdict import Verdict
from streamwarden.health.window import PartitionLag
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic, Feed
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.units import Seconds
from streamwarden.verification.reconciliation import Reconciliation


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkView:
    """A fork as the engine sees it.

    Args:
        stream: the fork's own name; origin: the stream that it was made from.
        batch: last batch of the origin that the fork starts after; None: it starts from nothing.
        unseen: files, or records of a topic, in the fork's bounded input that it has yet to read.
        what: what is counted, as one of them is called.
        batches_left: batches that these make; None if the source does not say.
        input_digest: SHA-256 over the whole input's list: file names and sizes, or a topic's ranges.
        spec: the fork's StreamSpec as JSON, for the adapters.
        bounded: it ends by itself when it has read its input; else it runs until it is asked to stop.
        copied: what the topic of its own was filled with; None: it reads its origin's input.
        ranges: of its origin's topic, what it had yet to read when it was made; empty for files and for a copied
            topic.
    """

    stream: str
    origin: str
    checkpoint: str
    output: str | None
    batch: int | None
    unseen: int
    batches_left: int | None
    input_digest: str
    spec: Mapping[str, Any]
    what: str = "file"
    bounded: bool = True
    copied: CopiedTopic | None = None
    ranges: tuple[TopicRange, ...] = ()

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> ForkView:
        """The inverse of `dataclasses.asdict`."""
        copied = raw.get("copied")
        known = None if copied is None else CopiedTopic.from_dict(copied)
        ranges = tuple(TopicRange(**each) for each in raw.get("ranges", ()))
        return cls(**{**raw, "copied": known, "ranges": ranges})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFact:
    """One batch of the fork: times from its logs, numbers from Spark's report if that survived."""

    batch_id: int
    planned_at: float | None
    committed_at: float | None
    rows: int | None = None
    rows_changed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverView:
    """A driver seen now. `exit` is None while it lives (and for a moment after: its keeper records the exit)."""

    alive: bool
    record: DriverRecord
    exit: ExitRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What an independent judge (Great Expectations) says of a reconciliation.

    Args:
        judge: name and version of the judge.
        expectations: one row each: name, success, what was observed.
        result: the judge's own full result as JSON.
    """

    judge: str
    success: bool
    expectations: Sequence[Mapping[str, Any]] = ()
    result: Mapping[str, Any] = field(default_factory=dict)


class Forks(Protocol):
    """Makes and removes the scratch copy that a drill breaks."""

    def declared(self, stream: str, feed: Feed) -> Mapping[str, Any]:
        """The stream's spec, as JSON. Makes nothing.

        Raises DrillAborted if no fork of it can be made, or no drill could say whether its output is right.
        """

    def make(self, run_id: str, stream: str, spec: ForkSpec, feed: Feed) -> ForkView:
        """Make the fork of a run, from scratch: what an interrupted attempt left is cleared first."""

    def renew(self, run_id: str, fork: ForkView) -> ForkView:
        """The fork as it is under a new checkpoint path, with an output of its own, both empty; may run again."""

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        """Remove what is no evidence (input links, state, scratch); returns what was removed. Idempotent.

        `fork` is None if the making was interrupted: then all of it goes.
        """


class DriverControl(Protocol):
    """Starts, observes and ends the fork's drivers, under the same lease rules as any stream."""

    def start(self, fork: ForkView, run_id: str) -> DriverRecord: ...
    def latest(self, fork: ForkView) -> DriverRecord | None: ...
    def observe(self, driver_id: str) -> DriverView: ...
    def request_stop(self, fork: ForkView, driver_id: str, *, by: str, reason: str) -> None: ...
    def kill(self, driver_id: str) -> bool:
        """SIGKILL to the driver's process group. False: there was no such process any more."""


class CheckpointReader(Protocol):
    """Reads the fork's checkpoint; never writes to it."""

    def position(self, fork: ForkView) -> LogPosition: ...
    def commit_time(self, fork: ForkView, batch: int) -> float | None: ...
    def is_planned(self, fork: ForkView, batch: int) -> bool: ...
    def is_committed(self, fork: ForkView, batch: int) -> bool: ...
    def unplanned(self, fork: ForkView) -> int:
        """Input files or records that no batch has planned yet: 0 when the bounded input is at its end.

        Raises StreamwardenError if a broker does not tell.
        """

    def batches(self, fork: ForkView) -> Sequence[BatchFact]: ...
    def snapshot(self, fork: ForkView) -> SnapshotFacts: ...


class SourceTopic(Protocol):
    """The topic of its own that a fork reads. Raises DrillError if it cannot be had, or the fork has none."""

    def lags(self, fork: ForkView) -> Sequence[PartitionLag]:
        """Each partition: the offsets of the fork's checkpoint beside the topic's."""

    def first_reach(self, fork: ForkView, partitions: Collection[int]) -> int | None:
        """The first batch that was planned with records of one of these partitions; None if there is none yet."""

    def grow(self, fork: ForkView) -> None:
        """Add as many partitions as there were, and send them the records that were held back; may run again."""

    def forget(self, fork: ForkView, before: Mapping[int, int]) -> None:
        """Remove the records before an offset of each partition, as a retention does; may run again."""

    def remake(self, fork: ForkView, leave: Mapping[int, int]) -> None:
        """Delete it and make it anew, with the first `leave[partition]` records of each partition; may run again."""


class Arrivals(Protocol):
    """Hears of the batches that arrive where a sink writes to."""

    def next(self, timeout: Seconds) -> int | None:
        """The next batch, as soon as it is there (committed to the database, or with its first record in the topic);
        None if there is none within `timeout`."""


class SinkProbe(Protocol):
    """The database, or the topic, that the fork's sink writes to. Raises DrillError if it cannot be reached."""

    def listen(self, fork: ForkView) -> AbstractContextManager[Arrivals]:
        """Hear of every batch from here on."""

    def newest(self, fork: ForkView) -> int | None:
        """Newest batch that is there; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorProcess:
    """An executor of a driver's, as a process of this host. `id` is Spark's."""

    id: str
    process: ProcessIdentity


class Executors(Protocol):
    """The executors of the fork's drivers, as far as this host has them."""

    def find(self, driver_id: str) -> Sequence[ExecutorProcess]:
        """Those that live now, of this very driver and no other."""

    def kill(self, executor: ExecutorProcess) -> bool:
        """SIGKILL. False: it lived no more. Raises DrillAborted if this user may not."""

    def is_alive(self, executor: ExecutorProcess) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """Whether a service answers its own client. `said`: what it answered, or why there was no answer."""

    name: str
    answers: bool
    said: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command that ended. `status` None: it did not, and was killed. `output`: the last of what it wrote."""

    status: int | None
    output: str = ""


class ServiceControl(Protocol):
    """The services that the fork lives on, and the commands that take them away."""

    def look(self, fork: ForkView, service: OutageService) -> ServiceStatus:
        """Ask it something, for some seconds. Raises ConfigError if its connection is not known."""

    def run(self, command: Sequence[str], *, within: Seconds) -> CommandResult: ...


class Health(Protocol):
    def evaluate(self, fork: ForkView) -> Sequence[Verdict]: ...


class Verifier(Protocol):
    """Oracle, reader of the output and reconciliation. Raises VerificationError if there is no verdict to be had."""

    def reconcile(self, fork: ForkView, oracle: str, *, lost: Sequence[TopicRange] = ()) -> Reconciliation:
        """Args: lost: records that are gone from the fork's topic, as was told: none else may be."""


class Judge(Protocol):
    def judge(self, reconciliation: Reconciliation, min_records: int) -> Judgement: ...


class Archive(Protocol):
    """Where a run's folder is: the journal for strangers, and the locks that keep two processes out of one run."""

    def write(self, run_id: str, document: Mapping[str, Any], summary: str) -> str:
        """Write journal.json and report.md atomically; returns the journal's path."""

    def lock(self, run_id: str) -> AbstractContextManager[object]:
        """Held during one step. Raises DrillError if another process holds on to it."""

    def tenure(self, run_id: str) -> AbstractContextManager[bool]:
        """Held by a process that does all steps itself; False: another process holds it. Freed when its holder dies."""

    def versions(self) -> Mapping[str, str]: ...


class Clock(Protocol):
    def now(self) -> float:
        """Unix time in seconds."""

    def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside, in one place."""

    forks: Forks
    drivers: DriverControl
    checkpoint: CheckpointReader
    database: SinkProbe
    topic: SinkProbe
    source: SourceTopic
    executors: Executors
    services: ServiceControl
    health: Health
    verifier: Verifier
    judge: Judge
    archive: Archive
    clock: Clock
