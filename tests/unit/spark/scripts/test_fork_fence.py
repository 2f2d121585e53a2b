"""A fork's driver starts no query outside of the fork. With real Spark: tests/spark/proofs/test_fork_fence_run.py."""

from pathlib import Path

import pytest

from streamwarden.errors import JobError
from streamwarden.sinks.kafka.sink import KafkaSink
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.spark.scripts.fork_fence import fence_fork, violation, writes_nothing
from streamwarden.spark.scripts.query_starts import arguments
from streamwarden.stream.spec import StreamSpec

FORK = StreamSpec(
    name="flights__fork",
    job="job.py",
    checkpoint="/drills/1/fork/checkpoint",
    sink=ParquetSink(path="/drills/1/fork/out"),
)
OWN = {"checkpointlocation": "file:///drills/1/fork/checkpoint/", "path": "/drills/1/fork/out"}


@pytest.mark.parametrize(
    ("options", "outside"),
    [
        (OWN, None),
        ({**OWN, "path": "/drills/1/fork/out/part"}, None),
        ({"checkpointlocation": "/drills/1/fork/checkpoint"}, None),
        ({}, "a query without a checkpoint of the fork"),
        ({**OWN, "checkpointlocation": "/checkpoints/flights"}, "a query with the checkpoint /checkpoints/flights"),
        ({**OWN, "path": "/output/flights"}, "a query with the output path /output/flights"),
        ({**OWN, "path": "/drills/1/fork/output"}, "a query with the output path /drills/1/fork/output"),
        ({**OWN, "table": "flights"}, "a query with the output table flights"),
        ({**OWN, "topic": "flights"}, "a query with the output topic flights"),
    ],
)
def test_a_query_is_within_the_fork_by_its_checkpoint_and_its_output(
    options: dict[str, str | None], outside: str | None
) -> None:
    assert violation(FORK, options) == outside


def test_a_fork_with_a_topic_writes_to_its_own_topic() -> None:
    sink = KafkaSink(connection="c", topic="streamwarden_fork_1", key=("id",))
    fork = StreamSpec(name="flights__fork", job="job.py", checkpoint=FORK.checkpoint, sink=sink)
    here = {"checkpointlocation": FORK.checkpoint}
    assert violation(fork, {**here, "topic": "streamwarden_fork_1"}) is None
    assert violation(fork, {**here, "topic": "flights"}) == "a query with the output topic flights"


@pytest.mark.parametrize("kafka", ["kafka", "Kafka", "org.apache.spark.sql.kafka010.KafkaSourceProvider"])
def test_a_fork_with_a_topic_lets_no_row_choose_its_topic(kafka: str) -> None:
    """Without the option `topic` a column of that name decides where each row goes."""
    sink = KafkaSink(connection="c", topic="streamwarden_fork_1", key=("id",))
    fork = StreamSpec(name="flights__fork", job="job.py", checkpoint=FORK.checkpoint, sink=sink)
    by_row: dict[str, str | None] = {"checkpointlocation": FORK.checkpoint, "format": kafka}
    assert violation(fork, by_row) == "a query with the output topics that its rows name"
    assert violation(fork, {**by_row, "topic": "streamwarden_fork_1"}) is None


@pytest.mark.parametrize(
    ("method", "args", "options", "found"),
    [
        ("toTable", ("flights",), {}, {"table": "flights"}),
        ("toTable", (), {"tableName": "flights", "format": "delta"}, {"table": "flights", "format": "delta"}),
        ("start", ("/out", "kafka"), {"queryName": "q"}, {"path": "/out", "format": "kafka", "queryname": "q"}),
        ("start", (), {"path": "/out", "Topic": "t", "format": None}, {"path": "/out", "topic": "t"}),
    ],
)
def test_a_place_is_seen_whether_it_is_given_by_position_or_by_name(
    method: str, args: tuple[str, ...], options: dict[str, str | None], found: dict[str, str]
) -> None:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    assert arguments(getattr(DataStreamWriter, method), args, options) == found


def test_a_fork_that_redirects_no_query_runs_no_script_and_its_code_is_not_even_begun(tmp_path: Path) -> None:
    job = tmp_path / "script.py"
    job.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    with pytest.raises(JobError, match="this fork cannot run a script"):
        fence_fork(StreamSpec(name="flights__fork_0123456789", job=str(job), checkpoint="/c"))
    assert not (tmp_path / "ran").exists()
    fence_fork(StreamSpec(name="flights", job=str(job), checkpoint="/c"))  # which a stream that is no fork may do


@pytest.mark.parametrize(
    ("options", "also", "expected"),
    [
        ({"checkpointlocation": "/f/anew", "format": "noop"}, "/f/anew", True),
        ({"checkpointlocation": "/f/anew", "format": "noop"}, None, False),
        ({"checkpointlocation": "/f/anew", "format": "parquet"}, "/f/anew", False),
        ({"checkpointlocation": "/live", "format": "noop"}, "/f/anew", False),
        ({"format": "noop"}, "/f/anew", False),
    ],
)
def test_a_query_that_writes_nowhere_may_begin_in_another_checkpoint_that_is_named(
    options: dict[str, str | None], also: str | None, expected: bool
) -> None:
    assert writes_nothing(options, also) is expected
