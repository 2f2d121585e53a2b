"""The interfaces of the drill engine to the outside, small Protocols. Times are Unix seconds.

A fault that needs more declares it in its module: the Protocol, and a `Port` that names it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from streamwarden.checkpoint.batch_progress import BatchTraces
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.exercised import NotExercised
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.outside import Outside
from streamwarden.drills.records.phases import BatchCourse
from streamwarden.drills.records.sections import ForkSpec, OracleKind, VerificationSpec
from streamwarden.drills.records.twin import TwinReport
from streamwarden.drills.records.types import BatchFact, Copies, DriverView, ForkView, Judgement, LiveStatus, PlanTimes
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.recovery import SnapshotFacts
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import Seconds
from streamwarden.verification.comparing.balance import Audit
from streamwarden.verification.reconciliation import Reconciliation

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecCodec:
    """Reads and writes a StreamSpec as JSON. `read` raises ConfigError for one that this version cannot read."""

    read: Callable[[Mapping[str, Any]], StreamSpec]
    write: Callable[[StreamSpec], Mapping[str, Any]]


class LiveStreams(Protocol):
    """Live streams. Starts nothing, and removes nothing."""

    def declared(self, stream: str) -> StreamSpec:
        """The stream's spec. Raises DrillAborted if its file cannot be used, or if no audit can read its output."""

    def view(self, stream: str) -> ForkView:
        """The stream itself in the form in which faults and the checkpoint's reader take a fork. Raises what `declared`
        raises."""

    def status(self, stream: str) -> LiveStatus: ...
    def past(self, stream: str) -> Sequence[DrillRun]:
        """The newest drill runs of this stream, newest first."""

    def audit(self, view: ForkView, first: int) -> Audit:
        """Balance the books of the committed batches from `first` on, and of more. Books that do not balance are an
        incident of the stream. Raises VerificationError if what is needed cannot be read."""


class Forks(Protocol):
    """Makes and removes the scratch copy that a drill breaks."""

    def declared(self, stream: str, feed: Feed) -> StreamSpec:
        """The stream's spec. Makes nothing. Raises DrillAborted if no fork of it can be made."""

    def oracles(self, stream: str, feed: Feed, asked: OracleKind) -> tuple[OracleKind, ...]:
        """The oracles that can judge such a fork: the job's own oracle, the twin, or both.

        Raises DrillAborted if nothing of what is asked for can.
        """

    def make(
        self, run_id: str, stream: str, spec: ForkSpec, feed: Feed, oracles: tuple[OracleKind, ...] = (OracleKind.JOB,)
    ) -> ForkView:
        """Make the fork of a run from scratch, after clearing what an interrupted attempt left."""

    def restored(self, run_id: str, stream: str, savepoint: str) -> ForkView:
        """Open a savepoint of the stream as the fork of a run, after clearing what an interrupted attempt left.

        Raises DrillAborted if the stream cannot be forked, or a file of the savepoint is not as it was saved.
        """

    def renew(self, run_id: str, fork: ForkView) -> ForkView:
        """The fork under a new checkpoint path with its own output, both empty; may run again."""

    def outside(self, run_id: str, stream: str) -> Outside:
        """What the jobs of the fork of a stream and of its twins did outside of the drill's folder."""

    def clear(self, run_id: str, fork: ForkView | None) -> Sequence[str]:
        """Remove everything but the evidence (input links, state, scratch); returns what was removed. Idempotent.

        `fork` is None if making it was interrupted: then all of it is removed.
        """


class DriverControl(Protocol):
    """Starts, observes and ends the fork's drivers, under the same lease rules as any stream."""

    def start(self, fork: ForkView, run_id: str) -> DriverRecord: ...
    def latest(self, fork: ForkView) -> DriverRecord | None: ...
    def observe(self, driver_id: str) -> DriverView: ...
    def request_stop(self, fork: ForkView, driver_id: str, *, by: str, reason: str) -> None: ...
    def kill(self, driver_id: str) -> bool:
        """Send SIGKILL to the driver's process group. False: the process no longer existed."""

    def freeze(self, driver_id: str, *, supervised: bool = True) -> bool:
        """Send SIGSTOP to the driver's process group and wait until it is paused. False: there was no such process,
        or it did not stop.

        Args:
            supervised: its supervisor process continues; False: it is paused too, as on a paused host.
        """

    def thaw(self, driver_id: str) -> bool:
        """Send SIGCONT to it, and to its supervisor process, if it is paused; returns whether it did."""

    def hold_batch(self, driver_id: str, wanted: bool) -> None:
        """Ask the driver to wait after the next function of foreachBatch has ended, before Spark commits the batch, or
        let it go on. It waits for some seconds at most. One that runs on another host does not see it."""

    def is_running(self, driver_id: str) -> bool:
        """Its process exists, running or stopped, whatever is recorded of it."""

    def take_over(self, fork: ForkView, run_id: str, driver_id: str, *, deadline: float) -> DriverRecord | None:
        """Start another driver as a host does that cannot see this one: once its lease has expired. None: it had not
        expired by the deadline (Unix seconds)."""


