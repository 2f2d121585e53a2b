"""StreamSpec: one supervised Structured Streaming job as data, as a rule one query.

Paths are absolute here: the edge that reads the YAML resolves `job` against the project folder and the data paths
against the data folder. Durations are seconds, sizes are bytes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from streamwarden.errors import InvalidValue
from streamwarden.stream.audit import AuditSpec
from streamwarden.stream.publish import PublishSpec
from streamwarden.stream.savepoints import SavepointsSpec
from streamwarden.stream.spark import SparkSpec
from streamwarden.units import Quantity, Seconds, parse_duration

__all__ = ["StreamSpec"]

NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A stream's name becomes a DAG id, a folder and a key of the store: nothing else is allowed in it."""

CONNECTION_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")
"""A connection's name becomes part of the name of an environment variable."""


OBJECT_STORE: Final = re.compile(r"s3[an]?://", re.IGNORECASE)
"""The beginning of the URL of a place in an object store. A stream writes `s3a`, as Hadoop's client for it is called;
other programs, and Spark distributions with their own S3 client, write `s3`."""

HDFS: Final = re.compile(r"hdfs://", re.IGNORECASE)
"""The beginning of the URL of a place in HDFS."""

STORED: Final = re.compile(rf"(?:{OBJECT_STORE.pattern}|{HDFS.pattern})", re.IGNORECASE)
"""The beginning of the URL of a place that Streamwarden reads and writes as it does on a disk of this host."""

FORKED: Final = ("s3a://", "hdfs://")
"""Beginnings of the URLs of places that a fork is made of: Spark's own names for the storages of `STORED`."""

CLASS_PATTERN: Final = re.compile(r"([A-Za-z_$][\w$]*\.)+[A-Za-z_$][\w$]*")
"""The full name of a JVM class, with its package."""


