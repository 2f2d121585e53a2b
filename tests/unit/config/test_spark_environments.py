"""A stream on another version of Spark: `validate` says what that version lacks, in four parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import environments
from streamwarden.adapters.jvm.environments import SparkEnvironment, own, require
from streamwarden.checkpoint.spark_support import PROGRAMS, SUPPORTED, Feature, lacks, named_in, shown
from streamwarden.config.spark_environment import environment_problems, lacking, problems_on
from streamwarden.errors import ConfigError
from streamwarden.lifecycle.settings import CHECKPOINT_FILES, RENAMED_AT_ONCE
from streamwarden.sinks.delta.sink import DeltaSink
from streamwarden.sinks.iceberg.sink import IcebergSink
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sources.delta.source import DeltaSource
from streamwarden.sources.files import FilesSource
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.audit import AuditSpec
from streamwarden.stream.spark import DeployMode, SparkSpec
from streamwarden.stream.spec import Encoding, StateSpec, StreamSpec, TriggerSpec

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
REPAIR = "spark.sql.streaming.stateStore.autoSnapshotRepair.enabled"
SPEC = StreamSpec(name="s", job="/none.py", checkpoint="/c", source=FilesSource(path="/i"))
PYTHON = SparkSpec(python="/env/bin/python")


def on(version: str, scala: str = "2.13") -> SparkEnvironment:
    """An environment with that Spark."""
    return replace(own(), python="/env/bin/python", version=version, scala=scala)


def found(spec: StreamSpec, version: str) -> list[str]:
    """The keys of the problems on that version."""
    return [
        problem.dotted for problem in problems_on(replace(spec, spark=replace(spec.spark, python="/e")), on(version))
    ]


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_stream_that_needs_nothing_new_runs_on_each(version: tuple[int, int]) -> None:
    assert found(SPEC, f"{shown(version)}.9") == []


@pytest.mark.parametrize("version", ["3.4.4", "4.4.0", "5.0.0"])
def test_a_version_that_was_not_tried_is_refused(version: str) -> None:
    (problem,) = problems_on(SPEC, on(version))
    assert (problem.dotted, version in problem.observed) == ("spark.python", True)
    assert all(shown(known) in problem.allowed for known in SUPPORTED)
    assert problem.next_step


AVRO = replace(SPEC, state=StateSpec(encoding=Encoding.AVRO))
LIVE = replace(SPEC, trigger=TriggerSpec(processing_time=None, real_time=10))
AUDITED = replace(SPEC, audit=AuditSpec(schedule="@daily"))
SECOND_FORMAT = replace(SPEC, spark=SparkSpec(conf={FORMAT: "2"}))
REPAIRED = replace(SPEC, spark=SparkSpec(conf={REPAIR: "true"}))


@pytest.mark.parametrize(
    ("spec", "key", "since"),
    [
        (AVRO, "state.encoding", "4.0"),
        (SECOND_FORMAT, f"spark.conf.{FORMAT}", "4.0"),
        (REPAIRED, f"spark.conf.{REPAIR}", "4.2"),
        (LIVE, "trigger.real_time", "4.3"),
        (AUDITED, "audit.schedule", "4.0"),
    ],
)
def test_what_a_version_lacks_is_said_and_no_later_one_is_refused(spec: StreamSpec, key: str, since: str) -> None:
    refused = [shown(version) for version in SUPPORTED if found(spec, f"{shown(version)}.0") == [key]]
    assert refused == [shown(version) for version in SUPPORTED if shown(version) < since]
    (problem,) = lacking(replace(spec, spark=replace(spec.spark, python="/e")), on("3.5.9"))
    assert "3.5.9" in problem.observed
    assert f"Spark {since} or later" in problem.allowed
    assert "spark.python" in problem.next_step


def test_the_first_checkpoint_format_may_be_named() -> None:
    assert list(lacking(replace(SPEC, spark=SparkSpec(conf={FORMAT: "1"})), on("3.5.9"))) == []


@pytest.mark.parametrize(
    ("call", "since"),
    [("transformWithState", "4.1"), ("transformWithStateInPandas", "4.0"), ("applyInPandasWithState", "3.5")],
)
def test_the_methods_of_a_job_are_looked_up(tmp_path: Path, call: str, since: str) -> None:
    job = tmp_path / "job.py"
    job.write_text(f"def build(spark, spec):\n    return rows.groupBy('k').{call}(P())\n")
    spec = replace(SPEC, job=str(job))
    problems = {version: list(lacking(spec, on(f"{version}.0"))) for version in ("3.5", "4.0", "4.1", "4.3")}
    assert [version for version, of_it in problems.items() if of_it] == [v for v in problems if v < since]
    assert all("line 2 of job.py" in problem.observed for of_it in problems.values() for problem in of_it)


@pytest.mark.parametrize("version", SUPPORTED)
def test_a_topic_is_read_on_each_spark(version: tuple[int, int]) -> None:
    assert found(replace(SPEC, source=KafkaSource(connection="c", topic="t")), f"{shown(version)}.0") == []


def test_what_the_driver_needs_to_write_its_sink_has_to_be_beside_that_spark() -> None:
    to_a_topic = replace(SPEC, sink=KafkaSink(connection="c", topic="t", key=("k",)))
    assert found(to_a_topic, "4.1.4") == []
    python = replace(to_a_topic, spark=PYTHON)
    (problem,) = problems_on(python, replace(on("4.1.4"), packages=frozenset()))
    assert problem.dotted == "spark.python"
    assert "confluent_kafka" in problem.observed
    assert problem.next_step == "run: /env/bin/python -m pip install 'streamwarden[kafka]'"
    stored = replace(SPEC, checkpoint="s3a://b/c", spark=PYTHON)
    assert problems_on(stored, on("4.1.4")) == []
    (problem,) = problems_on(stored, replace(on("4.1.4"), packages=frozenset()))
    assert "pyarrow" in problem.observed


def test_the_pinned_connectors_are_for_some_sparks_and_a_stream_may_bring_its_own() -> None:
    stored = replace(SPEC, checkpoint="s3a://b/c")
    assert found(stored, "4.1.4") == found(stored, "4.3.0") == []
    (problem,) = problems_on(stored, on("3.5.9", scala="2.12"))
    assert "Spark 4.1, 4.2, 4.3" in problem.observed
    assert "_2.12:3.5.9" in problem.next_step
    brought = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.3.4"}
    assert found(replace(stored, spark=SparkSpec(conf=brought)), "3.5.9") == []


def test_a_connector_for_an_older_spark_needs_an_environment_with_it() -> None:
    delta = replace(SPEC, sink=DeltaSink(path="/t"))
    assert found(delta, "4.2.1") == []
    assert found(delta, "4.1.4") == found(delta, "4.3.0") == ["spark.python"]
    assert found(replace(SPEC, source=DeltaSource(path="/t")), "4.3.0") == ["spark.python"]
    (own,) = environment_problems(delta)
    assert (own.dotted, "an environment with Spark 4.2" in own.allowed) == ("spark.python", True)
    assert "prepare --delta" in str(own.next_step)
    brought = {"spark.jars.packages": "io.delta:delta-spark_4.3_2.13:5.0.0"}
    assert environment_problems(replace(delta, spark=SparkSpec(conf=brought))) == []


def test_a_connector_of_an_older_spark_needs_an_environment_with_it() -> None:
    table = replace(SPEC, sink=IcebergSink(path="/lake/n/t"))
    assert found(table, "4.1.4") == []
    assert found(table, "4.3.0") == ["spark.python"]
    (problem,) = environment_problems(table)
    assert (problem.dotted, "Spark 4.1" in problem.observed) == ("spark.python", True)
    assert "streamwarden prepare --iceberg" in problem.next_step


@pytest.mark.parametrize("spark", [SparkSpec(master="yarn"), SparkSpec(master="k8s://https://h", image="i")])
@pytest.mark.parametrize("mode", list(DeployMode))
def test_a_cluster_was_not_tried(spark: SparkSpec, mode: DeployMode) -> None:
    (problem,) = environment_problems(replace(SPEC, spark=replace(spark, deploy_mode=mode, python="/e")))
    assert problem.dotted == "spark.python"
    assert environment_problems(replace(SPEC, spark=replace(spark, deploy_mode=mode))) == []


def test_an_interpreter_that_does_not_exist_is_named() -> None:
    (problem,) = environment_problems(replace(SPEC, spark=PYTHON))
    assert "/env/bin/python" in problem.observed
    assert "interpreter of an environment" in problem.allowed


def test_a_program_that_the_spark_of_a_stream_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "named", lambda _: on("3.5.9"))
    spec = replace(SPEC, spark=PYTHON)
    with pytest.raises(ConfigError, match=r"Spark 4\.0 or later"):
        require(spec, PROGRAMS["audit"])
    require(spec, None)  # a twin needs nothing that a version lacks
    require(SPEC, PROGRAMS["audit"])


def test_each_feature_is_in_the_newest_and_lacking_somewhere() -> None:
    for feature in Feature:
        assert [lacks(version, feature) for version in ((3, 5), SUPPORTED[-1])] == [True, False]


@pytest.mark.parametrize("version", [(3, 5), (4, 0), (4, 1), (4, 3)])
def test_a_class_that_moved_is_named_where_it_is(version: tuple[int, int]) -> None:
    package = "checkpointing." if version >= (4, 1) else ""
    conf = named_in({CHECKPOINT_FILES: RENAMED_AT_ONCE, "spark.app.name": "s"}, version)
    name = f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
    assert conf == {CHECKPOINT_FILES: name, "spark.app.name": "s"}
