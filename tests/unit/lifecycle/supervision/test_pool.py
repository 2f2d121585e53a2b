"""What a standby of a pool and a launch must have in common, and what is set when it is promoted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamwarden.lifecycle.driver import DriverEvent
from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE, RETAIN
from streamwarden.lifecycle.submission import spark_conf
from streamwarden.lifecycle.supervision.pool import (
    pool_event,
    pool_fit,
    pool_state,
    run_time_settings,
    shown_differences,
    without_name,
)
from streamwarden.lifecycle.supervision.standby import Fit
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, StateSpec, StopPolicy, StreamSpec

CODE = {"packages": {"pyspark": "4.3.0"}, "files": {}}
FLIGHTS = StreamSpec(
    name="flights",
    job="/jobs/flights.py",
    checkpoint="/cp/flights",
    source=FilesSource(path="/in/flights"),
    sink=ParquetSink(path="/out/flights"),
)
TAXIS = replace(
    FLIGHTS,
    name="taxis",
    job="/jobs/taxis.py",
    checkpoint="/cp/taxis",
    state=StateSpec(shuffle_partitions=8, changelog=False),
    stop=StopPolicy(term_deadline=5),
    spark=SparkSpec(conf={RETAIN: "1000", DELTAS: "1"}),
)


def fit(spec: StreamSpec, code: Any = CODE, environment: Any = (), command: Any = None) -> Fit:
    return pool_fit(spark_conf(spec), code, dict(environment), command)


def test_streams_that_differ_in_what_a_session_takes_at_any_time_share_a_pool() -> None:
    assert fit(FLIGHTS) == fit(TAXIS)
    taken = run_time_settings(spark_conf(TAXIS))
    assert taken["spark.sql.shuffle.partitions"] == "8"
    assert (taken[RETAIN], taken[DELTAS]) == ("1000", "1")


@pytest.mark.parametrize(
    "changes",
    [
        {"spark": SparkSpec(driver_memory=3 * 2**30)},
        {"spark": SparkSpec(master="local[4]")},
        {"spark": SparkSpec(conf={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"})},
        {"spark": SparkSpec(conf={"spark.sql.warehouse.dir": "/elsewhere"})},
        {"spark": SparkSpec(conf={"spark.sql.extensions": "com.example.Rules"})},
        {"spark": SparkSpec(conf={MAINTENANCE: "60s"})},  # the first query of a JVM settles it for all
        {"state": StateSpec(backend=Backend.HDFS)},  # RocksDB's memory is settled by the first query as well
    ],
)
def test_what_only_a_new_jvm_takes_must_be_equal(changes: dict[str, Any]) -> None:
    difference = shown_differences(fit(FLIGHTS), fit(replace(FLIGHTS, **changes)))
    assert difference == "Spark settings that only a new JVM takes"


def test_packages_environment_and_connection_must_be_equal() -> None:
    upgraded = fit(FLIGHTS, {"packages": {"pyspark": "4.3.1"}, "files": {}})
    assert shown_differences(fit(FLIGHTS), upgraded) == "packages, py_files or Maven project"
    assert shown_differences(fit(FLIGHTS), fit(FLIGHTS, environment={"A": "1"})) == "environment"
    assert shown_differences(fit(FLIGHTS), fit(FLIGHTS, command=["spark-submit"])) == "command of Airflow's connection"


def test_the_name_of_a_task_makes_no_difference() -> None:
    one, other = (["spark-submit", "--name", name, "--master", "local[2]"] for name in ("stream_a", "stream_b"))
    assert fit(FLIGHTS, command=one) == fit(TAXIS, command=other)
    assert without_name(one) == ["spark-submit", "--master", "local[2]"]


def test_the_newest_report_counts() -> None:
    events = [
        pool_event("a-1", 0, 2, 1.0),
        pool_event("a-1", 1, 2, 2.0),
        DriverEvent(driver_id="a-1", at=3.0, kind="started"),
    ]
    assert pool_state(events) == "1 of 2"
    assert pool_state([]) == ""