class OutputMode(StrEnum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Encoding(StrEnum):
    UNSAFEROW = "unsaferow"
    AVRO = "avro"


class Backend(StrEnum):
    ROCKSDB = "rocksdb"
    HDFS = "hdfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """Where input comes from. Each kind of source in `streamwarden.sources` is a subclass that adds its own keys.

    This class itself is the kind `script`: the job is a whole PySpark script that brings its own source, about which
    nothing is declared.
    """

    SERVICE: ClassVar[str | None] = None
    """The service behind the source: `broker`, `database`; None: nothing does."""
    DECLARED: ClassVar[bool] = False
    """Whether the declaration describes the query's input."""
    OFFSETS: ClassVar[bool] = False
    """Whether the input is a log of records with offsets, from which a retention removes the oldest."""
    GENERATED: ClassVar[bool] = False
    """Whether Spark makes the rows, by the clock of the driver."""
    TABLE: ClassVar[bool] = False
    """Whether the input is a table: a log names its data files, and a retention removes old ones of both."""
    REAL_TIME: ClassVar[bool] = False
    """Whether Spark can read the source in real-time mode."""
    CONNECTOR: ClassVar[str | None] = None
    """The connector that Spark needs to read the source; None: Spark reads it by itself."""

    kind: str = "script"
    options: dict[str, str] = field(default_factory=dict)
    """options of Spark's reader"""

    @property
    def connection(self) -> str | None:
        """Name of the connection to the service that holds the input."""
        return None

    @property
    def path(self) -> str | None:
        """The folder of a source of files."""
        return None

    @property
    def topic(self) -> str | None:
        """The topic of a source on a broker."""
        return None

    @property
    def parts(self) -> tuple[str, ...]:
        """The subfolders of `path` that are file sources of the query, in its order."""
        return ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder of each file source, in the query's order; none if there is no path."""
        return ()

    @property
    def limit(self) -> int | None:
        """Files or records that a batch reads at most; None: the next batch reads all that waits."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """Where output goes. Each kind of sink in `streamwarden.sinks` is a subclass that adds its own keys.

    This class itself is the kind `script`: the job is a whole PySpark script that brings its own sink, about which
    nothing is declared.
    """

    SERVICE: ClassVar[str | None] = None
    """The service behind the sink: `broker`, `database`; None: nothing does."""
    DECLARED: ClassVar[bool] = False
    """Whether the declaration describes the query's output."""
    PLACE: ClassVar[str | None] = None
    """The key that names where the sink writes: `path`, `table` or `topic`."""
    FORMATS: ClassVar[tuple[str, ...]] = ()
    """Spark's names of the streaming sinks that this kind writes with; none if Spark has no such sink."""
    REPEATS: ClassVar[str | None] = None
    """Why a batch that runs again is written twice; None: the sink skips a batch that it has."""
    MANIFEST: ClassVar[bool] = False
    """Whether the output is a folder of files that Spark's own manifest lists."""
    TABLE_OF_FILES: ClassVar[bool] = False
    """Whether the output is a table of data files under a log, which becomes slow with many small ones."""
    LOG: ClassVar[str | None] = None
    """The folder below `path` in which the sink lists the files of each batch; None: it has no such list."""
    INHERITED: ClassVar[bool] = True
    """Whether the output of a fork begins with its origin's output; otherwise with the fork's own first batch."""
    QUERY_IN_ROWS: ClassVar[bool] = False
    """Whether each row that a micro-batch writes names its query, so that several streams may write to one place."""
    REAL_TIME: ClassVar[bool] = False
    """Whether Spark can write the sink in real-time mode."""
    CONNECTOR: ClassVar[str | None] = None
    """The connector that Spark needs to write the sink; None: Spark writes it by itself."""
    PACKAGE: ClassVar[str | None] = None
    """A package of an extra that the stream's driver imports to write the sink; None: the base is enough."""

    kind: str = "script"
    mode: OutputMode = OutputMode.APPEND
    """output mode of the query"""
    options: dict[str, str] = field(default_factory=dict)
    """options of Spark's writer"""

    @property
    def connection(self) -> str | None:
        """Name of the connection to the service that takes the output."""
        return None

    @property
    def path(self) -> str | None:
        """The folder of a sink that writes files."""
        return None

    @property
    def table(self) -> str | None:
        """The table of a sink in a database."""
        return None

    @property
    def topic(self) -> str | None:
        """The topic of a sink on a broker."""
        return None

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that distinguish a row from all others, where the sink needs them."""
        return ()

    @property
    def place(self) -> str | None:
        """Where the sink writes, as the stream's file names it."""
        return None if self.PLACE is None else str(getattr(self, self.PLACE))

    @property
    def address(self) -> str | None:
        """`place` with what the service adds to it: two sinks on one service with the same address are one."""
        return self.place

    @property
    def spark_format(self) -> str | None:
        """Spark's name of the sink; None if Spark has no name for it, or nothing is declared."""
        return next(iter(self.FORMATS), None)

    @property
    def title(self) -> str:
        """The name of the sink, in a word or two."""
        return self.kind


_EACH: Final = 2.0
"""Seconds between two batches of a stream that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    """The object store that `s3a://` paths of the stream are in."""

    connection: str | None = None
    """of `s3a://` paths: name of the connection to the object store; null: the host's own credentials, from variables
    `AWS_…`, a profile or a role (see [object stores](../how-to/object-stores.md))"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    """When a micro-batch starts; in real-time mode, how long a batch lasts."""

    processing_time: Seconds | None = _EACH
    """start a batch this often; null: as soon as the last one is done"""
    available_now: bool = False
    """process the input that is there in batches, then end"""
    real_time: Seconds | None = None
    """[real-time mode](../how-to/real-time.md), in which rows are written as they arrive: how long a batch lasts, at
    least 5 s"""

    def __post_init__(self) -> None:
        if self.real_time is None:
            return
        if self.available_now:
            raise InvalidValue("true", key="available_now", allowed="one of available_now and real_time")
        # The identity tells the default from a written value: a stream in real-time mode may not write one.
        if self.processing_time is not None and self.processing_time is not _EACH:
            allowed = "one of processing_time and real_time"
            raise InvalidValue(f"{self.processing_time:g} s", key="processing_time", allowed=allowed)
        object.__setattr__(self, "processing_time", None)

    @property
    def written(self) -> bool:
        """Whether the stream's file names a trigger; known only of a file that was just read."""
        return self.available_now or self.real_time is not None or self.processing_time is not _EACH

    @property
    def interval(self) -> Seconds | None:
        """Seconds from the start of a batch to that of the next, if the stream keeps up; None: as soon as it can."""
        return None if self.available_now else self.real_time or self.processing_time or None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """The state store of the query."""

    backend: Backend | str = Backend.ROCKSDB
    """state store, or the full class name of another StateStoreProvider, whose jar goes into `spark.jars` of
    `spark.conf`; the driver fails with an error if the class is missing"""
    changelog: bool = True
    """a commit uploads the changes instead of a snapshot (RocksDB)"""
    shuffle_partitions: int = 4
    """partitions of the state; the checkpoint fixes them at its first batch, `streamwarden repartition` changes them"""
    ttl: Seconds | None = None
    """time to live of state, for a job that asks for it"""
    encoding: Encoding = Encoding.UNSAFEROW
    """encoding of state rows"""
    bounded_by: str = ""
    """what bounds state that no watermark, timeout or TTL bounds, in words, such as `the number of customers` (see
    [SW101](lint.md))"""

    def __post_init__(self) -> None:
        if self.backend in list(Backend):
            object.__setattr__(self, "backend", Backend(self.backend))
        elif CLASS_PATTERN.fullmatch(self.backend) is None:
            allowed = (
                "'rocksdb', 'hdfs' or the full name of a provider's class, such as com.example.MyStateStoreProvider"
            )
            raise InvalidValue(repr(self.backend), key="backend", allowed=allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `count` restarts in `per` seconds. YAML: `5 per hour`."""

    count: int = 5
    per: Seconds = 3600.0


_BUDGET: Final = re.compile(r"([0-9]{1,9})\s+per\s+(\S.*)")


def parse_budget(value: object) -> object:
    """`5 per hour`, `3 per 30m` as the fields of a Budget; a mapping stays as it is. Raises InvalidValue."""
    if isinstance(value, Mapping):
        return value
    match = _BUDGET.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        if match is not None:
            span = match[2]
            return {"count": int(match[1]), "per": parse_duration(f"1 {span}" if span.isalpha() else span)}
    except InvalidValue:
        pass
    raise InvalidValue(repr(value), allowed="a budget such as 5 per hour or 3 per 30m")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The first failure of a stream that worked restarts it at once. Any other n-th failure in a row waits
    `initial * factor**(n - 1)`, at most `cap`, within `budget`; `healthy_after` of health forgives all before.

    A driver whose JVM has not answered for `unresponsive_after` is killed, and then restarted as any killed driver. So
    is one whose checkpoint is in a mounted folder that has not answered, if the store is a server.
    """

    initial: Seconds = 30.0
    """wait after a first failure that followed no committed batch; a stream that worked (a batch was committed since
    the failure before, or its query ran for `healthy_after`) is restarted at once after its first failure"""
    factor: float = 2.0
    """after the n-th failure in a row the wait is `initial` x `factor`^(n-1): with the defaults 60 s after the
    second"""
    cap: Seconds = 600.0
    """longest wait"""
    budget: Annotated[Budget, Quantity("budget", parse_budget)] = field(default_factory=Budget)
    """most failures in a span; beyond it the stream stays down, with an incident"""
    healthy_after: Seconds = 3600.0
    """a query that ran this long resets the count of failures"""
    unresponsive_after: Seconds = 60.0
    """a driver whose JVM has not answered for this long is killed and restarted; it should be longer than the longest
    pause of the garbage collector. With a store in PostgreSQL, the same holds if the mounted folder of its checkpoint
    has not answered; storage that another host reads meanwhile is given up after 15 seconds"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPolicy:
    """How long a stop waits for the batch boundary before SIGTERM, then how long before SIGKILL."""

    batch_deadline: Seconds = 120.0
    """how long a stop waits for the batch boundary before SIGTERM"""
    term_deadline: Seconds = 30.0
    """how long it then waits before SIGKILL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSpec:
    """Overrides of `config/thresholds.yaml`: check name -> threshold name (`warning`, `critical`, …) -> value."""

    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)
    """check -> threshold -> value, over the project's (see [checks](checks.md))"""


class Standby(StrEnum):
    """Whether a second driver process of the stream waits to take over."""

    NONE = "none"  # a restart starts a process
    WARM = "warm"  # a restart takes one whose session is up


class ForeachBatch(StrEnum):
    """How the fork of a script treats a batch that the script hands to its own function."""

    CAPTURE = "capture"  # keeps the rows, and does not call the function
    RUN = "run"  # keeps the rows, and calls the function


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFork:
    """How the fork of a script treats the queries that the script starts. Its checkpoint is the root of theirs.

    Args:
        output: folder of this host that gets a folder for each query.
        queries: the declared queries of the stream, with their own checkpoints.
        batches: about how many batches the input of each source is cut into; None: as the script cuts it.
        connectors: names of the connectors that the stream needs, as its file declares its source and its sink.
        data: the stream's own data folder, if the fork works in another one; empty: it does not.
    """

    output: str
    queries: dict[str, str | None] = field(default_factory=dict)
    foreach_batch: ForeachBatch = ForeachBatch.CAPTURE
    batches: int | None = None
    connectors: tuple[str, ...] = ()
    data: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """One stream: `config/streams/NAME.yaml`, validated. The text below a field is its entry in the reference page.

    A file cannot set `project`, the folder that holds `config/`, `data`, the data folder, `data_url`, what its relative
    paths are below if that is no folder of this host (else empty), `file`, the YAML file of this spec, `fork`, which
    only the fork of a script has, and `last_batch`, which only the fork of a source without an end has: its query ends
    when this batch is committed.
    """

    name: str
    """the stream's name: also the id of its DAG, its folder and its key in the store"""
    job: str
    """Python file with `build(spark, spec)`, or any PySpark script"""
    checkpoint: str
    """the query's checkpoint; its single writer holds a lease on it"""
    description: str = ""
    """one or two sentences, shown in Airflow"""
    owner: str = "streamwarden"
    """the person or team to ask, shown in Airflow"""
    tags: tuple[str, ...] = ()
    """tags of the DAG"""
    args: tuple[str, ...] = ()
    """command line arguments of a job that is a script; parameters of a job module that takes some"""
    queries: dict[str, str | None] = field(default_factory=dict)
    """of a script that starts several queries: query -> checkpoint, null if only the name is declared; see below"""
    source: SourceSpec = field(default_factory=SourceSpec)
    sink: SinkSpec = field(default_factory=SinkSpec)
    storage: StorageSpec = field(default_factory=StorageSpec)
    quarantine: str | None = None
    """folder for input rows that could not be used, with the reason, the file and their place in it"""
    trigger: TriggerSpec = field(default_factory=TriggerSpec)
    state: StateSpec = field(default_factory=StateSpec)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    stop: StopPolicy = field(default_factory=StopPolicy)
    health: HealthSpec = field(default_factory=HealthSpec)
    audit: AuditSpec = field(default_factory=AuditSpec)
    publish: PublishSpec = field(default_factory=PublishSpec)
    savepoints: SavepointsSpec = field(default_factory=SavepointsSpec)
    spark: SparkSpec = field(default_factory=SparkSpec)
    standby: Standby = Standby.NONE
    """`warm`: a second driver process waits on the same host, its Spark session up, and a restart takes it instead of
    starting one (see [warm standby](../how-to/standby.md)); it costs memory"""
    group: str | None = None
    """of small streams that share one JVM on a host: the group's name (see [groups](../how-to/groups.md)); null: a JVM
    of its own. The streams of a group have equal settings under `spark`, apart from `spark.sql.…` in `spark.conf`"""
    queue: str | None = None
    """of Airflow's CeleryExecutor: the queue whose workers start its drivers, on their own hosts; null: Airflow's
    default queue (see [hosts](../how-to/hosts.md)). YARN's queue is `spark.queue`"""
    project: str = ""
    data: str = ""
    data_url: str = ""
    file: str = ""
    fork: ScriptFork | None = None
    last_batch: int | None = None

    @property
    def ends(self) -> bool:
        """Whether its query comes to an end by itself."""
        return self.trigger.available_now or self.last_batch is not None

    def is_last(self, batch: int | None) -> bool:
        """Whether the query ends with this batch, or should have ended before it; False for None, which is none."""
        return self.last_batch is not None and batch is not None and batch >= self.last_batch

    @property
    def checkpoints(self) -> tuple[str, ...]:
        """The declared checkpoints of its queries, each once, `checkpoint` first."""
        return tuple(dict.fromkeys((self.checkpoint, *(path for path in self.queries.values() if path))))

    @property
    def connections(self) -> tuple[str, ...]:
        """Names of the connections that the stream needs, each once."""
        named = (self.source.connection, self.sink.connection, self.storage.connection)
        return tuple(dict.fromkeys(name for name in named if name))

    @property
    def in_object_store(self) -> frozenset[str]:
        """Which of `checkpoint`, `sink`, `source`, `quarantine` are on `s3a://`."""
        return self._places_on("s3a://")

    @property
    def stored(self) -> frozenset[str]:
        """Which of `checkpoint`, `sink`, `source`, `quarantine` are in a storage that a fork is made of."""
        return self._places_on(*FORKED)

    def _places_on(self, *schemes: str) -> frozenset[str]:
        places = {
            "checkpoint": self.checkpoint,
            "sink": self.sink.path,
            "source": self.source.path,
            "quarantine": self.quarantine,
        }
        return frozenset(name for name, path in places.items() if path is not None and path.lower().startswith(schemes))
