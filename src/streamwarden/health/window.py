"""The input of the checks: one stream's recent measurements, gathered once and passed to every check."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from streamwarden.checkpoint.compact_logs import CompactLog
from streamwarden.checkpoint.filesystem import Location
from streamwarden.checkpoint.formats.logs import LogPosition
from streamwarden.checkpoint.skipped import SkippedBatches
from streamwarden.health.quarantine import QuarantineGap, QuarantineSample
from streamwarden.health.verdict import Verdict
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.lifecycle.queries import Part, QueryRecord
from streamwarden.lifecycle.supervision.restarter import Restarter
from streamwarden.progress import Progress
from streamwarden.stream.spec import StreamSpec

T = TypeVar("T")

DRIVERS_SINCE: Final = 86400.0
"""Seconds before now: a window contains the drivers that were launched or ended since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One number about a stream at a time (Unix seconds), with its unit and where it came from."""

    stream: str
    name: str
    at: float
    value: float
    unit: str
    source: str


TAKEN_BACK: Final = ".before-"
"""In the query id of a batch that a restore took back, followed by the stamp of the restore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch of one query, as stored.

    Args:
        planned_at: when `offsets/N` was written; committed_at: when `commits/N` was. Unix seconds, from the logs.
        progress: Spark's report, None if it was lost (a kill) and the row was filled in from the logs.
    """

    stream: str
    query_id: str
    batch_id: int
    planned_at: float | None = None
    committed_at: float | None = None
    progress: Progress | None = None

    @property
    def stands(self) -> bool:
        """Whether no restore took it back."""
        return TAKEN_BACK not in self.query_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInstance:
    """One state store instance (an operator's partition) as the checkpoint has it. Version v holds batches below v.

    Args:
        snapshot: newest version whose snapshot is uploaded whole; None if there is none.
        version: newest version, snapshot or changelog.
        kept_since: the oldest version from which on each one, up to the newest, can be loaded; None: the newest cannot.
        size: bytes under the instance's folder.
    """

    operator: int
    partition: int
    snapshot: int | None
    version: int | None
    kept_since: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition of a topic: the checkpoint's offsets and the broker's.

    Args:
        planned: the next offset to be planned; first: the oldest one kept; last: the next one to be written.
        committed: the offset after the newest committed batch: records between it and `planned` must be read again.
        since: timestamp of the oldest record that is not committed, Unix seconds; None if there is none, it has no
            timestamp, or the broker did not report it in time.
    """

    partition: int
    planned: int
    committed: int
    first: int
    last: int
    since: float | None = None

    @property
    def waiting(self) -> int:
        """Records that no batch has planned and that can still be read."""
        return max(0, self.last - max(self.planned, self.first))

    @property
    def behind(self) -> int:
        """Records that no committed batch has read and that can still be read: those of a running batch among them."""
        return max(0, self.last - max(self.committed, self.first))

    @property
    def lost(self) -> int:
        """Records that no committed batch has read and that the topic no longer keeps."""
        return max(0, min(self.first, self.last) - self.committed)

    @property
    def rewound(self) -> bool:
        """Whether the topic holds less than was already read, so that it was recreated. The batch that finds this is
        planned to end where the new topic ends, so the committed offset is compared too."""
        return self.last < max(self.planned, self.committed)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingInput:
    """Input that no batch has planned yet: files of a folder, or records of a topic.

    Args:
        count: how many; since: timestamp of the oldest, Unix seconds, None if there are none or it is unknown. It may
            be older than the time at which the input arrived.
        size: their bytes; None if unknown.
        planned: how many the recent batches planned, with `planned_batches` the number of those batches.
        what: the name of one counted item.
        parts: how many wait in each part, if there are parts.
        lost: part -> how many were deleted before a committed batch read them.
        rewound: parts that hold less than was already read: they were recreated.
        partitions: of a topic, each partition's offsets, under the same names as in `parts`.
        topic_id: of a topic, the id that its cluster gave it at its creation; None: unknown.
    """

    count: int
    since: float | None
    size: int | None = None
    planned: int = 0
    planned_batches: int = 0
    what: str = "file"
    parts: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)
    rewound: tuple[str, ...] = ()
    partitions: Mapping[str, PartitionLag] = field(default_factory=dict)
    topic_id: str | None = None


