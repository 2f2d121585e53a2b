"""What the JVM of a group has for all its streams, and what each session has for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamwarden.lifecycle.driver import ExitKind, ProcessIdentity
from streamwarden.lifecycle.groups.group import (
    Door,
    HostRecord,
    ended_with_group,
    fit_of,
    foreign_options,
    jvm_settings,
    session_settings,
)
from streamwarden.lifecycle.submission import driver_properties
from streamwarden.stream.spec import StreamSpec

COUNTS = StreamSpec(name="counts", job="/p/jobs/counts.py", checkpoint="/cp", group="small")
JVM = ProcessIdentity("h", 7, 1)


def properties(spec: StreamSpec = COUNTS, folder: str = "/data/drivers/counts/1") -> dict[str, str]:
    return driver_properties(spec, Path(folder), python="/bin/python")


def test_each_setting_of_a_driver_goes_to_the_session_or_to_the_jvm() -> None:
    given = properties() | {"spark.sql.extensions": "a.B", "spark.sql.shuffle.partitions": "3"}
    session, jvm = session_settings(given), jvm_settings(given, "small", Path("/data/groups/small/1/tmp"))
    assert session["spark.sql.shuffle.partitions"] == "3"
    assert jvm["spark.sql.extensions"] == "a.B"
    assert not session.keys() & jvm.keys()
    assert given.keys() - session.keys() - jvm.keys() == {"spark.executorEnv.PYTHONPATH"}, "each driver has its own"
    assert (jvm["spark.app.name"], jvm["spark.local.dir"]) == ("group small", "/data/groups/small/1/tmp")
    assert jvm["spark.scheduler.mode"] == "FAIR", "a long batch of one stream must not keep the others from the cores"


def test_a_driver_joins_a_jvm_that_it_could_have_started_and_no_other() -> None:
    def fit(more: dict[str, str], environment: dict[str, str], folder: str, version: str = "1") -> str:
        settings = jvm_settings(properties(folder=folder) | more, "small", Path(folder) / "tmp")
        return fit_of(settings, environment, Path(folder), version)

    java = {"JAVA_HOME": "/java"}
    mine = fit({}, java, "/data/groups/small/1")
    assert fit({"spark.sql.shuffle.partitions": "9"}, java, "/data/groups/small/2") == mine
    assert fit({"spark.driver.memory": "4g"}, java, "/data/groups/small/1") != mine
    assert fit({}, {"JAVA_HOME": "/other"}, "/data/groups/small/1") != mine
    assert fit({}, java, "/data/groups/small/1", "2") != mine


def test_what_is_written_for_other_processes_is_read_back() -> None:
    door = Door(port=1, key="k", jvm=JVM)
    assert Door.from_document(door.to_document()) == door
    record = HostRecord(group="small", fit="f", unresponsive_after=60.0)
    assert HostRecord.from_document({"group": "small", "fit": "f", "unresponsive_after": 60.0}) == record


def test_the_end_of_the_jvm_is_a_curable_end_of_each_driver_that_names_the_group() -> None:
    record = ended_with_group("small", JVM, at=1.0, cut_batch=True)
    assert (record.kind, record.cause, record.curable, record.is_failure) == (
        ExitKind.FAILED,
        "group_ended",
        True,
        True,
    )
    assert record.message == "the JVM of the group small (pid 7) has ended, and with it every driver of the group"


@pytest.mark.parametrize(
    ("options", "foreign"),
    [
        (["--master", "local[2]", "--name", "x", "--conf", "spark.a=b", "--verbose"], []),
        (["--master", "local[2]", "--packages", "a:b:1", "--jars", "c.jar"], ["--packages", "--jars"]),
    ],
)
def test_options_of_a_submission_that_nobody_makes_are_found(options: list[str], foreign: list[str]) -> None:
    assert foreign_options(["spark-submit", *options]) == foreign
