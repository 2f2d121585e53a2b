"""StreamSpec: one supervised Structured Streaming job as data, as a rule one query.

Paths are absolute here: the edge that reads the YAML resolves `job` against the project folder and the data paths
against the data folder. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final

from streamwarden.units import Bytes, Seconds

NAME_PATTERN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""A stream's name becomes a DAG id, a folder and a key of the store: nothing else is allowed in it."""

CONNECTION_PATTERN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,199}")
"""A connection's name becomes part of the name of an environment variable."""

OBJECT_STORE: Final = re.compile(r"s3[an]?://", re.IGNORECASE)
"""What the URL of a place in an object store begins with. A stream writes `s3a`, as Hadoop's client for it is called;
other programs write `s3`, and so do Sparks that bring a client of their own."""

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

    Args:
        options: options of Spark's reader.
    """

    SERVICE: ClassVar[str | None] = None
    """What serves the source over the network: `broker`, `database`; None: nothing does."""
    DECLARED: ClassVar[bool] = False
    """Whether the declaration says what the query reads."""
    OFFSETS: ClassVar[bool] = False
    """Whether the input is a log of records with offsets, from which a retention removes the oldest."""
    REAL_TIME: ClassVar[bool] = False
    """Whether Spark can read the source in real-time mode."""
    CONNECTOR: ClassVar[str | None] = None
    """The connector that Spark needs to read the source; None: Spark reads it by itself."""

    kind: str = "script"
    options: dict[str, str] = field(default_factory=dict)

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
    def limited(self) -> bool:
        """Whether the declaration limits what a batch reads; otherwise the next batch reads all that waits."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSpec:
    """Where output goes. Each kind of sink in `streamwarden.sinks` is a subclass that adds its own keys.

    This class itself is the kind `script`: the job is a whole PySpark script that brings its own sink, about which
    nothing is declared.

    Args:
        mode: output mode of the query.
        options: options of Spark's writer.
    """

    SERVICE: ClassVar[str | None] = None
    """What serves the sink over the network: `broker`, `database`; None: nothing does."""
    DECLARED: ClassVar[bool] = False
    """Whether the declaration says what the query writes."""
    PLACE: ClassVar[str | None] = None
    """The key that names where the sink writes: `path`, `table` or `topic`."""
    IDEMPOTENT: ClassVar[bool] = True
    """Whether the sink skips a batch that it has when the batch runs again."""
    MANIFEST: ClassVar[bool] = False
    """Whether the output is a folder of files that Spark's own manifest lists."""
    INHERITED: ClassVar[bool] = True
    """Whether the output of a fork begins with what its origin wrote; otherwise with the fork's own first batch."""
    QUERY_IN_ROWS: ClassVar[bool] = False
    """Whether each row that a micro-batch writes names its query, so that several streams may write to one place."""
    REAL_TIME: ClassVar[bool] = False
    """Whether Spark can write the sink in real-time mode."""
    CONNECTOR: ClassVar[str | None] = None
    """The connector that Spark needs to write the sink; None: Spark writes it by itself."""

    kind: str = "script"
    mode: OutputMode = OutputMode.APPEND
    options: dict[str, str] = field(default_factory=dict)

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
    def title(self) -> str:
        """What the sink is, in a word or two."""
        return self.kind


_EACH: Final = 2.0
"""Seconds between two batches of a stream that does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    """The object store that `s3a://` paths of the stream are in.

    Args:
        connection: name of the connection to it; None: the host's own `AWS_…` variables, profile or role.
    """

    connection: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    """When a micro-batch starts; or, in real-time mode, how long a batch lasts, each row being written as it comes.

    Args:
        processing_time: start a batch this often; None: as soon as the last one is done, unless one of the others says
            otherwise.
        available_now: process what is there in batches, then end.
        real_time: length of a batch in Spark's real-time mode.
    """

    processing_time: Seconds | None = _EACH
    available_now: bool = False
    real_time: Seconds | None = None

    def __post_init__(self) -> None:
        if self.real_time is None:
            return
        if self.available_now:
            raise ValueError("available_now is true, allowed is one of available_now and real_time")
        if self.processing_time is not None and self.processing_time is not _EACH:  # the default itself: nobody said it
            raise ValueError(
                f"processing_time is {self.processing_time:g} s, allowed is one of processing_time and real_time"
            )
        object.__setattr__(self, "processing_time", None)

    @property
    def interval(self) -> Seconds | None:
        """Seconds from the start of a batch to that of the next, if the stream keeps up; None: as soon as it can."""
        return None if self.available_now else self.real_time or self.processing_time or None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """The state store of the query. `shuffle_partitions` is fixed by the checkpoint at its first batch.

    Args:
        backend: one of Spark's own, or the full class name of another StateStoreProvider; its jar goes into
            `spark.conf`, as `spark.jars`. The driver fails with a clear error if the class is not there.
        bounded_by: what bounds the state where nothing in the query does, in words (`the number of customers`).
    """

    backend: Backend | str = Backend.ROCKSDB
    changelog: bool = True
    shuffle_partitions: int = 4
    ttl: Seconds | None = None
    encoding: Encoding = Encoding.UNSAFEROW
    bounded_by: str = ""

    def __post_init__(self) -> None:
        if self.backend in list(Backend):
            object.__setattr__(self, "backend", Backend(self.backend))
        elif CLASS_PATTERN.fullmatch(self.backend) is None:
            raise ValueError(
                f"backend is {self.backend!r}, allowed is 'rocksdb', 'hdfs' or the full name of a provider's class, "
                "such as com.example.MyStateStoreProvider"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `count` restarts in `per` seconds. YAML: `5 per hour`."""

    count: int = 5
    per: Seconds = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """The first failure of a stream that worked restarts it at once. Any other n-th failure in a row waits
    `initial * factor**(n - 1)`, at most `cap`, within `budget`; `healthy_after` of health forgives all before.

    A driver whose JVM has not answered for `unresponsive_after` is killed, and then restarted as any killed driver.
    """

    initial: Seconds = 30.0
    factor: float = 2.0
    cap: Seconds = 600.0
    budget: Budget = field(default_factory=Budget)
    healthy_after: Seconds = 3600.0
    unresponsive_after: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPolicy:
    """How long a stop waits for the batch boundary before SIGTERM, then how long before SIGKILL."""

    batch_deadline: Seconds = 120.0
    term_deadline: Seconds = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSpec:
    """Overrides of `config/thresholds.yaml`: check name -> threshold name (`warning`, `critical`, …) -> value."""

    thresholds: dict[str, dict[str, float]] = field(default_factory=dict)


