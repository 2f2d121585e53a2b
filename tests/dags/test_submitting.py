"""SparkSubmitOperator's parameters and connection, as StreamOperator understands them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from streamwarden.adapters.jvm.spark_home import spark_home
from streamwarden.airflow import submitting
from streamwarden.airflow.connections import published
from streamwarden.airflow.operators import StreamOperator, _connection_of
from streamwarden.airflow.submitting import Submission, submission
from streamwarden.errors import ConfigError
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StreamSpec

SPEC = StreamSpec(
    name="counted",
    job="/p/job.py",
    checkpoint="/c",
    args=("--a",),
    spark=SparkSpec(master="local[3]", conf={"spark.sql.ansi.enabled": "false", "spark.x": "yaml"}),
)


def order(spec: StreamSpec = SPEC, **parameters: Any) -> Submission:
    operator = StreamOperator(task_id="run", stream="counted", project="/p", **parameters)
    if operator.own_connection:
        with _connection_of(operator._conn_id, spec.spark.master):
            return submission(operator, spec, {})
    return submission(operator, spec, {})


def define(monkeypatch: pytest.MonkeyPatch, **connection: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", **connection}))


def test_without_parameters_the_yaml_says_it_all() -> None:
    """Its master, its settings, its name, and the Spark that this package was installed with."""
    made = order()
    assert made.command[0] == str(spark_home() / "bin" / "spark-submit")
    assert list(made.command[1:]) == ["--master", "local[3]", "--name", "counted"]
    assert made.spec == SPEC
    assert made.env["SPARK_HOME"] == str(spark_home())


def test_an_environment_of_the_stream_brings_its_own_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    named = replace(SPEC, spark=replace(SPEC.spark, python=sys.executable))
    made = order(named)
    assert (made.command[0], made.env["SPARK_HOME"]) == (str(spark_home() / "bin" / "spark-submit"), str(spark_home()))
    define(monkeypatch, host="local[2]", extra=json.dumps({"spark-binary": "spark3-submit"}))
    assert order(conn_id="cluster").command[0] == "spark3-submit"
    with pytest.raises(ConfigError, match="spark3-submit") as raised:
        order(named, conn_id="cluster")
    assert sys.executable in raised.value.observed


def test_settings_win_over_the_yaml_and_stay_out_of_the_arguments() -> None:
    """Everybody on the host can read a process's arguments, and a setting may hold a password."""
    made = order(conf={"spark.x": "operator", "spark.hadoop.fs.s3a.secret.key": "hush"})
    assert made.spec.spark.conf == {
        "spark.sql.ansi.enabled": "false",
        "spark.x": "operator",
        "spark.hadoop.fs.s3a.secret.key": "hush",
    }
    assert "hush" not in " ".join(made.command)


def test_a_properties_file_stands_between_the_yaml_and_the_operator(tmp_path: Path) -> None:
    """Both of Spark's notations, comments and blank lines left out."""
    file = tmp_path / "spark.conf"
    file.write_text("# a comment\n\nspark.x file\nspark.y=file y\n  spark.z: file\n")
    made = order(properties_file=str(file), conf={"spark.z": "operator"})
    assert made.spec.spark.conf["spark.x"] == "file"
    assert made.spec.spark.conf["spark.y"] == "file y"
    assert made.spec.spark.conf["spark.z"] == "operator"
    assert "--properties-file" not in made.command


def test_a_properties_file_that_is_not_there_is_named() -> None:
    """Before anything is launched."""
    with pytest.raises(ConfigError, match="/nowhere"):
        order(properties_file="/nowhere/spark.conf")


def test_options_of_spark_submit_reach_it() -> None:
    """Packages, jars, memory: the provider's own hook writes them."""
    made = order(packages="org.x:y:1", jars="/a.jar", driver_memory="3g", name="shown", env_vars={"TOKEN": "t"})
    command = list(made.command)
    for option, value in (("--packages", "org.x:y:1"), ("--jars", "/a.jar"), ("--driver-memory", "3g")):
        assert command[command.index(option) + 1] == value
    assert command[command.index("--name") + 1] == "shown"
    assert made.env["TOKEN"] == "t"
    assert "t" not in command


