"""Why a driver ended: Spark's error classes and process exits, turned into a record a person can act on. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.state_change import state_change
from streamwarden.lifecycle.stop import StopRequest

MESSAGE_LIMIT: Final = 600
"""Characters of a recorded message: Spark's own run to pages of plans and stack frames."""

OUT_OF_MEMORY_CODE: Final = 3
"""Exit code of a JVM that ran with -XX:+ExitOnOutOfMemoryError."""

FENCED_CODE: Final = 10
"""Exit code of a runner that lost its lease."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One known reason. `pattern` is searched in the error class and the message; the first that matches counts."""

    pattern: re.Pattern[str]
    curable: bool
    next_step: str
    fenced: bool = False


def _cause(pattern: str, *, curable: bool, next_step: str, fenced: bool = False) -> Cause:
    return Cause(re.compile(pattern), curable, next_step, fenced)


_RESTORE: Final = (
    "run `streamwarden inspect` on the checkpoint; restore it from a savepoint, or start with a new checkpoint path"
)

TOPIC_ANEW: Final = _cause(
    r"KAFKA_DATA_LOSS\.(?:PARTITION_OFFSET_CHANGED|PARTITIONS_DELETED)"
    r"|Partition \S+ offset was changed from \d+ to \d+|Partitions [^\n]+ have been deleted",
    curable=False,
    next_step="the topic was made anew: it holds less than the stream has read of it already, and no offset of the "
    "checkpoint fits it. Use a new checkpoint path, and a new place for the output: a folder's manifest and a table's "
    "ledger know the batches of the old query",
)
"""Not every such topic shows: one that has grown beyond the stream's offsets is read on from there."""

LOST_INPUT: Final = _cause(
    r"KAFKA_DATA_LOSS|Some data may have been lost because they are not available in Kafka",
    curable=False,
    next_step="records that were not read yet are gone from the topic (its retention passed, or it was made anew): "
    'to go on without them, set failOnDataLoss: "false" in source.options for one start; after a topic was made '
    "anew, use a new checkpoint path",
)

