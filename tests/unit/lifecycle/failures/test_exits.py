"""Which end of a driver a restart can cure, and what a person is told."""

from __future__ import annotations

import errno

import pytest

from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.failures.exits import (
    MESSAGE_LIMIT,
    ProcessExit,
    compose,
    failure,
    last_error,
    shortened,
)
from streamwarden.lifecycle.supervision.restart import describe
from streamwarden.lifecycle.supervision.stop import StopRequest

STOP = StopRequest(
    driver_id="d", requested_by="ann", reason="deploy", requested_at=0, batch_deadline=100, kill_deadline=130
)


@pytest.mark.parametrize(
    ("error_class", "message", "curable"),
    [
        ("STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE", "", False),
        ("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", "", False),
        ("STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION", "", False),
        ("STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED", "", False),
        ("STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE", "", False),
        ("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", "", False),
        ("STREAMING_CHECKPOINT_MISSING_METADATA_FILE", "", False),
        ("STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY", "", False),
        ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "", False),
        ("AUTO_SNAPSHOT_REPAIR_FAILED", "", False),
        ("BATCH_METADATA_NOT_FOUND", "", False),
        ("STDS_FAILED_TO_READ_OPERATOR_METADATA", "", False),
        (None, "java.lang.AssertionError: assertion failed: CheckpointInfo length: 0", False),
        ("UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS", "", False),
        (None, "java.lang.IllegalStateException: Incomplete log file in the offset log", False),
        ("STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST", "", False),
        ("STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED", "", False),
        ("CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT", "", True),
        ("JobError", "x", False),
        ("ConfigError", "x", False),
        ("ModuleNotFoundError", "No module named 'x'", False),
        ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "", False),
        ("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "", False),
        ("KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", "", False),
        ("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", "", False),
        (
            None,
            "KafkaIllegalStateException: Some data may have been lost because they are not available in Kafka",
            False,
        ),
        (None, "SunCertPathBuilderException: unable to find valid certification path to requested target", False),
        (None, "java.security.cert.CertificateException: No subject alternative names matching IP address", False),
        (None, "KafkaException: Failed to create new KafkaAdminClient (Invalid PEM keystore configs)", False),
        (None, "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed", False),
        (None, "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: no such topic", True),
        (None, "org.apache.kafka.common.errors.TimeoutException: Topic t not present in metadata after 1 ms.", True),
        (None, "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment", True),
        (
            "STREAM_FAILED",
            "java.nio.file.AccessDeniedException: s3a://b/c: getFileStatus on s3a://b/c: "
            "software.amazon.awssdk.services.s3.model.S3Exception: null (Service: S3, Status Code: 403)",
            False,
        ),
        (None, "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/': Bucket does not exist", False),
        (None, "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", False),
        (
            None,
            "java.net.ConnectException: getFileStatus on s3a://b/c: software.amazon.awssdk.core.exception."
            "SdkClientException: Unable to execute HTTP request: Connect to 127.0.0.1:9 failed: Connection refused",
            True,
        ),
        (None, "java.io.IOException: No space left on device", True),
        ("java.lang.OutOfMemoryError", "Java heap space", True),
        ("ValueError", "job.py:3: ValueError: bad rate", True),
        ("STREAM_FAILED", "connection reset", True),
        # A cause that passes by itself wins over the name of what it broke.
        ("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", "Caused by: No space left on device", True),
    ],
)
def test_what_a_restart_can_cure(error_class: str | None, message: str, curable: bool) -> None:
    record = failure(error_class, message, at=1, cut_batch=True, built=True)
    assert record.kind is ExitKind.FAILED
    assert record.curable is curable
    assert record.next_step


def test_topic_that_a_producer_awaits_in_vain_is_reported_as_missing() -> None:
    message = "org.apache.kafka.common.errors.TimeoutException: Topic counts not present in metadata after 60000 ms."
    assert "create the topic" in failure(None, message, at=1, cut_batch=True, built=True).next_step


@pytest.mark.parametrize(
    ("error_class", "reason"),
    [
        ("KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED", ""),
        ("KAFKA_DATA_LOSS.PARTITIONS_DELETED", ""),
        ("STREAM_FAILED", "Partition flights-3 offset was changed from 2400 to 2160.\nThis could be either 1) a user"),
        ("STREAM_FAILED", "Partitions Set(flights-3, flights-4) have been deleted."),
    ],
)
def test_recreated_topic_is_distinguished_from_expired_records(error_class: str, reason: str) -> None:
    """The way out of the one loses the output of the other: a folder's manifest skips batches that it knows."""
    lost = "Some data may have been lost because they are not available in Kafka any more;\nReason: "
    anew, passed = (
        failure(each, f"{lost}{why}", at=1, cut_batch=True, built=True)
        for each, why in ((error_class, reason), ("STREAM_FAILED", "Could not read records in offset [3, 9) for"))
    )
    assert "a new checkpoint path and a new output, both in one change" in anew.next_step
    assert "failOnDataLoss" not in anew.next_step
    assert 'failOnDataLoss: "false" in source.options for one start' in passed.next_step
    assert not anew.curable
    assert not passed.curable


def test_an_unknown_error_before_the_query_started_may_pass_and_is_tried_again() -> None:
    """What the job needs may have been away: the restart budget bounds what trying again costs."""
    record = failure("KeyError", "job.py:3: KeyError: 'x'", at=1, cut_batch=None, built=False)
    assert record.curable
    assert "before its query started" in record.next_step


