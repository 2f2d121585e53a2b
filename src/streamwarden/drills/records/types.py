"""The inputs of the drill engine, as data. Times are Unix seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamwarden.checkpoint.topics import TopicRange
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.sections import OracleKind
from streamwarden.health.incidents.incident import Incident
from streamwarden.lifecycle.driver import DriverRecord, ExitRecord
from streamwarden.lifecycle.forks.topic_copy import CopiedTopic
from streamwarden.lifecycle.supervision.restarter import Restarter
from streamwarden.stream.spec import StreamSpec
from streamwarden.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRecord:
    """A fork as the journal describes it. Its stored spec may be of another version: see ForkView.

    Args:
        stream: the fork's own name; origin: the stream that it was made from.
        batch: last batch of the origin that the fork starts after; None: it starts from nothing.
        unseen: files, or records of a topic, in the fork's bounded input that it has yet to read; if its source has no
            end, batches that it has yet to run. None: a script does not show what it reads.
        what: what is counted, as one of them is called.
        batches_left: batches that these make; None if the source does not say.
        input_digest: SHA-256 over the whole input's list: file names and sizes, or a topic's ranges.
        bounded: it ends by itself when it has read its input; else it runs until it is asked to stop.
        copied: what the fork's own topic was filled with; None: it reads its origin's input.
        ranges: of its origin's topic, what it had yet to read when it was made; empty for files and for a copied
            topic.
        oracles: what judges its output: the job's own oracle, the twin, or both.
    """

    stream: str
    origin: str
    checkpoint: str
    output: str | None
    batch: int | None
    unseen: int | None
    batches_left: int | None
    input_digest: str
    what: str = "file"
    bounded: bool = True
    copied: CopiedTopic | None = None
    ranges: tuple[TopicRange, ...] = ()
    oracles: tuple[OracleKind, ...] = (OracleKind.JOB,)

    @property
    def live(self) -> bool:
        """It is no copy: it is the live stream itself. See `LiveStreams.view`."""
        return self.stream == self.origin

    @property
    def work(self) -> str:
        """The unread input of the fork, as text."""
        if self.unseen is None:
            return "the input that its script names"
        return format_count(self.unseen, f"input {self.what}")

    @property
    def own_topic(self) -> str:
        """` from the topic T: a copy of O, …`; empty if it reads its origin's input."""
        if self.copied is None:
            return ""
        return f" from the topic {self.copied.topic}: a copy of {self.copied.origin}, read back and equal to it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkView(ForkRecord):
    """A fork that the engine works with: its record and its spec."""

    spec: StreamSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverView:
    """A driver as observed now. `exit` is None until its supervisor process has recorded the driver's end."""

    alive: bool
    record: DriverRecord
    exit: ExitRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatus:
    """How a live stream stands now, as far as it decides whether it may be hit.

    Args:
        driver: its newest driver; None: it never had one.
        here: the process of that driver is on this host.
        stopped: a person stopped the stream.
        restarter: what starts the stream again when its driver ends.
        down: why supervision would leave it down if its driver failed now, or has left it down; None: it would start
            it again.
        incidents: those that are open.
        drills: every drill run that has not ended, of any stream.
    """

    driver: DriverView | None
    here: bool
    stopped: bool
    restarter: Restarter
    down: str | None = None
    incidents: tuple[Incident, ...] = ()
    drills: tuple[DrillRun, ...] = ()

    @property
    def alive(self) -> bool:
        return self.driver is not None and self.driver.alive and self.driver.exit is None

    @property
    def supervised(self) -> bool:
        """Something starts the stream again when its driver ends."""
        return self.restarter in (Restarter.DAG, Restarter.SHELL) and self.down is None and not self.stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFact:
    """One batch of the fork: times from its logs, numbers from Spark's report if that survived."""

    batch_id: int
    planned_at: float | None
    committed_at: float | None
    rows: int | None = None
    rows_changed: int | None = None

    @property
    def seconds(self) -> float | None:
        """From plan to commit."""
        if self.planned_at is None or self.committed_at is None:
            return None
        return max(self.committed_at - self.planned_at, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTimes:
    """When a batch was planned, in Unix seconds.

    Args:
        driver: by the driver's clock, as Spark writes it into the plan: the batch's processing time.
        storage: by the clock of the storage that the plan was written to.
    """

    driver: float
    storage: float

    @property
    def difference(self) -> float:
        """Seconds by which the driver's clock was ahead."""
        return self.driver - self.storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict of an independent judge (Great Expectations) on a reconciliation.

    Args:
        judge: name and version of the judge.
        expectations: one row each: name, success, what was observed.
        result: the judge's own full result as JSON.
    """

    judge: str
    success: bool
    expectations: Sequence[Mapping[str, Any]] = ()
    result: Mapping[str, Any] = field(default_factory=dict)

    def on(self, judged: str) -> str:
        """`great_expectations 1.0 accepts the output`."""
        return f"{self.judge} {'accepts' if self.success else 'rejects'} the {judged}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Files of the fork's input that are copies of others.

    Args:
        deduplicated: the output must be that of the input without them.
    """

    files: tuple[str, ...]
    deduplicated: bool = False
