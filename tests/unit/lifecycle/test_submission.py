"""What a driver is submitted with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamwarden.errors import ConfigError
from streamwarden.lifecycle.settings import CHECKPOINT_FILES, RENAMED_AT_ONCE
from streamwarden.lifecycle.submission import (
    driver_properties,
    executor_tag,
    properties_text,
    secret_options,
    spark_conf,
    submit_command,
)
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import Backend, Encoding, SourceSpec, StateSpec, StreamSpec

STATE = "spark.sql.streaming.stateStore"


def stream(**changes: object) -> StreamSpec:
    return StreamSpec(
        **{
            "name": "counts",
            "job": "/p/jobs/counts.py",
            "checkpoint": "/d/cp",
            "source": FilesSource(path="/in"),
            **changes,
        }
    )  # type: ignore[arg-type]


def test_state_is_in_rocksdb_with_changelogs_by_default() -> None:
    conf = spark_conf(stream())
    assert conf[f"{STATE}.providerClass"].endswith("RocksDBStateStoreProvider")
    assert conf[f"{STATE}.rocksdb.changelogCheckpointing.enabled"] == "true"
    assert conf[f"{STATE}.rocksdb.boundedMemoryUsage"] == "true"
    assert conf["spark.sql.shuffle.partitions"] == "4"


def test_the_hdfs_backend_gets_no_rocksdb_settings() -> None:
    conf = spark_conf(stream(state=StateSpec(backend=Backend.HDFS, shuffle_partitions=7, encoding=Encoding.AVRO)))
    assert conf[f"{STATE}.providerClass"].endswith("HDFSBackedStateStoreProvider")
    assert conf[f"{STATE}.encodingFormat"] == "avro"
    assert conf["spark.sql.shuffle.partitions"] == "7"
    assert not [key for key in conf if "rocksdb" in key]


def test_snapshots_are_uploaded_far_more_often_than_a_crash_loop_turns() -> None:
    """Spark's own 60 s let a stream that dies every few seconds never upload one."""
    conf = spark_conf(stream())
    assert conf[f"{STATE}.maintenanceInterval"] == "2s"
    assert int(conf[f"{STATE}.minDeltasForSnapshot"]) <= 10


def test_a_local_driver_listens_on_loopback_and_shows_no_ui() -> None:
    conf = spark_conf(stream())
    assert conf["spark.driver.bindAddress"] == conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("checkpoint", "output", "local"),
    [
        ("/data/checkpoint", "/data/output", True),
        ("/data/checkpoint", None, True),
        ("file:///data/checkpoint", "/data/output", True),
        ("s3a://bucket/checkpoint", "/data/output", False),
        ("/data/checkpoint", "hdfs://host/output", False),
    ],
)
def test_files_on_a_local_disk_are_renamed_by_the_operating_system(
    checkpoint: str, output: str | None, local: bool
) -> None:
    """Elsewhere a rename may not replace what is there: Spark's choice stays."""
    conf = spark_conf(stream(checkpoint=checkpoint, sink=ParquetSink(path=output)))
    assert conf.get(CHECKPOINT_FILES) == (RENAMED_AT_ONCE if local else None)


def test_a_driver_on_a_cluster_can_be_reached_from_it() -> None:
    conf = spark_conf(stream(spark=SparkSpec(master="spark://master:7077")))
    assert "spark.driver.bindAddress" not in conf
    assert conf["spark.master"] == "spark://master:7077"


def test_each_executor_of_a_cluster_says_whose_it_is_beside_the_streams_own_options() -> None:
    def options(master: str, **conf: str) -> str | None:
        spec = stream(spark=SparkSpec(master=master, conf=conf))
        made = driver_properties(spec, Path("/d/drivers/counts/counts-7"), python="/venv/bin/python")
        return made.get("spark.executor.extraJavaOptions")

    tag = executor_tag("counts-7")
    assert options("spark://one:7077") == f"{tag} -Djava.io.tmpdir=.", "what a killed one leaves is in its own folder"
    assert options("yarn", **{"spark.executor.extraJavaOptions": "-Xss4m"}) == f"{tag} -Xss4m"
    assert options("local[2]") is None, "it has none"


def test_what_the_streams_file_says_wins() -> None:
    own = {"spark.ui.enabled": "true", f"{STATE}.maintenanceInterval": "60s", "spark.local.dir": "/fast"}
    spec = stream(spark=SparkSpec(conf=own))
    assert own.items() <= spark_conf(spec).items()
    assert own.items() <= driver_properties(spec, Path("/d/f"), python="/venv/bin/python").items()


