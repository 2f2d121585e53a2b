"""The table of causes: why a driver ends, whether a restart may cure it, and what a person does next. Pure.

One table for every sink and every source: a cause is recognised in the whole chain of exceptions, by Spark's error
condition, by an exception's class, by the client whose code failed, and by the words of Spark, Java or a server where
nothing else tells. Words of Streamwarden's own messages decide nothing.

The rows are ordered. The first that fits any link of the chain counts, so what passes by itself (a full disk, a server
that is away) stands before the damage that it looks like from outside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from streamwarden.lifecycle.chain import Chain, Link, is_ours, same_class


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What a link of the chain shows. All that is given has to hold for the same link.

    Args:
        condition: Spark's error condition, with `*` for any part; a condition covers its sub-conditions.
        kind: class of the exception, or of one that it inherits from in Python.
        words: a regular expression that is searched in the class and message.
        client: package of a class in the stack trace.
    """

    condition: str = ""
    kind: str = ""
    words: str = ""
    client: str = ""

    def fits(self, link: Link) -> bool:
        return (
            (not self.condition or _covers(self.condition, link.condition))
            and (not self.kind or same_class(self.kind, link.kind))
            and (not self.words or self._is_said(link))
            and (not self.client or any(frame.startswith(self.client) for frame in link.frames))
        )

    def _is_said(self, link: Link) -> bool:
        return not is_ours(link.kind) and re.search(self.words, f"{link.kind}: {link.message}") is not None

    def __str__(self) -> str:
        parts = [f"`{self.condition or self.kind}`" if self.condition or self.kind else ""]
        parts += [f"with `{self.words}`" if self.words else "", f"from `{self.client}`" if self.client else ""]
        return " ".join(part for part in parts if part)