class Service(StrEnum):
    """A kind of server that a stream reads from or writes to."""

    BROKER = "broker"
    DATABASE = "database"

    @property
    def measurement(self) -> str:
        """Name of the measurement of each attempt to reach it: 1 if it answered, 0 if not."""
        return f"{self}_reachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One attempt of the evaluation to reach a service that the stream needs.

    Args:
        connection: name of the connection to it; address: its hosts and ports, as the connection names them.
        reached: None if the attempt says nothing of the service: the connection is not known here, or the service
            answers and refuses this user.
        problem: why it was not reached, in the words of the client library.
    """

    service: Service
    connection: str
    address: str
    reached: bool | None
    problem: str = ""

    @property
    def source(self) -> str:
        """The source of the attempt's measurement."""
        return f"{self.connection} at {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSavepoints:
    """Savepoints that a schedule takes.

    Args:
        root: the folder that has one for each.
        interval: of the schedule at a time (Unix seconds), in seconds.
    """

    root: Location
    interval: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredInput:
    """What the stream's file and its script say of the input, and of where savepoints are.

    Args:
        folders: of the sources.
        recursive: whether they read every subfolder, which may need the script's text.
        savepoints: those of the stream, if they are taken on a schedule.
        before: the evidence of the last verdict of the check that reads.
    """

    folders: Sequence[str]
    recursive: Callable[[], bool]
    savepoints: DeclaredSavepoints | None = None
    before: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Reading(Generic[T]):
    """Something that a check alone wants to know of the checkpoint. It is read in each evaluation.

    Args:
        read: raises StreamwardenError or OSError if it cannot be read.
    """

    read: Callable[[Location, DeclaredInput], T]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The files of a sink that is a table of files with a log.

    Args:
        files: data files that the table has now; small: those of them with fewer bytes than `SMALL`; bytes: of all.
        since: when the table had `MANY` of its small files of today, Unix seconds; None: it has fewer.
        log: files that a reader of the table opens to learn that, besides the newest summary of the log.
        compact: the statement that makes few files of many; summarise: the one that makes the log short.
    """

    SMALL: ClassVar[int] = 16_000_000
    MANY: ClassVar[int] = 100
    UNKNOWN: ClassVar[str] = (
        "No batch is committed yet, the storage of the table does not answer, or the extra that reads such tables is "
        "missing."
    )

    files: int
    small: int
    bytes: int
    since: float | None
    log: int
    compact: str
    summarise: str

    @classmethod
    def of(cls, files: Iterable[tuple[int, float]], *, log: int, compact: str, summarise: str) -> "TableShape":
        """The shape of a table. `files`: bytes of each data file, and when it was added."""
        known = list(files)
        small = sorted(at for size, at in known if size < cls.SMALL)
        return cls(
            files=len(known),
            small=len(small),
            bytes=sum(size for size, _ in known),
            since=small[cls.MANY - 1] if len(small) >= cls.MANY else None,
            log=log,
            compact=compact,
            summarise=summarise,
        )


class Probed(StrEnum):
    """A field of a window that is read outside the store for the checks that name it in their `probes`: the storage, a
    broker or a database may be slow."""

    STATE = "state"
    WAITING = "waiting"
    SKIPPED = "skipped"
    LOGS = "logs"
    QUARANTINED = "quarantined"
    TABLE = "table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Input of every check. Sequences are oldest first.

    Args:
        now: Unix seconds; the checks read no clock.
        batches: recent batches, at most a few hundred.
        older: batches from before `batches`, at growing distances, for the forecast.
        hourly: roll-ups of the size of older state as measurements, for the forecast.
        measurements: numbers that are not in a progress report: resident memory, bytes under `state/`, …
        drivers: the stream's drivers that were launched or ended within `DRIVERS_SINCE`, and always the newest.
        log: position of the checkpoint's offset and commit logs now; None if it could not be read.
        driver_alive: whether the newest driver is alive; None if unknown.
        wanted_stopped: whether the desired state of the stream is stopped, whatever its driver does.
        restarter: what restarts the newest driver if it has ended by a failure.
        state: the checkpoint's state store instances; None if they were not read.
        waiting: input that no batch has planned yet; None if it was not probed, or cannot be.
        skipped: batches that the file sink's manifest skipped; None if the output is no such folder, or was not read.
        answers: of this evaluation's attempts to reach the services that the stream needs; earlier ones are among the
            measurements.
        logs: the compacted logs of the sink and of the sources; None if they were not read.
        table: the files of a sink that is a table; None if it is none, has no batch yet, or was not read.
        quarantined: malformed rows of the newest batch that has some in the quarantine; None if there are none, or if
            they cannot be read here.
        gaps: what the stream's quarantine will never have, of `DRIVERS_SINCE`.
        readings: what the checks' own readings found, without those that could not be read.
        previous: the last verdict of each check, for facts that last longer than the window.
        resting: names of the checks whose last verdict stands: what they alone need was not read.
        part: the judged part of the stream: all of it, its driver, or one of several queries.
        query: the query's record; None if there is none, and for the driver of several queries.
        derived: values that several checks derive from the fields above, cached.
    """

    spec: StreamSpec
    now: float
    batches: tuple[Batch, ...] = ()
    older: tuple[Batch, ...] = ()
    hourly: tuple[Measurement, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    drivers: tuple[DriverRecord, ...] = ()
    log: LogPosition | None = None
    driver_alive: bool | None = None
    wanted_stopped: bool = False
    restarter: Restarter = Restarter.UNKNOWN
    state: tuple[StateInstance, ...] | None = None
    waiting: WaitingInput | None = None
    skipped: SkippedBatches | None = None
    answers: tuple[Answer, ...] = ()
    logs: tuple[CompactLog, ...] | None = None
    table: TableShape | None = None
    quarantined: QuarantineSample | None = None
    gaps: tuple[QuarantineGap, ...] = ()
    readings: Mapping[Reading[Any], object] = field(default_factory=dict)
    previous: Mapping[str, Verdict] = field(default_factory=dict)
    resting: Collection[str] = ()
    part: Part = Part.WHOLE
    query: QueryRecord | None = None
    derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getitem__(self, reading: Reading[T]) -> T | None:
        """What a reading of the check found; None if it could not be read."""
        return cast("T | None", self.readings.get(reading))