class CheckpointReader(Protocol):
    """Reads the fork's checkpoint; never writes to it."""

    def position(self, fork: ForkView) -> LogPosition: ...
    def commit_time(self, fork: ForkView, batch: int) -> float | None: ...
    def plan_times(self, fork: ForkView, batch: int) -> PlanTimes | None:
        """When the batch was planned, by two clocks; None: its plan is not there, or it cannot be read yet."""

    def is_planned(self, fork: ForkView, batch: int) -> bool: ...
    def is_committed(self, fork: ForkView, batch: int) -> bool: ...
    def unplanned(self, fork: ForkView) -> int:
        """Input files or records that no batch has planned yet: 0 when the bounded input is at its end.

        Raises StreamwardenError if a broker does not answer.
        """

    def traces(self, fork: ForkView, batch: int) -> BatchTraces:
        """Traces of one batch. They are exact on a local disk only, and only while nothing writes."""

    def course(self, fork: ForkView, batch: int) -> BatchCourse:
        """How far one batch has come, and when: by the files of the sink, or by what its driver recorded."""

    def courses(self, fork: ForkView, batches: Sequence[int]) -> Sequence[BatchCourse]:
        """The same of several batches, for one listing of each log: a stored batch costs some requests by itself."""

    def not_exercised(self, fork: ForkView) -> Sequence[NotExercised]:
        """Each function of foreachBatch that got no batch a second time after it had written it: whether it writes a
        batch twice is unknown."""

    def batches(self, fork: ForkView) -> Sequence[BatchFact]: ...
    def snapshot(self, fork: ForkView) -> SnapshotFacts: ...


class Arrivals(Protocol):
    """Reports the batches that arrive where a sink writes."""

    def next(self, timeout: Seconds) -> int | None:
        """The next batch as soon as it has arrived (committed to the database, or its first record in the topic); None
        if none arrives within `timeout`."""


class HeldTable(Protocol):
    """A table that a drill has locked. Raises DrillError if the database cannot be reached."""

    def waiting(self) -> Sequence[int]:
        """The database's process ids of the sessions of the fork's driver that wait for the table now."""

    def is_held(self) -> bool:
        """The drill still has the lock."""


class Health(Protocol):
    def evaluate(self, fork: ForkView, checks: Collection[str]) -> Sequence[Verdict]:
        """The verdicts of these checks now. Raises StoreError."""


class Verifier(Protocol):
    """Oracles, reader of the output, reconciliation. Each method raises VerificationError if no verdict is possible."""

    def reconcile(
        self,
        fork: ForkView,
        *,
        lost: Sequence[TopicRange] = (),
        copies: Copies | None = None,
        clock_steps: Sequence[Seconds] = (),
    ) -> Reconciliation:
        """Compare the output with what the job's own oracle expects.

        Args:
            lost: records that the fault removed from the fork's topic; no others may be missing.
            copies: files of the input that a fault added; None: it added none.
            clock_steps: how far faults let the driver's clock be off for a while.
        """

    def compare_with_twin(
        self,
        run_id: str,
        fork: ForkView,
        verification: VerificationSpec,
        *,
        within: Seconds,
        clock_steps: Sequence[Seconds] = (),
    ) -> TwinReport:
        """Execute the fork's batches again in a twin, and compare the two outputs.

        Args:
            within: how long each twin may take.
            clock_steps: see `reconcile`.
        """


class Judge(Protocol):
    def judge(self, reconciliation: Reconciliation, min_records: int) -> Judgement: ...
    def judge_audit(self, audit: Audit, min_records: int) -> Judgement: ...


class Archive(Protocol):
    """A run's folder: the published journal, and the locks that keep two processes out of one run."""

    def write(self, run_id: str, document: Mapping[str, Any], summary: str) -> str:
        """Write journal.json and report.md atomically; returns the journal's path."""

    def lock(self, run_id: str) -> AbstractContextManager[object]:
        """Held during one step. Raises DrillError if another process keeps it."""

    def tenure(self, run_id: str) -> AbstractContextManager[bool]:
        """Held by a process that does all steps itself. False: another process holds it. Freed when its holder dies."""

    def versions(self, stream: str) -> Mapping[str, str]: ...


class Clock(Protocol):
    def now(self) -> float:
        """Unix time in seconds."""

    def sleep(self, seconds: float) -> None: ...


class Port(Generic[T]):
    """Something that certain faults need from the outside, as a Protocol T."""

    def __init__(self, name: str) -> None:
        self.name = name


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Every port of the engine.

    Args:
        code: stream -> digest of each file of its job, by its path in the project, as they are now; empty: unknown.
        of_faults: what implements the ports that faults declare.
    """

    forks: Forks
    live: LiveStreams
    drivers: DriverControl
    checkpoint: CheckpointReader
    health: Health
    verifier: Verifier
    judge: Judge
    archive: Archive
    clock: Clock
    specs: SpecCodec
    code: Callable[[str], Mapping[str, str]]
    of_faults: Mapping[Port[Any], object]

    def __getitem__(self, port: Port[T]) -> T:
        """The implementation of a port that a fault declares."""
        return cast("T", self.of_faults[port])
