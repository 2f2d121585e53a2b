"""A connection to an object store, in the words of Spark, of our own reader and of the environment."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import FsspecFiles, open_path
from streamwarden.adapters.storage.object_stores import (
    KEYS,
    ObjectStoreAccess,
    access,
    environment,
    file_system,
    spark_settings,
)
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.settings import CHECKPOINT_FILES
from streamwarden.services.fleet.launching.launch import driver_environment, remote_environment, store_settings
from streamwarden.sinks.kafka.output import read_topic
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sinks.postgresql.sink import PostgresqlSink
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import SinkSpec, StorageSpec, StreamSpec

SECRET = "not-in-any-log"
ELSEWHERE = {"endpoint_url": "http://127.0.0.1:9000"}


def conn(extra: object, **body: object) -> dict[str, str]:
    known = {"conn_type": "aws", "login": "AKIA", "password": SECRET, "extra": extra, **body}
    return {"AIRFLOW_CONN_LAKE": json.dumps(known)}


def stream(checkpoint: str = "s3a://bucket/c", sink: SinkSpec | None = None) -> StreamSpec:
    sink = sink or ParquetSink(path="s3a://bucket/o")
    storage = StorageSpec(connection="lake")
    return StreamSpec(name="a", job="/p/a.py", checkpoint=checkpoint, sink=sink, storage=storage)


def test_amazons_own_store() -> None:
    found = access("lake", conn({"region_name": "eu-west-1", "aws_session_token": "t"}))
    assert found == ObjectStoreAccess(key="AKIA", secret=SECRET, token="t", region="eu-west-1")
    assert spark_settings(found) == {
        "spark.hadoop.fs.s3a.path.style.access": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
    }


@pytest.mark.parametrize(
    "extra", [ELSEWHERE, {"service_config": {"s3": ELSEWHERE}}, {"host": ELSEWHERE["endpoint_url"]}]
)
def test_another_store_is_asked_by_its_path_and_signed_for_some_region(extra: object) -> None:
    found = access("lake", conn(extra))
    assert found.path_style
    assert spark_settings(found) == {
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }


def test_another_store_may_want_the_bucket_in_its_name() -> None:
    style = {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}
    assert not access("lake", conn(ELSEWHERE | style)).path_style


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "not known here"),
        (conn(ELSEWHERE, conn_type="postgres"), "of the type 'postgres'"),
        (conn(ELSEWHERE, password=None), "one half of an access key"),
        (conn({}), "neither a region nor an endpoint"),
        (conn({"endpoint_url": "127.0.0.1:9000"}), "names the endpoint '127.0.0.1:9000'"),
        (conn({"region_name": "eu-west-1", "role_arn": "arn:aws:iam::1:role/x"}), "has role_arn in its extra"),
    ],
)
def test_an_unusable_connection_is_reported_without_the_secret(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        access("lake", environ)
    assert SECRET not in str(caught.value)
    assert caught.value.next_step


def test_no_secret_is_in_a_repr_or_among_sparks_settings() -> None:
    found = access("lake", conn(ELSEWHERE | {"aws_session_token": "token-of-it"}))
    shown = f"{found!r} {spark_settings(found)}"
    assert SECRET not in shown
    assert "token-of-it" not in shown


def test_without_a_connection_the_environment_says_where_and_who() -> None:
    environ = {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "mine",
        "AWS_ENDPOINT_URL": "http://other",
        "AWS_ENDPOINT_URL_S3": "http://store:9000/",
        "AWS_DEFAULT_REGION": "r",
    }
    found = access(None, environ)
    assert found == ObjectStoreAccess(
        key="me", secret="mine", region="r", endpoint="http://store:9000", path_style=True
    )
    assert access(None, {}) == ObjectStoreAccess()


@pytest.mark.parametrize("style", ["path", "virtual"])
def test_what_a_driver_finds_in_its_environment_leads_back_to_the_same_store(style: str) -> None:
    """Whoever runs in the driver and knows no connection reads the same place."""
    wanted = {"region_name": "r", "config_kwargs": {"s3": {"addressing_style": style}}}
    found = access("lake", conn(ELSEWHERE | wanted))
    assert found.path_style is (style == "path")
    variables = {name: value for name, value in environment(found).items() if value is not None}
    assert access(None, variables) == found


def test_the_callers_key_does_not_reach_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of somebody else")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://elsewhere")
    found = driver_environment(stream(), tmp_path, "sqlite://", conn(ELSEWHERE), own_spark=False)
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]) == ("AKIA", SECRET)
    assert found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9000"
    assert not {"AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"} & set(found)


def test_cluster_driver_finds_the_store_by_its_submitted_settings(tmp_path: Path) -> None:
    """It has none of its launcher's variables."""
    spec = replace(stream(), spark=SparkSpec(master="yarn"))
    found = remote_environment(spec, tmp_path, "sqlite://", conn(ELSEWHERE))
    there = {name: found[f"spark.yarn.appMasterEnv.{name}"] for name in (*KEYS[:2], "AWS_ENDPOINT_URL_S3")}
    assert there == {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
    }
    assert "spark.yarn.appMasterEnv.AWS_SESSION_TOKEN" not in found