CAUSES: Final = (
    _cause(
        r"\bStore(?:Error|Busy)\b",
        curable=True,
        next_step="bring the store of Streamwarden back (`streamwarden status` says where it is); the stream then goes "
        "on where it stood",
    ),
    _cause(
        r"\bSinkError\b",
        curable=True,
        next_step="bring back what the sink writes to (the database, the broker, its topic), or look at its log; the "
        "cut batch then runs again",
    ),
    _cause(
        r"CONCURRENT_STREAM_LOG_UPDATE|ConcurrentModificationException.*(?:log|batch)",
        curable=True,
        fenced=True,
        next_step="another query wrote to this checkpoint: find it and stop it, then start the stream again",
    ),
    _cause(
        r"No space left on device|Disk quota exceeded|ENOSPC",
        curable=True,
        next_step="free space under the checkpoint and the output (df -h); the stream then goes on where it stood",
    ),
    _cause(
        r"OutOfMemoryError|GC overhead limit",
        curable=True,
        next_step="raise spark.driver_memory of the stream, or make its batches smaller "
        "(max_files_per_trigger, max_offsets_per_trigger)",
    ),
    _cause(
        r"CHECKPOINT_FORMAT_V1_NOT_SUPPORTED",
        curable=False,
        next_step="this checkpoint was written in micro-batches: real-time mode needs one of its own, so give the "
        "stream a new checkpoint path (and say with startingOffsets in source.options where it begins)",
    ),
    _cause(
        r"STREAMING_REAL_TIME_MODE|REAL_TIME_MODE_TRIGGER_INTERVAL|PIPELINED_SHUFFLE_UNSUPPORTED",
        curable=False,
        next_step="real-time mode knows projections, filters, groupBy().agg() and dropDuplicates, and no "
        "transformWithState, session windows or joins of streams: change the job, or take trigger.processing_time",
    ),
    _cause(
        r"CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT",
        curable=True,
        next_step="in real-time mode a task for each partition of topic and state runs at the same time, and "
        "one for the quarantine: raise spark.master of the stream to local[N], N at least all of them together (or "
        "the cluster's cores), or lower state.shuffle_partitions",
    ),
    _cause(
        r"STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
        curable=False,
        next_step="a field of Avro-encoded state may come, go, move or widen (INT to BIGINT), nothing else: undo the "
        "change, or give the field a new name and read the old one while it is there, or start with a new checkpoint "
        "path",
    ),
    _cause(
        r"STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED|STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        curable=False,
        next_step="the state's schema has changed too often: raise the setting that the message names in spark.conf of "
        "the stream, or start with a new checkpoint path",
    ),
    _cause(
        r"STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_KEY_ROW_FORMAT|STATE_STORE_VALUE_ROW_FORMAT"
        r"|STATE_STORE_.*SCHEMA_|STATE_STORE_INVALID_CONFIG_AFTER_RESTART|STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        curable=False,
        next_step="the job's state no longer fits the checkpoint: undo the change of the job or the state settings, "
        "or start with a new checkpoint path",
    ),
    _cause(
        r"STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        curable=False,
        next_step="stateful operators were added, removed or reordered: undo that, or start with a new checkpoint path",
    ),
    _cause(
        r"STREAMING_CHECKPOINT_MISSING_METADATA_FILE|STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
        r"|CANNOT_LOAD_STATE_STORE|AUTO_SNAPSHOT_REPAIR_FAILED|STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"
        r"|BATCH_METADATA_NOT_FOUND|MISSING_TIMESTAMP_OFFSET|Incomplete log file|Log file was malformed"
        r"|STDS_FAILED_TO_READ_OPERATOR_METADATA|CheckpointInfo length: 0"
        r"|MALFORMED_LOG_FILE|UNEXPECTED_STATE_STORE|RocksDB .*(?:corrupt|Corruption)"
        r"|batch \d+ doesn't exist|does not exist.*(?:offsets|sources|commits)/\d+",
        curable=False,
        next_step=_RESTORE,
    ),
    _cause(
        r"STREAMING_SOURCE_EVOLUTION|number of sources in the checkpoint|sources? in the checkpoint offsets"
        r"|SOURCE_COUNT_MISMATCH|assertion failed: There are \[\d+\] sources",
        curable=False,
        next_step="the sources of the job changed: undo that, or start with a new checkpoint path",
    ),
    TOPIC_ANEW,
    LOST_INPUT,
    _cause(
        r"unable to find valid certification path|PKIX path|No subject alternative|No name matching"
        r"|CertificateException|CertificateExpired|bad_certificate|certificate_(?:required|unknown|expired)"
        r"|handshake_failure",
        curable=False,
        next_step="driver and broker do not trust each other's certificates. In the broker's connection "
        "ssl.ca.location has to hold the authority of the broker's, which is made out to the host that "
        "bootstrap.servers names; ssl.certificate.location and ssl.key.location what the broker wants of its clients",
    ),
    _cause(
        r"Invalid PEM|entries in PEM file|Private key could not be loaded",
        curable=False,
        next_step="a certificate or key of the broker's connection cannot be used: PEM files, the key in PKCS #8, with "
        "ssl.key.password if it is encrypted",
    ),
    _cause(
        r"SaslAuthenticationException|SslAuthenticationException|TopicAuthorizationException"
        r"|GroupAuthorizationException|ClusterAuthorizationException",
        curable=False,
        next_step="the broker does not let this user in: correct the user, password or certificate of the connection, "
        "or its rights on the topic",
    ),
    _cause(
        r"UnknownTopicOrPartitionException|Topic \S+ not present in metadata",
        curable=True,
        next_step="create the topic, or correct source.topic or sink.topic",
    ),
    _cause(
        r"org\.apache\.kafka\.common\.errors\.TimeoutException|Timed out waiting for a node assignment"
        r"|Failed to (?:create new|construct) Kafka|No resolvable bootstrap urls",
        curable=True,
        next_step="the broker does not answer: see that it runs and that the connection names its host and port; the "
        "stream then goes on where it stood",
    ),
    _cause(
        r"AccessDeniedException[\s\S]*s3a:|s3a:[\s\S]*(?:AccessDenied|Status Code: 403|NoAuthWithAWSException)"
        r"|InvalidAccessKeyId|SignatureDoesNotMatch|NoAuthWithAWSException|CredentialInitializationException",
        curable=False,
        next_step="the object store does not let this key in: correct the login and password of the connection that "
        "storage.connection names, or what the key may do in the bucket",
    ),
    _cause(
        r"UnknownStoreException|NoSuchBucket\b",
        curable=False,
        next_step="there is no such bucket: create it, or correct the s3a:// paths, or the region and the endpoint of "
        "the connection that storage.connection names",
    ),
    _cause(
        r"S3AFileSystem not found|No FileSystem for scheme .?s3a|CheckpointFileManager not found",
        curable=False,
        next_step="the driver has no jars for s3a:// paths: run `streamwarden prepare --s3` on its host",
    ),
    _cause(
        r"(?:software\.amazon\.awssdk|s3a:)[\s\S]*(?:Unable to execute HTTP request|Connection refused"
        r"|UnknownHostException|ConnectTimeoutException|SocketTimeoutException|Status Code: 50[023]"
        r"|AWSClientIOException|ConnectException)",
        curable=True,
        next_step="the object store does not answer: see that it runs and that the connection's endpoint_url is right; "
        "the stream then goes on where it stood",
    ),
    _cause(
        r"MALFORMED_RECORD_IN_PARSING|JsonParseException",
        curable=False,
        next_step="declare `quarantine:` in the stream's file, so that rows that do not fit are kept aside, or correct "
        "the input file",
    ),
    _cause(
        r"\b(?:ConfigError|JobError|CheckpointError|SyntaxError|IndentationError|ImportError|ModuleNotFoundError"
        r"|NameError)\b|ParseException|AnalysisException|UNRESOLVED_COLUMN|TABLE_OR_VIEW_NOT_FOUND|PATH_NOT_FOUND"
        r"|DATA_SOURCE_NOT_FOUND|UNSUPPORTED_STREAMING_OPERATOR|UNSUPPORTED_FEATURE|STREAMING_OUTPUT_MODE",
        curable=False,
        next_step="correct the job or the stream's YAML file, then start the stream again",
    ),
)