def test_files_that_spark_ships_are_below_the_project_and_not_where_the_driver_runs() -> None:
    own = {"spark.jars": "jars/a.jar, /lib/b.jar,s3a://lake/c.jar", "spark.eventLog.dir": "events"}
    conf = spark_conf(stream(spark=SparkSpec(conf=own), project="/p"))
    assert conf["spark.jars"] == "/p/jars/a.jar,/lib/b.jar,s3a://lake/c.jar"
    assert conf["spark.eventLog.dir"] == "events"


def test_jvm_options_of_the_stream_are_added_to_ours() -> None:
    spec = stream(spark=SparkSpec(conf={"spark.driver.extraJavaOptions": "-Dmine=1"}))
    options = driver_properties(spec, Path("/d/f"), python="python")["spark.driver.extraJavaOptions"].split()
    assert options[-1] == "-Dmine=1"
    assert "-XX:+ExitOnOutOfMemoryError" in options
    assert "-Djava.io.tmpdir=/d/f/tmp" in options


def test_workers_use_the_interpreter_of_the_driver() -> None:
    conf = driver_properties(stream(), Path("/d/f"), python="/venv/bin/python")
    assert conf["spark.pyspark.python"] == conf["spark.pyspark.driver.python"] == "/venv/bin/python"
    assert conf["spark.executorEnv.PYTHONPATH"] == "/p/jobs"


def test_a_script_keeps_its_own_time_zone() -> None:
    assert spark_conf(stream())["spark.sql.session.timeZone"] == "UTC"
    script = stream(source=SourceSpec())
    assert "spark.sql.session.timeZone" not in spark_conf(script)


def test_the_command_holds_no_setting() -> None:
    spec = stream(spark=SparkSpec(conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"}))
    command = submit_command(spec, Path("/d/f"), runner=Path("/r/runner.py"), spark_submit="/s/spark-submit")
    assert command == ["/s/spark-submit", "--properties-file", "/d/f/spark.properties", "/r/runner.py", "/d/f"]


def test_a_command_of_airflows_hook_is_kept_and_completed() -> None:
    prefix = ["spark-submit", "--master", "local[2]", "--name", "x"]
    command = submit_command(stream(), Path("/d/f"), runner=Path("/r/runner.py"), spark_submit="unused", prefix=prefix)
    assert command == [*prefix, "--properties-file", "/d/f/spark.properties", "/r/runner.py", "/d/f"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("a b", "a b"),
        (" leading", "\\ leading"),
        ("back\\slash", "back\\\\slash"),
        ("two\nlines", "two\\nlines"),
        ("Köln", "K\\u00f6ln"),
        ("🚀", "\\ud83d\\ude80"),
    ],
)
def test_values_survive_the_properties_file(value: str, written: str) -> None:
    assert properties_text({"spark.x": value}) == f"spark.x={written}\n"


@pytest.mark.parametrize("key", ["hadoop.x", "spark.x y", "spark.x=1\nspark.y", "spark."])
def test_a_key_that_is_not_sparks_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="not a Spark setting"):
        properties_text({key: "1"})


def test_jvm_options_that_hold_a_secret_are_no_arguments() -> None:
    """Spark passes them as arguments. The JVM reads them from a file instead."""
    secret = "-Djavax.net.ssl.trustStorePassword=hunter2-x"
    for options, hidden in (("-Xss2m", False), (f"-Xss2m {secret}", True)):
        spec = stream(spark=SparkSpec(conf={"spark.driver.extraJavaOptions": options}))
        conf = driver_properties(spec, Path("/d/f 1"), python="python3")
        shown, content = secret_options(conf, Path("/d/f 1"))
        assert "hunter2" not in str(shown)
        assert (content is not None) is hidden
        whole = content if content is not None else shown["spark.driver.extraJavaOptions"]
        assert whole.split()[-1] == options.split()[-1]
        assert "-XX:+ExitOnOutOfMemoryError" in whole
    assert shown["spark.driver.extraJavaOptions"] == '"@/d/f 1/jvm.options"'


def test_spark_hides_the_same_settings_as_this_package() -> None:
    """In its UI, its event log and its plans; what the stream's file adds is hidden too."""
    spec = stream(spark=SparkSpec(conf={"spark.redaction.regex": "flight"}))
    pattern = driver_properties(spec, Path("/d/f"), python="python3")["spark.redaction.regex"]
    for name in ("spark.kafka.sasl.jaas.config", "spark.hadoop.fs.s3a.secret.key", "spark.my.flight"):
        assert re.search(pattern, name)
    assert re.search(pattern, "spark.sql.shuffle.partitions") is None