def test_a_pod_has_the_stores_key_from_a_secret_of_its_namespace(tmp_path: Path) -> None:
    of_namespace = {
        f"spark.kubernetes.driver.secretKeyRef.{name}": f"streams:{name}"
        for name in ("AIRFLOW_CONN_LAKE", "AWS_SECRET_ACCESS_KEY")
    }
    pod = SparkSpec(master="k8s://https://api:6443", conf=of_namespace)
    found = remote_environment(replace(stream(), spark=pod), tmp_path, "sqlite://", conn(ELSEWHERE))
    assert found["spark.kubernetes.driverEnv.AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:9000"
    assert SECRET not in str(found)
    plain = replace(pod, conf={name: where for name, where in of_namespace.items() if "LAKE" in name})
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY holds a secret"):
        remote_environment(replace(stream(), spark=plain), tmp_path, "sqlite://", conn(ELSEWHERE))


def test_a_role_of_the_machine_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the machine")
    only_where = conn({"region_name": "r"}, login=None, password=None)
    found = driver_environment(stream(), tmp_path, "sqlite://", only_where, own_spark=False)
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_REGION"]) == ("of the machine", "r")


@pytest.mark.parametrize(
    ("spec", "whole"),
    [
        (stream(), True),
        (stream(sink=PostgresqlSink(connection="w", table="t")), True),
        (stream(sink=ParquetSink(path="/o")), False),
        (stream(checkpoint="/c"), False),
    ],
)
def test_whole_uploads_are_chosen_where_every_log_is_in_the_store(spec: StreamSpec, whole: bool) -> None:
    assert (CHECKPOINT_FILES in store_settings(spec, ObjectStoreAccess(region="r"))) is whole


def test_whose_records_are_read_from_a_topic_is_asked_of_the_streams_own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query's id is in the checkpoint, which this process's own variables would not find."""
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "host": "127.0.0.1:1"}))
    sink = KafkaSink(connection="events", topic="t", key=("k",))
    with pytest.raises(ConfigError, match="lake"):
        read_topic(stream(sink=sink), {}, committed=0)


@pytest.mark.parametrize("url", ["s3a://bucket/a b/#1?", "s3://bucket/a b/#1?"])
def test_a_path_stays_a_url_for_people_and_is_a_key_for_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", conn(ELSEWHERE)["AIRFLOW_CONN_LAKE"])
    found = open_path(url, "lake")
    files = found.fs
    assert isinstance(files, FsspecFiles)
    assert found.path == url
    assert files.fs is file_system(access("lake")), "a client is made once"
    assert files.fs._strip_protocol(found.path) == "bucket/a b/#1?"