def classify(error_class: str | None, message: str) -> Cause | None:
    """The known cause of an error, or None."""
    text = f"{error_class or ''} {message}"
    return next((cause for cause in CAUSES if cause.pattern.search(text)), None)


def failure(error_class: str | None, message: str, *, at: float, cut_batch: bool | None, built: bool) -> ExitRecord:
    """The record of a query or job that raised.

    Args:
        built: the query had started. What a job raises before that would be raised again by a restart: not curable,
            unless the cause is known to be (a full disk, no memory).
    """
    cause = classify(error_class, message)
    change = state_change(message)
    if change is not None:  # first: Spark prints both schemas whole and leaves it to the reader to compare them
        message = f"{change}: {message}"
    if cause is None:
        curable = built
        next_step = (
            "read driver.log; a restart repeats the batch"
            if built
            else "correct the job or its settings, then start the stream again"
        )
    else:
        curable, next_step = cause.curable, cause.next_step
    return ExitRecord(
        kind=ExitKind.FENCED if cause is not None and cause.fenced else ExitKind.FAILED,
        ended_at=at,
        error_class=error_class,
        message=shortened(message),
        curable=curable,
        cut_batch=cut_batch,
        next_step=next_step,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How the process ended, as its keeper saw it. `error`: it could not even be started."""

    ended_at: float
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None


def compose(
    outcome: ExitRecord | None,
    process: ProcessExit | None,
    *,
    now: float,
    stop: StopRequest | None = None,
    log_tail: str = "",
    cut_batch: bool | None = None,
) -> ExitRecord:
    """One record from what the runner said and what the keeper saw; either may be missing.

    The runner's word on *why* wins. Without it the process's end tells: a signal, or the exit code 128 + N with which
    spark-submit reports that its Python half was ended by signal N.
    """
    if outcome is not None:
        # A runner that was being killed could not know whether its last batch would still commit.
        known = replace(outcome, cut_batch=cut_batch if outcome.cut_batch is None else outcome.cut_batch)
        if process is None:
            return known
        return replace(known, exit_code=process.exit_code, signal=known.signal or process.signal)
    if process is None:
        return ExitRecord(
            kind=ExitKind.KILLED,
            ended_at=now,
            message="the driver vanished, and so did its keeper: both were killed, or the host went down",
            cut_batch=cut_batch,
            next_step="look for the out-of-memory killer or a reboot in the system's journal",
        )
    if process.error is not None:
        return ExitRecord(
            kind=ExitKind.FAILED,
            ended_at=process.ended_at,
            exit_code=process.exit_code,
            error_class="ProcessError",
            message=shortened(f"the driver could not be started: {process.error}"),
            curable=False,
            cut_batch=cut_batch,
            next_step="correct the command or install what it names",
        )
    code = process.exit_code
    signum = process.signal or (code - 128 if code is not None and 128 < code < 160 else None)
    if signum is not None:
        return _killed(signum, process, stop, cut_batch)
    if code == OUT_OF_MEMORY_CODE or "Terminating due to java.lang.OutOfMemoryError" in log_tail:
        record = failure(
            "java.lang.OutOfMemoryError",
            "the JVM ran out of memory",
            at=process.ended_at,
            cut_batch=cut_batch,
            built=True,
        )
        return replace(record, exit_code=code)
    return ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=process.ended_at,
        exit_code=code,
        message=shortened(last_error(log_tail) or f"the driver ended with exit code {code} and gave no reason"),
        cut_batch=cut_batch,
        next_step="read driver.log",
    )


def _killed(signum: int, process: ProcessExit, stop: StopRequest | None, cut_batch: bool | None) -> ExitRecord:
    if stop is not None and process.ended_at >= stop.batch_deadline:
        message = (
            f"a stop was requested by {stop.requested_by} ({stop.reason}); the batch did not end in time, so the "
            f"driver was ended by signal {signum}"
        )
        next_step = "nothing is lost: the cut batch runs again at the next start"
    else:
        message = f"the driver was ended by signal {signum}"
        next_step = (
            "look for the out-of-memory killer in the system's journal, or ask who sent it"
            if signum == 9
            else "ask who sent the signal"
        )
    return ExitRecord(
        kind=ExitKind.KILLED,
        ended_at=process.ended_at,
        exit_code=process.exit_code,
        signal=signum,
        message=message,
        cut_batch=cut_batch,
        next_step=next_step,
    )


def shortened(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """`message` without stack frames and blank lines, at most `limit` characters."""
    kept = [
        line.rstrip()
        for line in message.splitlines()
        if line.strip() and not re.match(r"\s*(?:at |\.\.\. \d+ more|JVM stacktrace)", line)
    ]
    text = "\n".join(kept)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def last_error(log: str) -> str | None:
    """The last line of a log that names an error or exception."""
    lines = [line.strip() for line in log.splitlines() if re.search(r"\b\w*(?:Exception|Error)\b|^Error", line)]
    lines = [line for line in lines if not line.startswith("at ")]
    return lines[-1] if lines else None