def test_arguments_are_appended_to_those_of_the_yaml() -> None:
    """For a job that is a script."""
    assert order(application_args=["--b", 2]).spec.args == ("--a", "--b", "2")


def test_a_connection_that_is_named_gives_the_master_and_the_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner is told the same master."""
    define(monkeypatch, host="spark://head", port=7077, extra=json.dumps({"spark-binary": "spark3-submit"}))
    made = order(conn_id="cluster")
    assert list(made.command[:3]) == ["spark3-submit", "--master", "spark://head:7077"]
    assert made.spec.spark.master == "spark://head:7077"
    assert "SPARK_HOME" not in made.env


def test_cluster_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver would run where nobody can watch it."""
    define(monkeypatch, host="spark://head", port=7077, extra=json.dumps({"deploy-mode": "cluster"}))
    with pytest.raises(ConfigError, match="cluster"):
        order(conn_id="cluster")


def test_an_application_is_refused() -> None:
    """The stream's job is what runs."""
    with pytest.raises(ConfigError, match="job"):
        order(application="/other.py")


@pytest.mark.parametrize("wanted", [{"parent"}, {"transport"}, {"parent", "transport"}, set()])
def test_what_openlineage_is_to_know_reaches_the_driver(monkeypatch: pytest.MonkeyPatch, wanted: set[str]) -> None:
    """Its provider is optional and not installed here: functions that add what its own would add stand for them. The
    settings have no place in the arguments, because the address of a backend may hold a key."""
    adds = {
        "parent": {"spark.openlineage.parentRunId": "run-7"},
        "transport": {"spark.openlineage.transport.url": "https://lineage.example", "spark.openlineage.key": "hush"},
    }
    names = {"parent": "parent_job", "transport": "transport"}
    for kind, added in adds.items():
        inject = f"inject_{names[kind]}_information_into_spark_properties"
        monkeypatch.setattr(submitting, inject, lambda conf, context, added=added: {**conf, **added})
    chosen = {f"openlineage_inject_{names[kind]}_info": kind in wanted for kind in adds}
    made = order(conf={"spark.x": "operator"}, **chosen)
    lineage = {key: value for key, value in made.spec.spark.conf.items() if "openlineage" in key}
    assert lineage == {key: value for kind in wanted for key, value in adds[kind].items()}
    assert made.spec.spark.conf["spark.x"] == "operator"
    assert "hush" not in " ".join(made.command)


def test_the_parameters_are_templated_as_ever() -> None:
    """What SparkSubmitOperator renders, this one renders."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    assert set(SparkSubmitOperator.template_fields) <= set(StreamOperator.template_fields)


def test_the_connections_of_the_stream_go_into_the_drivers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nowhere else: neither into the arguments nor into the spec, which a person can read."""
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", "kafka://ann:hush-hush@broker:9092/")
    spec = replace(SPEC, source=KafkaSource(connection="events", topic="orders"))
    made = order(spec)
    assert json.loads(made.env["AIRFLOW_CONN_EVENTS"])["password"] == "hush-hush"
    assert "hush" not in f"{made.command} {made.spec}"


def test_a_connection_that_airflow_does_not_know_is_told() -> None:
    with pytest.raises(ConfigError, match="Airflow knows no connection 'nowhere'"):
        order(replace(SPEC, sink=KafkaSink(connection="nowhere", topic="orders")))


def test_connections_are_published_for_a_while_and_a_missing_one_is_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", "kafka://broker:9092/")
    seen = {}
    monkeypatch.setattr(Connection, "get", lambda name: seen.setdefault(name, Connection(conn_id=name, host="db")))
    with published(["events", "warehouse"]):
        assert os.environ["AIRFLOW_CONN_EVENTS"] == "kafka://broker:9092/", "what is there already stays"
        assert json.loads(os.environ["AIRFLOW_CONN_WAREHOUSE"])["host"] == "db"
    assert list(seen) == ["warehouse"]
    assert "AIRFLOW_CONN_WAREHOUSE" not in os.environ
    monkeypatch.undo()
    with published(["nowhere"]):
        assert "AIRFLOW_CONN_NOWHERE" not in os.environ