@pytest.mark.parametrize(
    ("error_class", "started", "curable"),
    [
        ("SyntaxError", False, False),
        ("ModuleNotFoundError", False, False),
        ("AnalysisException", False, False),
        ("ConfigError", False, False),
        ("FileNotFoundError", False, False),
        ("FileNotFoundError", True, True),  # a file that is replaced just now
        ("ScriptFailed", False, True),
        ("java.lang.IllegalStateException", False, True),
    ],
)
def test_only_a_failure_that_would_recur_stays_down(error_class: str, started: bool, curable: bool) -> None:
    assert failure(error_class, "x", at=1, cut_batch=None, built=started).curable is curable


@pytest.mark.parametrize("error_class", ["StoreError", "StoreBusy"])
def test_a_store_that_was_away_while_a_driver_started_is_no_reason_to_stay_down(error_class: str) -> None:
    """The job had not begun: nothing of it would fail again."""
    record = failure(error_class, "the database server cannot be reached", at=1, cut_batch=None, built=False)
    assert record.curable
    assert "bring the store of Streamwarden back" in record.next_step


def test_another_writer_on_the_logs_is_a_fence() -> None:
    record = failure("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update", at=1, cut_batch=True, built=True)
    assert record.kind is ExitKind.FENCED


def test_the_runners_reason_wins_and_the_supervisor_processs_facts_are_added() -> None:
    outcome = ExitRecord(kind=ExitKind.STOPPED, ended_at=5, message="stopped by ann: deploy", cut_batch=False)
    record = compose(outcome, ProcessExit(ended_at=6, exit_code=0), now=9, cut_batch=True)
    assert (record.kind, record.exit_code, record.ended_at, record.cut_batch) == (ExitKind.STOPPED, 0, 5, False)


def test_a_runner_that_could_not_know_about_its_last_batch_is_completed_from_the_logs() -> None:
    outcome = ExitRecord(kind=ExitKind.KILLED, ended_at=5, signal=15)
    assert compose(outcome, ProcessExit(ended_at=6, signal=9), now=9, cut_batch=True).cut_batch is True


def test_a_sigkill_without_a_word_of_the_runner() -> None:
    record = compose(None, ProcessExit(ended_at=6, signal=9), now=9, cut_batch=True)
    assert (record.kind, record.signal, record.ended_at, record.curable) == (ExitKind.KILLED, 9, 6, True)
    assert record.cut_batch is True
    assert describe(record) == "killed by signal 9 (no stop was requested)"


def test_a_killed_python_half_shows_in_the_exit_code() -> None:
    record = compose(None, ProcessExit(ended_at=6, exit_code=137), now=9)
    assert (record.kind, record.signal, record.exit_code) == (ExitKind.KILLED, 9, 137)


def test_a_kill_after_a_stops_deadline_names_who_asked() -> None:
    record = compose(None, ProcessExit(ended_at=131, signal=9), now=140, stop=STOP)
    assert "ann (deploy)" in record.message


def test_a_kill_before_a_stops_deadline_is_not_the_stops() -> None:
    record = compose(None, ProcessExit(ended_at=50, signal=9), now=140, stop=STOP)
    assert record.message == "a requested stop was waiting for the end of the batch"


def test_a_driver_and_its_supervisor_process_that_both_vanished() -> None:
    record = compose(None, None, now=9)
    assert (record.kind, record.ended_at) == (ExitKind.KILLED, 9)
    assert "supervisor process" in record.message


def test_a_jvm_out_of_memory() -> None:
    record = compose(None, ProcessExit(ended_at=6, exit_code=3), now=9)
    assert (record.kind, record.curable, record.exit_code) == (ExitKind.FAILED, True, 3)
    assert "driver_memory" in record.next_step


def test_a_command_that_could_not_be_started() -> None:
    record = compose(None, ProcessExit(ended_at=6, exit_code=127, error="spark-submit: No such file"), now=9)
    assert (record.kind, record.curable) == (ExitKind.FAILED, False)
    assert "spark-submit" in record.message


def test_a_spark_submit_that_failed_before_the_runner_says_why_in_its_log() -> None:
    log = "INFO x\nException in thread main org.apache.spark.SparkException: Cannot load class\n\tat a.b.c\n"
    record = compose(None, ProcessExit(ended_at=6, exit_code=1), now=9, log_tail=log)
    assert record.message == "Exception in thread main org.apache.spark.SparkException: Cannot load class"


@pytest.mark.parametrize(("number", "curable"), [(errno.ENOENT, False), (errno.EACCES, False), (errno.ENOMEM, True)])
def test_a_host_without_memory_for_a_process_is_tried_again(number: int, curable: bool) -> None:
    process = ProcessExit(ended_at=6, exit_code=127, error="spark-submit: why", errno=number)
    assert compose(None, process, now=9).curable is curable


def test_last_lines_of_spark_submit_name_the_unreachable_service() -> None:
    log = (
        'Exception in thread "main" java.net.ConnectException: Call From a/1.2.3.4 to rm:8032 failed\n'
        "\tat org.apache.hadoop.ipc.Client.call(Client.java:1)\n"
        "\tat org.apache.hadoop.yarn.client.api.impl.YarnClientImpl.getApplications(YarnClientImpl.java:1)\n"
    )
    record = compose(None, ProcessExit(ended_at=6, exit_code=1), now=9, log_tail=log)
    assert record.curable
    assert record.message.startswith("the ResourceManager of YARN does not answer: ")


def test_a_message_is_short_and_without_stack_frames() -> None:
    text = "boom\n\tat org.apache.spark.X\n\n... 3 more\nCaused by: bang\n" + "x" * 5000
    short = shortened(text)
    assert short.startswith("boom\nCaused by: bang\n")
    assert len(short) == MESSAGE_LIMIT
    assert last_error("all is well") is None