def _covers(condition: str, actual: str | None) -> bool:
    return actual is not None and any(fnmatchcase(actual, each) for each in (condition, f"{condition}.*"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One row of the table.

    Args:
        what: the cause in words, as a clause: it begins the exit's message, unless the error says it itself.
        curable: whether a restart may help. What is not curable stays down until a person acts.
        outage: whether something that the stream needs is away.
        fenced: whether another driver has taken over.
        before_start: counts only for a job whose query has not started: the same error of a batch may pass.
    """

    what: str
    curable: bool
    next_step: str
    signs: tuple[Sign, ...]
    outage: bool = False
    fenced: bool = False
    before_start: bool = False

    @property
    def ours(self) -> bool:
        """Whether an error of Streamwarden's own shows it, which says in its message what is the case."""
        return any(is_ours(sign.kind) for sign in self.signs)


def _conditions(*names: str) -> tuple[Sign, ...]:
    return tuple(Sign(condition=name) for name in names)


def _classes(*names: str, client: str = "") -> tuple[Sign, ...]:
    return tuple(Sign(kind=name, client=client) for name in names)


def _words(*patterns: str) -> tuple[Sign, ...]:
    return tuple(Sign(words=pattern) for pattern in patterns)


_NO_CONNECTION: Final = (
    "java.net.ConnectException",
    "java.net.NoRouteToHostException",
    "java.net.SocketTimeoutException",
    "org.apache.hadoop.net.ConnectTimeoutException",
)
_KAFKA: Final = "org.apache.kafka.common.errors."
_S3A: Final = "org.apache.hadoop.fs.s3a."
_GOES_ON: Final = "the stream goes on where it stood"

TOPIC_RECREATED: Final = Cause(
    what="the topic was deleted and recreated",
    curable=False,
    next_step="the topic was recreated: it holds less than the stream has read of it already, and no offset of the "
    "checkpoint fits it. Use a new checkpoint path, and a new place for the output: a folder's manifest and a table's "
    "ledger know the batches of the old query",
    signs=(
        *_conditions("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "KAFKA_DATA_LOSS.PARTITIONS_DELETED"),
        *_words(
            r"Partition \S+ offset was changed from \d+ to \d+",
            r"Partitions [^\n]+ have been deleted",
        ),
    ),
)
"""Not every such topic shows: one that has grown beyond the stream's offsets is read on from there."""

LOST_INPUT: Final = Cause(
    what="records are gone from the topic before the stream has read them",
    curable=False,
    next_step="records that were not read yet are gone from the topic (its retention passed, or it was recreated): "
    'to go on without them, set failOnDataLoss: "false" in source.options for one start; if the topic was deleted and '
    "recreated, use a new checkpoint path and a new place for the output",
    signs=(
        *_conditions("KAFKA_DATA_LOSS"),
        *_words(r"Some data may have been lost because they are not available in Kafka"),
    ),
)

MASTER_AWAY: Final = Cause(
    what="the Spark master does not answer",
    curable=True,
    outage=True,
    next_step=f"bring the master back, or correct spark.master; {_GOES_ON}",
    signs=_words(r"All masters are unresponsive", r"Master removed our application"),
)
"""Spark's exception says no more than that the context was stopped: the driver asks the master itself, too."""

FORGOTTEN: Final = "ApplicationForgotten"
"""Error class of a driver that ended because the master does not know its application any more."""

API_SERVER_AWAY: Final = Cause(
    what="the API server of Kubernetes does not answer",
    curable=True,
    outage=True,
    next_step=f"see that the cluster's API server runs and that spark.master names it; {_GOES_ON}",
    signs=(
        Sign(kind="java.io.IOException", client="io.fabric8.kubernetes"),
        *_classes(*_NO_CONNECTION, client="io.fabric8.kubernetes"),
    ),
)

HOST_UNKNOWN: Final = Cause(
    what="the name of a host cannot be resolved",
    curable=True,
    outage=True,
    next_step="see that the name server answers on the driver's host and that the host in the message is spelled "
    f"right; {_GOES_ON}",
    signs=(
        *_classes("java.net.UnknownHostException", "java.nio.channels.UnresolvedAddressException", "socket.gaierror"),
        *_words(r"No resolvable bootstrap urls", r"UnknownHostException: "),
    ),
)

_OWN: Final = (
    Cause(
        what="the store of Streamwarden does not answer",
        curable=True,
        outage=True,
        next_step="bring the store of Streamwarden back (`streamwarden status` says where it is); the stream then goes "
        "on where it stood",
        signs=_classes("StoreError", "StoreBusy"),
    ),
    Cause(
        what="what the stream writes to is away",
        curable=True,
        outage=True,
        next_step="bring back what the sink writes to (the database, the broker, its topic), or look at its log; the "
        "cut batch then runs again",
        signs=_classes("SinkError", "SinkInterrupted"),
    ),
    Cause(
        what="the stream's file, its connections or its job are wrong",
        curable=False,
        next_step="correct the job or the stream's YAML file, then start the stream again",
        signs=_classes("ConfigError", "ConfigFileError", "JobError"),
    ),
)

_HOST: Final = (
    Cause(
        what="another query wrote to the checkpoint",
        curable=True,
        fenced=True,
        next_step="another query wrote to this checkpoint: find it and stop it, then start the stream again",
        signs=(
            *_conditions("CONCURRENT_STREAM_LOG_UPDATE"),
            *_words(r"ConcurrentModificationException.*(?:log|batch)"),
        ),
    ),
    Cause(
        what="the disk is full",
        curable=True,
        next_step="free space under the checkpoint and the output (df -h); the stream then goes on where it stood",
        signs=_words(r"No space left on device", r"Disk quota exceeded", r"ENOSPC"),
    ),
    Cause(
        what="memory ran out",
        curable=True,
        next_step="raise spark.driver_memory of the stream, or make its batches smaller "
        "(max_files_per_trigger, max_offsets_per_trigger)",
        signs=(
            *_classes("java.lang.OutOfMemoryError", "MemoryError"),
            *_words(r"OutOfMemoryError", r"GC overhead limit"),
        ),
    ),
)

_REFUSALS: Final = (
    Cause(
        what="driver and broker do not trust each other's certificates",
        curable=False,
        next_step="driver and broker do not trust each other's certificates. In the broker's connection "
        "ssl.ca.location has to hold the authority of the broker's, which is made out to the host that "
        "bootstrap.servers names; ssl.certificate.location and ssl.key.location what the broker wants of its clients",
        signs=(
            *_classes("java.security.cert.CertificateException", "java.security.cert.CertificateExpiredException"),
            *_words(
                r"unable to find valid certification path",
                r"PKIX path",
                r"No subject alternative",
                r"No name matching",
                r"CertificateException|CertificateExpired",
                r"bad_certificate|certificate_(?:required|unknown|expired)|handshake_failure",
            ),
        ),
    ),
    Cause(
        what="a certificate or key cannot be used",
        curable=False,
        next_step="a certificate or key of the broker's connection cannot be used: PEM files, the key in PKCS #8, with "
        "ssl.key.password if it is encrypted",
        signs=_words(r"Invalid PEM", r"entries in PEM file", r"Private key could not be loaded"),
    ),
    Cause(
        what="the broker does not let the user in",
        curable=False,
        next_step="the broker does not let this user in: correct the user, password or certificate of the connection, "
        "or its rights on the topic",
        signs=_classes(
            f"{_KAFKA}SaslAuthenticationException",
            f"{_KAFKA}SslAuthenticationException",
            f"{_KAFKA}TopicAuthorizationException",
            f"{_KAFKA}GroupAuthorizationException",
            f"{_KAFKA}ClusterAuthorizationException",
        ),
    ),
    Cause(
        what="the object store does not let the key in",
        curable=False,
        next_step="the object store does not let this key in: correct the login and password of the connection that "
        "storage.connection names, or what the key may do in the bucket",
        signs=(
            Sign(kind="AccessDeniedException", words=r"s3a:"),
            *_classes(f"{_S3A}auth.NoAuthWithAWSException", f"{_S3A}CredentialInitializationException"),
            *_words(
                r"s3a:[\s\S]*(?:AccessDenied|Status Code: 403)",
                r"InvalidAccessKeyId|SignatureDoesNotMatch|NoAuthWithAWSException|CredentialInitializationException",
            ),
        ),
    ),
    Cause(
        what="there is no such bucket",
        curable=False,
        next_step="there is no such bucket: create it, or correct the s3a:// paths, or the region and the endpoint of "
        "the connection that storage.connection names",
        signs=(*_classes(f"{_S3A}UnknownStoreException"), *_words(r"NoSuchBucket\b")),
    ),
    Cause(
        what="the driver has no jars for s3a:// paths",
        curable=False,
        next_step="the driver has no jars for s3a:// paths: run `streamwarden prepare --s3` on its host",
        signs=_words(r"S3AFileSystem not found", r"No FileSystem for scheme .?s3a", r"CheckpointFileManager not found"),
    ),
)

_AWAY: Final = (
    HOST_UNKNOWN,
    MASTER_AWAY,
    Cause(
        what="the Spark master was restarted and does not know the application any more",
        curable=True,
        next_step="nothing to do: the next driver registers with the new master. With spark.deploy.recoveryMode a "
        "master keeps its applications through a restart",
        signs=_classes(FORGOTTEN),
    ),
    API_SERVER_AWAY,
    Cause(
        what="the ResourceManager of YARN does not answer",
        curable=True,
        outage=True,
        next_step="see that the ResourceManager runs and that the Hadoop configuration of the driver's host names it; "
        f"{_GOES_ON}",
        signs=_classes(*_NO_CONNECTION, client="org.apache.hadoop.yarn"),
    ),
    Cause(
        what="the NameNode of HDFS does not answer",
        curable=True,
        outage=True,
        next_step=f"see that the NameNode runs, is active and has left its safe mode; {_GOES_ON}",
        signs=(
            *_classes(*_NO_CONNECTION, client="org.apache.hadoop.hdfs"),
            *_classes("org.apache.hadoop.ipc.StandbyException"),
            *_words(r"SafeModeException|org\.apache\.hadoop\.ipc\.StandbyException"),
        ),
    ),
    Cause(
        what="the object store does not answer",
        curable=True,
        outage=True,
        next_step="the object store does not answer: see that it runs and that the connection's endpoint_url is right; "
        f"{_GOES_ON}",
        signs=(
            *_classes("software.amazon.awssdk.core.exception.SdkClientException", f"{_S3A}AWSClientIOException"),
            *_words(
                r"(?:software\.amazon\.awssdk|s3a:)[\s\S]*(?:Unable to execute HTTP request|Connection refused"
                r"|UnknownHostException|ConnectTimeoutException|SocketTimeoutException|Status Code: 50[023]"
                r"|AWSClientIOException|ConnectException)"
            ),
        ),
    ),
    Cause(
        what="the topic is not there",
        curable=True,
        next_step="create the topic, or correct source.topic or sink.topic",
        signs=(
            *_classes(f"{_KAFKA}UnknownTopicOrPartitionException"),
            *_words(r"Topic \S+ not present in metadata"),
        ),
    ),
    Cause(
        what="the Kafka broker does not answer",
        curable=True,
        outage=True,
        next_step="the broker does not answer: see that it runs and that the connection names its host and port; "
        f"{_GOES_ON}",
        signs=(
            *_classes(
                f"{_KAFKA}TimeoutException",
                f"{_KAFKA}DisconnectException",
                f"{_KAFKA}BrokerNotAvailableException",
                f"{_KAFKA}CoordinatorNotAvailableException",
            ),
            *_words(
                r"Timed out waiting for a node assignment",
                r"Failed to (?:create new|construct) [Kk]afka",
            ),
        ),
    ),
    Cause(
        what="the database does not answer",
        curable=True,
        outage=True,
        next_step=f"look at the database server: is it up, does it take connections; {_GOES_ON}",
        signs=(
            *_classes(
                "java.sql.SQLTransientConnectionException",
                "java.sql.SQLNonTransientConnectionException",
                "psycopg.errors.ConnectionTimeout",
            ),
            Sign(kind="OperationalError", words=r"refused|timeout expired|closed the connection|(?:start|shutt)ing"),
            Sign(kind="org.postgresql.util.PSQLException", words=r"refused|connection attempt failed"),
            *_classes(*_NO_CONNECTION, client="org.postgresql"),
            *_classes(*_NO_CONNECTION, client="com.mysql"),
        ),
    ),
    Cause(
        what="the driver's JVM is gone",
        curable=True,
        next_step="read driver.log for what ended the JVM, and the system's journal for the out-of-memory killer",
        signs=_classes("py4j.protocol.Py4JNetworkError"),
    ),
    Cause(
        what="a server that the job calls does not answer",
        curable=True,
        outage=True,
        next_step=f"the message and driver.log name the server: see that it runs; {_GOES_ON}",
        signs=_classes(
            *_NO_CONNECTION,
            "java.net.http.HttpConnectTimeoutException",
            "builtins.ConnectionError",
            "builtins.TimeoutError",
            "requests.exceptions.ConnectionError",
            "urllib.error.URLError",
        ),
    ),
)

_REAL_TIME: Final = (
    Cause(
        what="the checkpoint was written in micro-batches",
        curable=False,
        next_step="this checkpoint was written in micro-batches: real-time mode needs a separate one, so give the "
        "stream a new checkpoint path (and say with startingOffsets in source.options where it begins)",
        signs=(
            *_conditions("STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED"),
            *_words(r"CHECKPOINT_FORMAT_V1_NOT_SUPPORTED"),
        ),
    ),
    Cause(
        what="real-time mode does not know an operator of the query",
        curable=False,
        next_step="real-time mode knows projections, filters, groupBy().agg() and dropDuplicates, and no "
        "transformWithState, session windows or joins of streams: change the job, or take trigger.processing_time",
        signs=_conditions(
            "STREAMING_REAL_TIME_MODE", "*REAL_TIME_MODE_TRIGGER_INTERVAL*", "*PIPELINED_SHUFFLE_UNSUPPORTED*"
        ),
    ),
    Cause(
        what="there are fewer cores than tasks that run at the same time",
        curable=True,
        next_step="in real-time mode a task for each partition of topic and state runs at the same time, and "
        "one for the quarantine: raise spark.master of the stream to local[N], N at least all of them together (or "
        "the cluster's cores), or lower state.shuffle_partitions",
        signs=_conditions("CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"),
    ),
)

RESTORE: Final = (
    "run `streamwarden inspect` on the checkpoint; restore it from a savepoint, or start with a new checkpoint path"
)

_CHECKPOINT: Final = (
    Cause(
        what="a field of the state changed in a way that Avro does not allow",
        curable=False,
        next_step="a field of Avro-encoded state may come, go, move or widen (INT to BIGINT), nothing else: undo the "
        "change, or give the field a new name and read the old one while it is there, or start with a new checkpoint "
        "path",
        signs=_conditions("STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
    ),
    Cause(
        what="the state's schema has changed too often",
        curable=False,
        next_step="the state's schema has changed too often: raise the setting that the message names in spark.conf of "
        "the stream, or start with a new checkpoint path",
        signs=_conditions(
            "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        ),
    ),
    Cause(
        what="the job's state no longer fits the checkpoint",
        curable=False,
        next_step="the job's state no longer fits the checkpoint: undo the change of the job or the state settings, "
        "or start with a new checkpoint path",
        signs=_conditions(
            "STATE_STORE_*SCHEMA_*",
            "STATE_STORE_KEY_ROW_FORMAT*",
            "STATE_STORE_VALUE_ROW_FORMAT*",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        ),
    ),
    Cause(
        what="the stateful operators are not those of the checkpoint",
        curable=False,
        next_step="stateful operators were added, removed or reordered: undo that, or start with a new checkpoint path",
        signs=_conditions("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"),
    ),
    Cause(
        what="the checkpoint is damaged",
        curable=False,
        next_step=RESTORE,
        signs=(
            *_conditions(
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
                "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
                "CANNOT_LOAD_STATE_STORE",
                "AUTO_SNAPSHOT_REPAIR_FAILED",
                "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
                "BATCH_METADATA_NOT_FOUND",
                "*MISSING_TIMESTAMP_OFFSET*",
                "STDS_FAILED_TO_READ_OPERATOR_METADATA",
                "*MALFORMED_LOG_FILE*",
                "*UNEXPECTED_STATE_STORE*",
            ),
            *_classes(
                "com.fasterxml.jackson.core.io.JsonEOFException",
                "com.fasterxml.jackson.core.JsonParseException",
                "com.fasterxml.jackson.databind.exc.MismatchedInputException",
                "org.json4s.MappingException",
                client="org.apache.spark.sql.execution.streaming.checkpointing",
            ),
            *_words(
                r"Incomplete log file",
                r"Log file was malformed",
                r"CheckpointInfo length: 0",
                r"RocksDB .*(?:corrupt|Corruption)",
                r"batch \d+ doesn't exist",
                r"does not exist.*(?:offsets|sources|commits)/\d+",
            ),
        ),
    ),
    Cause(
        what="the sources of the job changed",
        curable=False,
        next_step="the sources of the job changed: undo that, or start with a new checkpoint path",
        signs=(
            *_conditions("STREAMING_SOURCE_EVOLUTION*", "*SOURCE_COUNT_MISMATCH*"),
            *_words(
                r"number of sources in the checkpoint",
                r"sources? in the checkpoint offsets",
                r"assertion failed: There are \[\d+\] sources",
            ),
        ),
    ),
    Cause(
        what="the checkpoint does not belong to the stream, or cannot be read",
        curable=False,
        next_step=RESTORE,
        signs=_classes("CheckpointError"),
    ),
)

_JOB: Final = (
    Cause(
        what="an input record cannot be parsed",
        curable=False,
        next_step="declare `quarantine:` in the stream's file, so that rows that do not fit are kept aside, or correct "
        "the input file",
        signs=(*_conditions("MALFORMED_RECORD_IN_PARSING"), *_words(r"JsonParseException")),
    ),
    Cause(
        what="the job or the stream's settings are wrong",
        curable=False,
        next_step="correct the job or the stream's YAML file, then start the stream again",
        signs=(
            *_classes("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError", "NameError"),
            *_classes("AnalysisException", "ParseException"),
            *_conditions(
                "UNRESOLVED_COLUMN",
                "TABLE_OR_VIEW_NOT_FOUND",
                "PATH_NOT_FOUND",
                "DATA_SOURCE_NOT_FOUND",
                "UNSUPPORTED_STREAMING_OPERATOR*",
                "UNSUPPORTED_FEATURE",
                "STREAMING_OUTPUT_MODE*",
                "INVALID_CONF_VALUE",
            ),
        ),
    ),
    Cause(
        what="a file or a class that the job names is not there",
        curable=False,
        before_start=True,
        next_step="put it there or correct its name in the job or the stream's YAML file, then start the stream again",
        signs=(
            *_classes("FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "PermissionError"),
            *_classes("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError"),
        ),
    ),
)

CAUSES: Final[tuple[Cause, ...]] = (
    *_OWN[:2],
    *_HOST,
    *_OWN[2:],
    *_REFUSALS,
    *_AWAY,
    TOPIC_RECREATED,
    LOST_INPUT,
    *_REAL_TIME,
    *_CHECKPOINT,
    *_JOB,
)


def cause_of(chain: Sequence[Link], *, started: bool = True) -> Cause | None:
    """The first row that fits a link of the chain; None: the cause is not known, and a restart may help.

    Args:
        started: whether the query had started.
    """
    rows = (cause for cause in CAUSES if not (cause.before_start and started))
    return next((cause for cause in rows if _shows(cause, chain)), None)


def _shows(cause: Cause, chain: Chain | Sequence[Link]) -> bool:
    return any(sign.fits(link) for sign in cause.signs for link in chain)
