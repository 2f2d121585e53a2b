"""A driver gets what it needs of its launcher's environment, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamwarden.errors import ConfigError, InvalidValue
from streamwarden.services.fleet.launching.environment import declared, inherited
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StorageSpec, StreamSpec

SPEC = StreamSpec(name="flights", job="/p/job.py", checkpoint="/cp", storage=StorageSpec(connection="lake"))
LAKE = {"lake": "AIRFLOW_CONN_LAKE"}

NEEDED = {
    "PATH": "/usr/bin",
    "HOME": "/home/ann",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "JAVA_HOME": "/java",
    "JDK_JAVA_OPTIONS": "-Xss2m",
    "SPARK_CONF_DIR": "/etc/spark",
    "PYSPARK_PYTHON": "python3",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "PYTHONPATH": "/helpers",
    "https_proxy": "http://proxy:3128",
    "STREAMWARDEN_S3_ADDRESSING": "path",
    "AIRFLOW_CONN_LAKE": "aws://",
}
KEPT_BACK = {
    "AIRFLOW__CORE__FERNET_KEY": "hush",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:hush@db/airflow",
    "AIRFLOW__API_AUTH__JWT_SECRET": "hush",
    "AIRFLOW_CONN_WAREHOUSE": "postgresql://ann:hush@db/flights",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "STREAMWARDEN_NOTIFY_URLS": "mailto://ann:hush@example.com",
    "STREAMWARDEN_METRICS_TOKEN": "hush",
    "PYSPARK_GATEWAY_SECRET": "hush",
    "GITHUB_TOKEN": "hush",
    "ANYTHING": "else",
}


def test_secrets_of_the_launcher_stay_with_it() -> None:
    assert inherited(NEEDED | KEPT_BACK, SPEC, connections=LAKE, own_store=False) == NEEDED


def test_the_hosts_credentials_go_to_a_stream_whose_object_store_has_no_other() -> None:
    spec = replace(SPEC, storage=StorageSpec(), sink=ParquetSink(path="s3a://bucket/out"))
    found = inherited(NEEDED | KEPT_BACK, spec, connections={}, own_store=True)
    assert found["AWS_SECRET_ACCESS_KEY"] == "hush"
    assert "AIRFLOW_CONN_LAKE" not in found


def test_a_stream_names_the_variables_that_its_job_reads() -> None:
    spec = replace(SPEC, spark=SparkSpec(env=("GITHUB_TOKEN",)))
    found = inherited(NEEDED | KEPT_BACK, spec, connections=LAKE, own_store=False)
    assert found == NEEDED | {"GITHUB_TOKEN": "hush"}
    assert declared(KEPT_BACK, spec) == {"GITHUB_TOKEN": "hush"}


def test_a_variable_that_is_named_and_not_set_is_an_error() -> None:
    spec = replace(SPEC, spark=SparkSpec(env=("API_URL",)))
    with pytest.raises(ConfigError, match="API_URL is not set") as error:
        inherited(NEEDED, spec, connections=LAKE, own_store=False)
    assert "remove it from spark.env" in error.value.next_step


@pytest.mark.parametrize("name", ["A=b", "", "with space", "1A", "$HOME"])
def test_a_value_is_not_the_name_of_a_variable(name: str) -> None:
    with pytest.raises(InvalidValue, match="names of environment variables"):
        SparkSpec(env=(name,))
