"""The small pure parts of the driver: sizes, logs, paths, and the record of a driver that was made to end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from streamwarden.errors import JobError, LeaseHeld, LeaseLost, StoreError, StreamwardenError
from streamwarden.lifecycle.driver import ExitKind, ExitRecord
from streamwarden.lifecycle.location import plain_path, same_place
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.spark.driver.control import Ending, Reason, folder_bytes
from streamwarden.spark.driver.start_gate import as_ours
from streamwarden.spark.log import cap_log
from streamwarden.spark.programs.driver import ended, turned_away
from streamwarden.spark.sinks import start_query, trigger_options
from streamwarden.stream.spec import StreamSpec, TriggerSpec

REQUEST = StopRequest(
    driver_id="d", requested_by="ann", reason="deploy", requested_at=0, batch_deadline=1, kill_deadline=2
)


def test_a_log_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text("x" * 100)
    assert cap_log(log, limit=100) is False
    assert log.read_text() == "x" * 100


def test_a_log_that_outgrew_its_limit_is_put_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    with log.open("ab", buffering=0) as file:  # a writer that appends, as a driver does
        file.write(b"x" * 101)
        assert cap_log(log, limit=100) is True
        file.write(b"after")
    assert log.read_text() == "after"
    assert (tmp_path / "driver.log.1").read_text() == "x" * 101
    log.write_text("y" * 200)
    assert cap_log(log, limit=100) is True
    assert (tmp_path / "driver.log.1").read_text() == "y" * 200, "one old log is kept"


def test_a_log_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert cap_log(tmp_path / "none") is False


def test_the_bytes_of_a_folder_are_those_that_du_counts(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b/c", 20), ("b/d/e", 30)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "loop").symlink_to(tmp_path)
    said = subprocess.run(
        ["find", str(tmp_path), "-type", "f", "-printf", "%s\n"], capture_output=True, text=True, check=True
    )
    assert folder_bytes(tmp_path / "b") == 50
    link = (tmp_path / "loop").lstat().st_size
    assert folder_bytes(tmp_path) == sum(map(int, said.stdout.split())) + link
    assert folder_bytes(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("/d/cp", "/d/cp"),
        ("file:/d/cp/", "/d/cp"),
        ("file:///d/my%20cp", "/d/my cp"),
        ("s3a://bucket/cp/", "s3a://bucket/cp"),
    ],
)
def test_two_ways_to_write_a_checkpoint_are_one(given: str, plain: str) -> None:
    assert plain_path(given) == plain


def test_a_fenced_driver_says_who_replaced_it() -> None:
    record = ended(Ending(Reason.LEASE_LOST, "replaced by d2"), at=5, cut_batch=True)
    assert (record.kind, record.error_class, record.message) == (ExitKind.FENCED, "LeaseLost", "replaced by d2")


def test_a_stop_names_who_asked_and_why() -> None:
    record = ended(Ending(Reason.STOP_REQUESTED, "deploy", REQUEST), at=5, cut_batch=False)
    assert (record.kind, record.message, record.cut_batch) == (ExitKind.STOPPED, "stopped by ann: deploy", False)


def test_sigterm_after_a_stop_request_differs_from_an_unexpected_one() -> None:
    asked = ended(Ending(Reason.TERMINATED, "SIGTERM", REQUEST), at=5, cut_batch=None)
    unasked = ended(Ending(Reason.TERMINATED, "SIGTERM"), at=5, cut_batch=None)
    assert "ann (deploy)" in asked.message
    assert unasked.message == "SIGTERM: no stop was requested"
    assert asked.kind is unasked.kind is ExitKind.KILLED


def refusal(error: StreamwardenError, ending: Ending | None = None) -> ExitRecord:
    return turned_away(error, ending, at=5, cut_batch=False)


def while_the_jvm_went_down() -> StreamwardenError:
    return as_ours(Py4JNetworkError("Answer from Java side is empty"))


def test_only_a_query_that_is_none_of_the_streams_is_refused_for_good() -> None:
    stray = refusal(JobError("it writes elsewhere", next_step="make the two the same"))
    assert (stray.kind, stray.curable, stray.next_step) == (ExitKind.FAILED, False, "make the two the same")
    others = LeaseHeld("d2 has it"), StoreError("down"), as_ours(ZeroDivisionError("odd"))
    assert all(refusal(each).curable for each in others)
    gone = refusal(while_the_jvm_went_down())
    assert (gone.kind, gone.curable) == (ExitKind.FAILED, True)
    assert "what ended the JVM" in gone.next_step


def test_a_lease_that_is_lost_before_the_first_batch_is_fenced_not_failed() -> None:
    record = refusal(LeaseLost("replaced by d2"), Ending(Reason.REFUSED, "a query was refused"))
    assert (record.kind, record.message) == (ExitKind.FENCED, "replaced by d2")


def test_driver_ended_while_a_query_started_reports_it() -> None:
    error = while_the_jvm_went_down()
    assert refusal(error, Ending(Reason.TERMINATED, "SIGTERM")).kind is ExitKind.KILLED
    assert refusal(error, Ending(Reason.LEASE_LOST, "replaced by d2")).kind is ExitKind.FENCED


@pytest.mark.parametrize(
    ("trigger", "options"),
    [
        (TriggerSpec(processing_time=2.0), {"processingTime": "2000 milliseconds"}),
        (TriggerSpec(processing_time=0.25), {"processingTime": "250 milliseconds"}),
        (TriggerSpec(processing_time=None), {"processingTime": "0 milliseconds"}),
        (TriggerSpec(processing_time=None, available_now=True), {"availableNow": True}),
    ],
)
def test_triggers_as_spark_takes_them(trigger: TriggerSpec, options: dict[str, object]) -> None:
    assert trigger_options(trigger) == options


def test_a_build_that_returns_no_query_is_the_jobs_fault() -> None:
    with pytest.raises(JobError, match="returned NoneType"):
        start_query(None, StreamSpec(name="counts", job="/j.py", checkpoint="/cp"))


@pytest.mark.parametrize(
    ("actual", "declared", "same"),
    [
        ("/a/b", "file:///a/b/", True),
        ("hdfs://namenode:8020/a", "hdfs:///a", True),
        ("hdfs://namenode:8020/a", "hdfs://namenode:8020/a", True),
        ("hdfs://other:8020/a", "hdfs://namenode:8020/a", False),
        ("hdfs://namenode:8020/b", "hdfs:///a", False),
        ("s3a://bucket/a", "hdfs:///a", False),
        ("/a", "hdfs:///a", False),
        ("s3a://bucket/a/", "s3://bucket//a", True),
    ],
)
def test_the_checkpoint_may_be_declared_without_its_host(actual: str, declared: str, same: bool) -> None:
    assert same_place(actual, declared) is same