class Manager(StrEnum):
    """Who gives a stream its executors."""

    LOCAL = "local"  # nobody: tasks run in the driver
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"


class DeployMode(StrEnum):
    CLIENT = "client"  # the driver runs on the host that launched it, where its keeper looks after it
    CLUSTER = "cluster"  # the driver runs in the cluster: YARN's application master, a pod of Kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorsSpec:
    """The executors of a stream on a cluster; None: Spark's default.

    Args:
        instances: how many; a standalone master is told the cores of all of them instead.
        memory: heap of each; memory_overhead: what it may take beside the heap (Python, RocksDB).
    """

    instances: int | None = None
    cores: int | None = None
    memory: Bytes | None = None
    memory_overhead: Bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSpec:
    """Spark's own settings for this stream. `conf` wins over everything that Streamwarden derives.

    Args:
        master: `local[N]`, `spark://HOST:PORT`, `yarn` or `k8s://https://HOST:PORT`.
        connection: Airflow's Spark connection to the cluster; what it says wins over the keys here.
        queue: of YARN.
        namespace, image, service_account: of Kubernetes.
        principal, keytab: Kerberos; `keytab` is a file. Airflow's Spark connection may hold both instead.
        py_files: `.py`, `.zip` and `.egg` files that are shipped to every executor and put on its Python's path.
        archives: archives that are unpacked beside every executor, as `FILE#FOLDER`.
    """

    master: str = "local[2]"
    deploy_mode: DeployMode = DeployMode.CLIENT
    connection: str | None = None
    driver_memory: Bytes = 2 * 2**30
    executors: ExecutorsSpec = field(default_factory=ExecutorsSpec)
    queue: str | None = None
    namespace: str | None = None
    image: str | None = None
    service_account: str | None = None
    principal: str | None = None
    keytab: str | None = None
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def manager(self) -> Manager | None:
        """Who `master` names; None if it is no master that Spark knows."""
        return next((kind for pattern, kind in _MASTERS if pattern.fullmatch(self.master)), None)


_MASTERS: Final = (
    (re.compile(r"local(\[.+\])?|local-cluster\[.+\]"), Manager.LOCAL),
    (re.compile(r"spark://[^/\s]+"), Manager.STANDALONE),
    (re.compile(r"yarn"), Manager.YARN),
    (re.compile(r"k8s://\S+"), Manager.KUBERNETES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """One stream: `config/streams/NAME.yaml`, validated.

    Args:
        job: absolute path of a Python file. With a top-level `build(spark, spec)` it is a job module; any other PySpark
            script runs unmodified.
        args: command line arguments of a job that is a script; parameters of a job module that takes some.
        queries: of a script that starts several: name -> checkpoint, None where only the name is declared. The script
            then starts these and no others. Empty: its queries are found as they start.
        quarantine: folder for input rows that could not be parsed, kept aside with reason and source file.
        project: folder that holds `config/`; `file` the YAML file this spec came from.
    """

    name: str
    job: str
    checkpoint: str
    description: str = ""
    owner: str = "streamwarden"
    tags: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    queries: dict[str, str | None] = field(default_factory=dict)
    source: SourceSpec = field(default_factory=SourceSpec)
    sink: SinkSpec = field(default_factory=SinkSpec)
    storage: StorageSpec = field(default_factory=StorageSpec)
    quarantine: str | None = None
    trigger: TriggerSpec = field(default_factory=TriggerSpec)
    state: StateSpec = field(default_factory=StateSpec)
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    stop: StopPolicy = field(default_factory=StopPolicy)
    health: HealthSpec = field(default_factory=HealthSpec)
    spark: SparkSpec = field(default_factory=SparkSpec)
    project: str = ""
    file: str = ""

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
        places = {
            "checkpoint": self.checkpoint,
            "sink": self.sink.path,
            "source": self.source.path,
            "quarantine": self.quarantine,
        }
        return frozenset(
            name for name, path in places.items() if path is not None and path.lower().startswith("s3a://")
        )
