"""What a job raised, told with its file and line, from Python and from Spark's own words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamwarden.errors import JobError, LeaseLost
from streamwarden.lifecycle.job_files import has_build
from streamwarden.spark.driver.failures import describe, from_spark
from streamwarden.spark.driver.jobs import run_script

WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [FAILED_EXECUTE_UDF] User function
Traceback (most recent call last):
  File "/venv/pyspark/worker.py", line 9, in main
  File "/p/jobs/job.py", line 12, in rate
ValueError: no rate for XX
=== Streaming Query ===
Identifier: counts"""

DISK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [TASK_WRITE_FAILED] Task failed
=== Streaming Query ===
Plan
JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] …
\tat a.b.C
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed
\tat a.b.C
Caused by: java.io.IOException: No space left on device
\tat a.b.C"""


@pytest.fixture(autouse=True)
def own_argv_and_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running a script sets both, as it would in a process of its own."""
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_failure_names_the_line_of_the_job_and_its_error() -> None:
    assert from_spark(WORKER, "STREAM_FAILED", "/p/jobs/job.py") == (
        "ValueError",
        "/p/jobs/job.py:12: ValueError: no rate for XX",
    )


def test_root_cause_is_reported_although_spark_wraps_it() -> None:
    error_class, message = from_spark(DISK, "STREAM_FAILED", "/p/jobs/job.py")
    assert error_class == "TASK_WRITE_FAILED"
    assert message == ("java.io.IOException: No space left on device ([TASK_WRITE_FAILED] Task failed)")


def test_an_exception_of_the_jobs_own_code(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("def f():\n    raise KeyError('rate')\n\nf()\n")
    with pytest.raises(KeyError) as caught:
        run_script(job, ())
    assert describe(caught.value, str(job)) == ("KeyError", f"{job}:2: KeyError: 'rate'")


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("x = 1\ndef build(:\n")
    assert not has_build(job)
    with pytest.raises(SyntaxError) as caught:
        run_script(job, ())
    assert describe(caught.value, str(job))[1].startswith(f"{job}:2: SyntaxError")


def test_our_own_errors_keep_their_words() -> None:
    error = LeaseLost("replaced", where="/cp", next_step="stop")
    assert describe(error, "/p/job.py") == ("LeaseLost", str(error))


def test_a_build_function_is_found_without_running_the_job(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("raise SystemExit(3)\ndef build(spark, spec):\n    ...\n")
    assert has_build(job)
    job.write_text("class X:\n    def build(self):\n        ...\n")
    assert not has_build(job)


def test_a_job_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be read"):
        has_build(tmp_path / "none.py")


def test_a_script_that_ends_with_a_status_failed(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import sys\nsys.exit(4)\n")
    with pytest.raises(JobError, match="status 4"):
        run_script(job, ())
    job.write_text("import sys\nassert sys.argv[1:] == ['a', 'b']\nsys.exit(0)\n")
    run_script(job, ("a", "b"))
