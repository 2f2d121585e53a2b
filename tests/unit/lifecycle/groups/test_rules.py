"""Which streams can be in one group; each refusal says what is wrong, what is right, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.lifecycle.groups.rules import problems_across, problems_of_one
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import Standby, StreamSpec, TriggerSpec


@pytest.fixture
def counts(tmp_path: Path) -> StreamSpec:
    job = tmp_path / "counts.py"
    job.write_text("def build(spark, spec): ...\n")
    return StreamSpec(name="counts", job=str(job), checkpoint="/cp", group="small", sink=ParquetSink(path="/out"))


def test_a_small_stream_of_this_host_can_be_in_a_group(counts: StreamSpec) -> None:
    assert problems_of_one(counts) == []


@pytest.mark.parametrize(
    ("change", "key", "allowed"),
    [
        ({"group": "a/b"}, "group", "a name that matches"),
        ({"standby": Standby.WARM}, "standby", "a stream of its own for a warm standby"),
        ({"spark": SparkSpec(master="yarn")}, "spark.master", "`local[N]`"),
        ({"spark": SparkSpec(deploy_mode=DeployMode.CLUSTER)}, "spark.master", "client"),
        ({"spark": SparkSpec(connection="spark_prod")}, "spark.connection", "null"),
        ({"spark": SparkSpec(python="/opt/spark41/bin/python")}, "spark.python", "another Spark"),
        ({"spark": SparkSpec(maven="pom.xml")}, "spark.maven", "null"),
        ({"trigger": TriggerSpec(processing_time=None, real_time=5.0)}, "trigger.real_time", "real-time mode"),
        ({"checkpoint": "s3a://lake/cp"}, "storage", "object stores"),
    ],
)
def test_what_needs_a_jvm_of_its_own_is_refused(
    counts: StreamSpec, change: dict[str, Any], key: str, allowed: str
) -> None:
    (problem,) = problems_of_one(replace(counts, **change))
    assert problem.dotted == key
    assert "in a stream of the group" in problem.observed
    assert allowed in problem.allowed
    assert problem.next_step
    assert problems_of_one(replace(counts, **{**change, "group": None})) == [], "alone it may"


def test_a_script_is_refused(counts: StreamSpec) -> None:
    Path(counts.job).write_text("print('a script')\n")
    (problem,) = problems_of_one(counts)
    assert (problem.dotted, problem.observed) == ("job", "'counts.py' in a stream of the group 'small'")


def test_streams_with_equal_settings_of_the_jvm_share_it(counts: StreamSpec) -> None:
    other = replace(
        counts,
        name="other",
        spark=SparkSpec(conf={"spark.sql.ansi.enabled": "false"}, env=("TOKEN",)),
        trigger=TriggerSpec(processing_time=9.0),
    )
    assert problems_across([counts, other]) == {}


@pytest.mark.parametrize(
    ("change", "key", "observed"),
    [
        ({"spark": SparkSpec(driver_memory=2**30)}, "spark.driver_memory", "'1073741824', and '2147483648' in"),
        ({"spark": SparkSpec(master="local[4]")}, "spark.master", "'local[4]', and 'local[2]' in"),
        ({"spark": SparkSpec(conf={"spark.a": "b"})}, "spark.conf.spark.a", "'b', and nothing in"),
        (
            {"spark": SparkSpec(conf={"spark.sql.extensions": "a"})},
            "spark.conf.spark.sql.extensions",
            "'a', and nothing",
        ),
        ({"spark": SparkSpec(py_files=("a.zip",))}, "spark.py_files", "'a.zip', and nothing in"),
        ({"sink": KafkaSink(topic="t", connection="k")}, "group", "the jars of 'connector kafka', and nothing in"),
    ],
)
def test_the_stream_that_differs_from_most_of_its_group_is_refused_and_no_other(
    counts: StreamSpec, change: dict[str, Any], key: str, observed: str
) -> None:
    odd = replace(counts, name="a_new_one", **change)
    found = problems_across([odd, counts, replace(counts, name="more")])
    assert set(found) == {"a_new_one"}
    (problem,) = found["a_new_one"]
    assert problem.dotted == key
    assert problem.observed.startswith(observed)
    assert "in the stream counts of the same group small" in problem.observed
    assert problems_across([replace(odd, group="another"), counts]) == {}, "another group has another JVM"
