"""The table of causes: why a driver ends, whether a restart may cure it, and what a person does next. Pure.

One table serves every sink and every source. A cause is recognised anywhere in the chain of exceptions: by Spark's
error condition, by an exception's class, by the client whose code failed, or, where there is nothing else, by the words
of Spark, Java or a server. The wording of Streamwarden's own messages decides nothing.

The rows are ordered: the first row that fits any link of the chain counts. A cause that passes by itself (a full disk,
an unavailable server) therefore precedes the damage that it resembles.
"""

from collections.abc import Sequence
from typing import Final

from streamwarden.checkpoint.diagnosis.damage import NEW_PLACES
from streamwarden.lifecycle.failures.error_chain import ErrorLink
from streamwarden.lifecycle.failures.failure_patterns import (
    KAFKA_ERRORS,
    S3A,
    Cause,
    Sign,
    classes,
    conditions,
    curable,
    first_shown,
    incurable,
    words,
)
from streamwarden.lifecycle.failures.outage_causes import UNREACHABLE

TOPIC_RECREATED: Final = incurable(
    "topic_recreated",
    "the topic was deleted and recreated",
    f"give the stream {NEW_PLACES} (`checkpoint`, and `sink.path`, `sink.table` or `sink.topic`), then start it. A new "
    "checkpoint alone is not enough: its batches begin at 0 again. A folder's manifest skips the batch numbers that it "
    "has, so their rows are lost. The batch table of a database refuses another query",
    *conditions("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "KAFKA_DATA_LOSS.PARTITIONS_DELETED"),
    *words(
        r"Partition \S+ offset was changed from \d+ to \d+",
        r"Partitions [^\n]+ have been deleted",
    ),
)
"""Spark does not detect every such topic: if it has grown beyond the stream's offsets, Spark reads on from there."""

WITHOUT_RECORDS: Final = 'set failOnDataLoss: "false" in source.options for one start'

LOST_INPUT: Final = incurable(
    "input_lost",
    "records were removed from the topic before the stream read them",
    "the topic no longer holds records that the stream has not read (its retention passed, or it was "
    f"recreated): to continue without them, {WITHOUT_RECORDS}; if the topic was deleted and recreated, give the stream "
    f"{NEW_PLACES}",
    *conditions("KAFKA_DATA_LOSS"),
    *words(r"Some data may have been lost because they are not available in Kafka"),
)

INPUT_FILE_GONE: Final = incurable(
    "input_file_gone",
    "a file of a planned batch was removed before the batch was committed",
    "put each file back under its name, then start the stream; to continue without its rows, set "
    'ignoreMissingFiles: "true" in source.options for one start',
    *classes("InputGone"),
)
"""Spark would leave out the rows of such a file without an error: see sources.files.planned_input."""

TABLE_INPUT_GONE: Final = incurable(
    "table_input_gone",
    "the table that the stream reads no longer has commits or files that the stream has yet to read",
    "restore the files (Delta: of _delta_log, and the data files that VACUUM deleted) from a copy; or give the stream "
    f"{NEW_PLACES}, so that it reads the table from its beginning. Let the table keep its log and its old files longer "
    "than the stream may stand still (Delta: delta.logRetentionDuration, delta.deletedFileRetentionDuration; Iceberg: "
    "history.expire.max-snapshot-age-ms, and older_than of expire_snapshots)",
    *classes("TableInputGone"),
    *conditions(
        "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        "FAILED_READ_FILE.FILE_NOT_EXIST",
    ),
    *words(
        r"the snapshot was expired or removed",
        r"Cannot find parent snapshot",
        r"Cannot find snapshot after",
    ),
)

TABLE_REPLACED: Final = incurable(
    "table_replaced",
    "the table that the stream reads was deleted and recreated",
    f"correct source.path if it names another table; otherwise give the stream {NEW_PLACES}",
    *conditions("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"),
)

TABLE_ROWS_CHANGED: Final = incurable(
    "table_rows_changed",
    "a commit changed or deleted rows of the table that the stream reads, and a stream reads only new rows",
    'find out who changed the table. To go on without the changes, set skipChangeCommits: "true" in source.options '
    "(Delta; `ignoreDeletes` skips only deletions of whole partitions), or streaming-skip-overwrite-snapshots and "
    'streaming-skip-delete-snapshots: "true" (Iceberg): the stream then also skips the rows that the commit added. '
    f"To read the rows as they are now, give the stream {NEW_PLACES}",
    *conditions("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"),
    *words(r"Cannot process overwrite snapshot", r"Cannot process delete snapshot"),
)

TABLE_COLUMNS_CHANGED: Final = curable(
    "table_columns_changed",
    "the columns of the table that the stream reads have changed",
    "a new start reads the table with its new columns; first change a job that names a column which no longer exists "
    "or has another type",
    *conditions("DELTA_SCHEMA_CHANGED*", "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART"),
)

TABLE_CONFLICT: Final = curable(
    "table_conflict",
    "another program, or a driver that this one replaced, committed to the table while a batch was being written",
    "a new start runs the batch again. If it happens often, let compactions and other jobs write the table while the "
    "stream has little to do, or other partitions of it",
    *conditions("DELTA_CONCURRENT_*", "DELTA_METADATA_CHANGED", "DELTA_MAX_COMMIT_RETRIES_EXCEEDED*"),
    *classes(
        "TableConflict",
        "org.apache.iceberg.exceptions.CommitFailedException",
        "org.apache.iceberg.exceptions.DuplicateWAPCommitException",
    ),
    *words(
        r"\bdelta\.\S*Concurrent\w+Exception",
        r"ValidationException: (?:Found (?:new )?conflicting|Missing required files|Cannot commit, missing)",
    ),
)

_TABLES: Final = (TABLE_INPUT_GONE, TABLE_REPLACED, TABLE_ROWS_CHANGED, TABLE_COLUMNS_CHANGED, TABLE_CONFLICT)

LAUNCH_REFUSED: Final = incurable(
    "launch_refused",
    "store, checkpoint and output contradict each other, so nothing was started",
    f"restore the checkpoint; or give the stream {NEW_PLACES}; or start it with `--begin-anew REASON`",
    *classes("LaunchRefused"),
)

_OWN: Final = (
    curable(
        "store_unavailable",
        "the store of Streamwarden does not answer",
        "bring the store of Streamwarden back (`streamwarden status` shows where it is); the stream then "
        "continues where it stopped",
        *classes("StoreError", "StoreBusy"),
        outage=True,
    ),
    curable(
        "sink_unavailable",
        "the sink is unavailable",
        "bring the sink back (the database, the broker, its topic), or read its log; the interrupted batch "
        "then runs again",
        *classes("SinkError", "SinkInterrupted"),
        outage=True,
    ),
    LAUNCH_REFUSED,
    incurable(
        "table_batch_unknown",
        "the snapshots are expired that would show whether the table has a batch which an earlier driver had planned",
        "look whether the table has the rows of the batch, and commit a snapshot without rows that says so (see "
        "docs/how-to/iceberg.md, `When the snapshots of the stream are expired`); then start the stream. Let "
        "expire_snapshots keep the stream's newest snapshot",
        *classes("BatchUnknown"),
    ),
    incurable(
        "declaration_wrong",
        "the stream's file, its connections or its job are invalid",
        "correct the job or the stream's YAML file, then start the stream again",
        *classes("ConfigError", "ConfigFileError", "JobError"),
    ),
)

_HOST: Final = (
    curable(
        "second_writer",
        "another query wrote to the checkpoint",
        "another query wrote to this checkpoint: find it and stop it, then start the stream again",
        *conditions("CONCURRENT_STREAM_LOG_UPDATE"),
        *words(r"ConcurrentModificationException.*(?:log|batch)"),
        fenced=True,
    ),
    curable(
        "disk_full",
        "the disk is full",
        "free space under the checkpoint and the output (df -h); the stream then continues where it stopped",
        *words(r"No space left on device", r"Disk quota exceeded", r"ENOSPC"),
    ),
    curable(
        "out_of_memory",
        "the driver ran out of memory",
        "raise spark.driver_memory of the stream, or make its batches smaller "
        "(max_files_per_trigger, max_offsets_per_trigger)",
        *classes("java.lang.OutOfMemoryError", "MemoryError"),
        *words(r"OutOfMemoryError", r"GC overhead limit"),
    ),
)

_REFUSALS: Final = (
    incurable(
        "certificate_untrusted",
        "driver and broker do not trust each other's certificates",
        "driver and broker do not trust each other's certificates: in the broker's connection, "
        "ssl.ca.location has to hold the authority that signed the broker's certificate, which has to name the host in "
        "bootstrap.servers; ssl.certificate.location and ssl.key.location have to hold what the broker requires of its "
        "clients",
        *classes("java.security.cert.CertificateException", "java.security.cert.CertificateExpiredException"),
        *words(
            r"unable to find valid certification path",
            r"PKIX path",
            r"No subject alternative",
            r"No name matching",
            r"CertificateException|CertificateExpired",
            r"bad_certificate|certificate_(?:required|unknown|expired)|handshake_failure",
        ),
    ),
    incurable(
        "certificate_unusable",
        "a certificate or key cannot be used",
        "a certificate or key of the broker's connection cannot be used: both have to be PEM files, the key "
        "in PKCS #8, with ssl.key.password if it is encrypted",
        *words(r"Invalid PEM", r"entries in PEM file", r"Private key could not be loaded"),
    ),
    incurable(
        "broker_access_denied",
        "the broker denies the user access",
        "the broker denies this user access: correct the user, password or certificate of the connection, or "
        "the user's rights on the topic",
        *classes(
            f"{KAFKA_ERRORS}SaslAuthenticationException",
            f"{KAFKA_ERRORS}SslAuthenticationException",
            f"{KAFKA_ERRORS}TopicAuthorizationException",
            f"{KAFKA_ERRORS}GroupAuthorizationException",
            f"{KAFKA_ERRORS}ClusterAuthorizationException",
        ),
    ),
    incurable(
        "object_store_access_denied",
        "the object store denies the key access",
        "the object store denies this key access: correct the login and password of the connection that "
        "storage.connection names, or the key's rights in the bucket",
        Sign(kind="AccessDeniedException", words=r"s3a:"),
        *classes(f"{S3A}auth.NoAuthWithAWSException", f"{S3A}CredentialInitializationException"),
        *words(
            r"s3a:[\s\S]*(?:AccessDenied|Status Code: 403)",
            r"InvalidAccessKeyId|SignatureDoesNotMatch|NoAuthWithAWSException|CredentialInitializationException",
        ),
    ),
    incurable(
        "hdfs_access_denied",
        "HDFS denies the user access",
        "HDFS denies this user access to the folder in the message: give the user the right (`hdfs dfs -chown`, "
        "`-chmod`), or set HADOOP_USER_NAME where the stream is started",
        *classes("org.apache.hadoop.security.AccessControlException"),
    ),
    incurable(
        "bucket_missing",
        "the bucket does not exist",
        "the bucket does not exist: create it, or correct the s3a:// paths, or the region and the endpoint "
        "of the connection that storage.connection names",
        *classes(f"{S3A}UnknownStoreException"),
        *words(r"NoSuchBucket\b"),
    ),
    incurable(
        "kubernetes_access_denied",
        "the API server of Kubernetes denies the account access",
        "the message names the account, the verb and the resource: give the account a role with it in that namespace "
        "(the chart's Role in packaging/kubernetes has all that a stream needs), or correct spark.service_account or "
        "the token",
        Sign(kind="io.fabric8.kubernetes.client.KubernetesClientException", words=r"code=40[13]\b"),
    ),
    incurable(
        "s3_jars_missing",
        "the driver has no jars for s3a:// paths",
        "the driver has no jars for s3a:// paths: run `streamwarden prepare --s3` on its host",
        *words(r"S3AFileSystem not found", r"No FileSystem for scheme .?s3a", r"CheckpointFileManager not found"),
    ),
)

_REAL_TIME: Final = (
    incurable(
        "checkpoint_not_real_time",
        "the checkpoint was written in micro-batches",
        "this checkpoint was written in micro-batches, and real-time mode needs another format: give the "
        f"stream {NEW_PLACES}, and set startingOffsets in source.options to where it should begin",
        *conditions("STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED"),
        *words(r"CHECKPOINT_FORMAT_V1_NOT_SUPPORTED"),
    ),
    incurable(
        "real_time_unsupported",
        "real-time mode does not support an operator of the query",
        "real-time mode supports projections, filters, groupBy().agg() and dropDuplicates, but neither "
        "transformWithState nor session windows nor joins of streams: change the job, or use trigger.processing_time",
        *conditions("STREAMING_REAL_TIME_MODE", "*REAL_TIME_MODE_TRIGGER_INTERVAL*", "*PIPELINED_SHUFFLE_UNSUPPORTED*"),
    ),
    curable(
        "cores_insufficient",
        "there are fewer cores than tasks that run at the same time",
        "in real-time mode a task for each partition of topic and state, and one for the quarantine, run at "
        "the same time: raise spark.master of the stream to local[N], where N is at least their number (or the "
        "cluster's cores), or lower state.shuffle_partitions",
        *conditions("CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT"),
    ),
)

RESTORE: Final = (
    "run `streamwarden inspect` on the checkpoint; restore it from a copy of the checkpoint folder, or start with "
    f"{NEW_PLACES}"
)

CHECKPOINT_DAMAGED: Final = incurable(
    "checkpoint_damaged",
    "the checkpoint is damaged",
    RESTORE,
    *conditions(
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
    *classes(
        "com.fasterxml.jackson.core.io.JsonEOFException",
        "com.fasterxml.jackson.core.JsonParseException",
        "com.fasterxml.jackson.databind.exc.MismatchedInputException",
        "org.json4s.MappingException",
        client="org.apache.spark.sql.execution.streaming.checkpointing",
    ),
    *words(
        r"Incomplete log file",
        r"Log file was malformed",
        r"CheckpointInfo length: 0",
        r"RocksDB .*(?:corrupt|Corruption)",
        r"batch \d+ doesn't exist",
        r"does not exist.*(?:offsets|sources|commits)/\d+",
        r"Checksum error: .*/(?:metadata|offsets|commits|sources|state|_spark_metadata)",
    ),
)

_CHECKPOINT: Final = (
    incurable(
        "repartition_unfinished",
        "somebody began to repartition the state in the checkpoint itself, and it did not end",
        "restore a savepoint from before (`streamwarden savepoint restore`), or let Spark end its repartition with the "
        "same number of partitions. Do not remove the planned batch: its state files may be taken for those of the "
        "next one. `streamwarden repartition` works on a copy",
        *conditions("STREAMING_UNFINISHED_REPARTITION_DETECTED"),
    ),
    incurable(
        "state_field_incompatible",
        "a field of the state changed in a way that Avro does not allow",
        "a field of Avro-encoded state may be added, removed, moved or widened (INT to BIGINT), but not "
        "changed otherwise: undo the change, or give the field a new name and read the old field while it exists, or "
        f"start with {NEW_PLACES}",
        *conditions("STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"),
    ),
    incurable(
        "state_schema_limit",
        "the state's schema has changed too often",
        "the state's schema has changed too often: raise the setting that the message names in spark.conf of "
        f"the stream, or start with {NEW_PLACES}",
        *conditions(
            "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
            "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        ),
    ),
    incurable(
        "state_incompatible",
        "the job's state no longer fits the checkpoint",
        "the job's state no longer fits the checkpoint: undo the change of the job or of the state settings, "
        f"or start with {NEW_PLACES}",
        *conditions(
            "STATE_STORE_*SCHEMA_*",
            "STATE_STORE_KEY_ROW_FORMAT*",
            "STATE_STORE_VALUE_ROW_FORMAT*",
            "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
            "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        ),
    ),
    incurable(
        "operators_changed",
        "the job's stateful operators differ from those of the checkpoint",
        f"stateful operators were added, removed or reordered: undo that, or start with {NEW_PLACES}",
        *conditions("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"),
    ),
    CHECKPOINT_DAMAGED,
    incurable(
        "sources_changed",
        "the sources of the job changed",
        f"the sources of the job changed: undo that, or start with {NEW_PLACES}",
        *conditions("STREAMING_SOURCE_EVOLUTION*", "*SOURCE_COUNT_MISMATCH*"),
        *words(
            r"number of sources in the checkpoint",
            r"sources? in the checkpoint offsets",
            r"assertion failed: There are \[\d+\] sources",
        ),
    ),
    incurable(
        "checkpoint_unusable",
        "the checkpoint does not belong to the stream, or cannot be read",
        RESTORE,
        *classes("CheckpointError", "CheckpointMissing"),
    ),
)

_JOB: Final = (
    incurable(
        "input_malformed",
        "an input record cannot be parsed",
        "declare `quarantine:` in the stream's file, so that malformed rows are kept aside, or correct the input file",
        *conditions("MALFORMED_RECORD_IN_PARSING"),
        *words(r"JsonParseException"),
    ),
    incurable(
        "input_path_missing",
        "a path that the job reads does not exist",
        "create the folder, or correct the path in the job and the stream's YAML file (a relative path is "
        "below the data folder, or in the file below its URL), then start the stream again",
        *conditions("PATH_NOT_FOUND"),
    ),
    incurable(
        "job_wrong",
        "the job or the stream's settings are invalid",
        "correct the job or the stream's YAML file, then start the stream again",
        *classes("SyntaxError", "IndentationError", "NameError"),
        *classes("ImportError", "ModuleNotFoundError", "MissingExtra"),
        *classes("AnalysisException", "ParseException"),
        *conditions(
            "UNRESOLVED_COLUMN",
            "TABLE_OR_VIEW_NOT_FOUND",
            "DATA_SOURCE_NOT_FOUND",
            "UNSUPPORTED_STREAMING_OPERATOR*",
            "UNSUPPORTED_FEATURE",
            "STREAMING_OUTPUT_MODE*",
            "INVALID_CONF_VALUE",
        ),
    ),
    incurable(
        "job_file_missing",
        "a file or a class that the job names does not exist",
        "create the file or class, or correct its name in the job or the stream's YAML file (a relative path "
        "is below the data folder), then start the stream again",
        *classes("FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "PermissionError"),
        *classes("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError"),
        before_start=True,
    ),
)

CAUSES: Final[tuple[Cause, ...]] = (
    *_OWN[:2],
    *_HOST,
    *_OWN[2:],
    *_REFUSALS,
    *UNREACHABLE,
    TOPIC_RECREATED,
    LOST_INPUT,
    INPUT_FILE_GONE,
    *_TABLES,
    *_REAL_TIME,
    *_CHECKPOINT,
    *_JOB,
)


def cause_of(chain: Sequence[ErrorLink], *, started: bool = True) -> Cause | None:
    """The first row that fits a link of the chain; None: the cause is not known, and a restart may help. `started`:
    whether the query had started."""
    return first_shown(CAUSES, chain, started=started)
