"""A driver's log as records: its errors are errors, its warnings are warnings, and a stack trace is one record."""

from __future__ import annotations

from logging import ERROR, INFO, WARNING

import pytest

from streamwarden.services.fleet.exits.log_records import LogRecord, LogRecords

STARTED = "26/11/23 00:45:17 INFO SparkContext: Running Spark version 4.3.0"
WARNED = "26/11/23 00:45:31 WARN ProcessingTimeExecutor: Current batch is falling behind."
FAILED = """\
26/11/22 23:58:30 ERROR MicroBatchExecution: Query counted [id = 81, runId = 84] terminated with error
org.apache.spark.SparkException: Job 10 cancelled because SparkContext was shut down
\tat org.apache.spark.scheduler.DAGScheduler.stop(DAGScheduler.scala:4746)
Caused by: java.net.ConnectException: Connection refused
\t... 12 more""".splitlines()
TRACEBACK = """\
Traceback (most recent call last):
  File "runner.py", line 12, in run
    self._run_job()
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query counted terminated
=== Streaming Query ===
Current State: ACTIVE""".splitlines()


def levels(*lines: str) -> list[tuple[int, int]]:
    """(level, number of lines) of each record."""
    return [(record.level, len(record.text.splitlines())) for record in LogRecords().of(lines)]


def test_a_java_stack_trace_stays_with_its_error() -> None:
    assert LogRecords().of([STARTED, *FAILED, WARNED]) == [
        LogRecord(INFO, STARTED),
        LogRecord(ERROR, "\n".join(FAILED)),
        LogRecord(WARNING, WARNED),
    ]


def test_a_python_traceback_is_an_error_with_its_whole_message() -> None:
    assert levels("counted 12 rows", *TRACEBACK, STARTED) == [(INFO, 1), (ERROR, 6), (INFO, 1)]
    assert levels(*FAILED, *TRACEBACK) == [(ERROR, 11)], "Spark reports the traceback of a Python worker like this"


def test_a_stack_trace_that_two_reads_cut_is_an_error_in_both() -> None:
    records = LogRecords()
    first, second = records.of(FAILED[:3]), records.of([*FAILED[3:], STARTED])
    assert [record.level for record in first] == [ERROR]
    assert second == [LogRecord(ERROR, "\n".join(FAILED[3:])), LogRecord(INFO, STARTED)]


def test_what_a_job_prints_in_a_later_read_is_not_an_error() -> None:
    records = LogRecords()
    records.of(FAILED)
    assert [record.level for record in records.of(["counted 12 rows", "counted 13 rows"])] == [INFO, INFO]


def test_what_a_job_prints_after_a_warning_is_not_a_warning() -> None:
    trace = ["java.lang.IllegalStateException: late", "\tat a.B.c(B.java:1)"]
    assert levels(WARNED, *trace, "counted 12 rows", "  indented") == [(WARNING, 3), (INFO, 1), (INFO, 1)]


def test_the_line_of_the_runner_after_a_traceback_is_a_record_by_itself() -> None:
    assert levels(*TRACEBACK, "streamwarden: failed: Query counted terminated") == [(ERROR, 6), (INFO, 1)]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-11-23 06:00:00,123 ERROR Executor: lost", ERROR),
        ("2026-11-23T06:00:00.123Z [stream execution thread] WARN  Utils: slow", WARNING),
        ("ERROR:my.job:no price", ERROR),
        ("WARNING:root:late", WARNING),
        ('{"ts":"2026-11-23T06:00:00.123Z","level":"ERROR","msg":"lost"}', ERROR),
        ('Exception in thread "main" java.lang.OutOfMemoryError: Java heap space', ERROR),
        ("26/11/23 00:45:17 FATAL Main: out of memory", ERROR),
        ("WARNING: Using incubator modules: jdk.incubator.vector", INFO),
        ("the price of ERROR is 3", INFO),
        ("", INFO),
    ],
)
def test_the_level_of_a_line(line: str, level: int) -> None:
    """The layouts of Spark, log4j, Python's logging and Spark's structured logging; everything else was printed."""
    assert [record.level for record in LogRecords().of([line])] == [level]


def test_no_line_is_lost_or_changed() -> None:
    lines = [STARTED, "", *FAILED, WARNED, "printed", *TRACEBACK]
    assert "\n".join(record.text for record in LogRecords().of(lines)).split("\n") == lines
