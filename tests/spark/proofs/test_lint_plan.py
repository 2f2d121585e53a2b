"""`lint --plan` on the repository's jobs: the query is built and analyzed, and never started."""

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.jvm import maven
from streamwarden.errors import JobError
from streamwarden.lint.facts import Bound, OperatorKind
from streamwarden.lint.plan_reader import read_plan
from streamwarden.services.analysis.planning import logical_plan
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import StreamSpec
from support.streams import catalogue

pytestmark = pytest.mark.spark


def stream(name: str, data: Path) -> StreamSpec:
    spec = catalogue.stream(name, data)
    assert spec.source.path is not None
    Path(spec.source.path).mkdir(parents=True)
    return spec


def reached_by_a_cluster(spec: StreamSpec) -> StreamSpec:
    """The stream, with the addresses by which executors would reach its driver on another host. A program that runs on
    this one and kept them would not start."""
    addresses = {"spark.driver.host": "scheduler.invalid", "spark.driver.bindAddress": "127.0.0.1"}
    return replace(spec, spark=replace(spec.spark, conf={**spec.spark.conf, **addresses}))


@pytest.mark.parametrize(
    ("name", "kind", "bound"),
    [
        ("flight_dedup_unbounded", OperatorKind.DEDUPLICATION, Bound.NONE),
        pytest.param("flight_dedup", OperatorKind.DEDUPLICATION, Bound.WATERMARK, marks=pytest.mark.full),
        pytest.param("aircraft_rotations", OperatorKind.AGGREGATION, Bound.WATERMARK, marks=pytest.mark.full),
    ],
)
def test_the_plan_of_a_job_tells_what_bounds_its_state(
    name: str, kind: OperatorKind, bound: Bound, tmp_path: Path
) -> None:
    spec = reached_by_a_cluster(stream(name, tmp_path))
    (operator,) = read_plan(logical_plan(spec), spec.sink.mode).operators
    assert (operator.kind, operator.bound) == (kind, bound)
    assert not Path(spec.checkpoint).exists()


def test_the_plan_of_a_stream_on_a_topic_needs_no_broker_and_shows_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven.resolve(maven.POMS / "kafka.xml")
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", "kafka://ann:hush-hush@127.0.0.1:1/")
    spec = catalogue.stream("event_windows", tmp_path)
    spec = replace(spec, source=KafkaSource(connection="events", topic="events"))
    plan = logical_plan(spec)
    assert "hush-hush" not in plan
    (operator,) = read_plan(plan, spec.sink.mode).operators
    assert (operator.kind, operator.bound) == (OperatorKind.AGGREGATION, Bound.WATERMARK)


def test_a_job_that_cannot_be_built_says_why_and_what_was_read_instead(tmp_path: Path) -> None:
    """Its input folder is not there."""
    spec = catalogue.stream("flight_dedup", tmp_path)
    with pytest.raises(JobError, match="PATH_NOT_FOUND") as raised:
        logical_plan(spec)
    assert raised.value.next_step == "the job's text was read instead"
