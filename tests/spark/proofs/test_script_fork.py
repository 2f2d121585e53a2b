"""The fence around the fork of a script. Drills of a script: tests/drills/test_script_drill.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.layout import SINK_LOG
from streamwarden.checkpoint.formats.logs import commit
from streamwarden.errors import VerificationError
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.forks.scripts import INDEX, ForkQuery
from streamwarden.lifecycle.forks.started import fork_queries
from streamwarden.services.forks.forks import fork
from streamwarden.sources.kafka.source import KafkaSource
from streamwarden.stream.spec import ForeachBatch, ScriptFork, SinkSpec, SourceSpec, StreamSpec
from support.servers.kafka_broker import Broker
from support.spark.drivers import Project, project
from support.spark.twins import compared_with_twin

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

RUNS = """
import sys

from pyspark.sql import SparkSession

out = sys.argv[1] + "/output/kept"
spark = SparkSession.builder.getOrCreate()
spark.sql("CREATE OR REPLACE TEMPORARY VIEW three AS SELECT * FROM range(3)")
three = spark.sql("SELECT * FROM three")
three.write.format("noop").mode("overwrite").save()
for write in (
    lambda: three.write.parquet(out),
    lambda: three.write.mode("append").format("json").save(out),
    lambda: three.write.saveAsTable("kept"),
    lambda: three.writeTo("kept").create(),
    lambda: three.rdd.saveAsTextFile(out),
    lambda: spark.sql("WITH t AS (SELECT 1 AS a) INSERT INTO kept SELECT * FROM t"),
    lambda: spark.sql("CREATE TABLE kept AS SELECT 1 AS a"),
):
    try:
        write()
    except Exception as error:
        assert type(error).__name__ == "JobError", repr(error)
    else:
        raise AssertionError("a write outside of the fork went through")


def keep(batch, number):
    batch.write.mode("append").parquet(out)


rows = spark.readStream.schema("id BIGINT").json("input")
rows.writeStream.foreachBatch(keep).partitionBy("id").start().awaitTermination()
rows.writeStream.format("console").start().awaitTermination()
rows.writeStream.toTable("kept").awaitTermination()
spark.readStream.format(sys.argv[2]).load().writeStream.format("parquet").start(out)
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        yield made


def stream(world: Project) -> StreamSpec:
    return world.spec(
        "two",
        RUNS,
        args=(str(world.data), "rate"),
        source=SourceSpec(),
        sink=SinkSpec(),
        quarantine=None,
        checkpoint=str(world.data / "checkpoints" / "two"),
        data=str(world.data),
    )


def contents(world: Project) -> dict[str, bytes]:
    """Every file of the stream's own folders, with its bytes."""
    own = (world.input, world.data / "output", world.data / "checkpoints")
    return {str(path): path.read_bytes() for root in own for path in root.rglob("*") if path.is_file()}


def ids(captured: Path) -> list[int]:
    return [row for folder in captured.glob("batch_id=*") for row in parquet.read_table(folder)["id"].to_pylist()]


def test_a_function_that_runs_writes_below_the_fork_and_everything_else_is_refused(world: Project) -> None:
    """The negative control of the fence: seven ways to write elsewhere, and a source without an end, whose name the
    script's text does not show. And `fork.batches` cuts the input."""
    world.publish(4)
    before = contents(world)
    made = fork(stream(world), into=world.root / "fork", rewind="all")
    script = replace(made.spec.fork or ScriptFork(output=""), foreach_batch=ForeachBatch.RUN, batches=2)
    driver_id = world.start(replace(made.spec, fork=script))
    end = world.await_end(driver_id)
    assert (end.kind, end.error_class) == (ExitKind.FAILED, "JobError"), (end, world.log(driver_id))
    assert "reads a source of the format rate, which makes rows for as long as the query runs" in end.message
    assert contents(world) == before
    assert not (world.data / "spark-warehouse").exists()
    captured, table, console = fork_queries(made.spec)
    assert [each.format for each in (captured, table, console)] == ["foreachbatch", "parquet", "console"]
    output = Path(str(captured.output))
    assert sorted(each.name for each in output.glob("batch_id=*")) == ["batch_id=0", "batch_id=1"]
    own = output / "_writes" / str(world.data).lstrip("/") / "output/kept"
    assert Counter(ids(output)) == Counter(parquet.read_table(own)["id"].to_pylist()) == Counter(range(80))
    assert Counter(ids(Path(str(table.output)))) == Counter(range(80))
    assert console.output is None


FROM_TOPIC_TO_TOPIC = """
import sys

from pyspark.sql import SparkSession

broker = {"kafka.bootstrap.servers": sys.argv[1]}
spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.format("kafka").options(**broker).option("subscribe", "clicks").load()
(
    clicks.selectExpr("key", "value").writeStream.queryName("copy").format("kafka").options(**broker)
    .option("topic", "copies").option("checkpointLocation", "checkpoints/copy").start()
)
(
    clicks.selectExpr("uuid() AS id").writeStream.queryName("tagged").format("parquet")
    .option("path", "output/tagged").option("checkpointLocation", "checkpoints/tagged").start()
)
spark.streams.awaitAnyTermination()
"""
"""It begins with the newest record, as Spark does, and has no limit."""


@pytest.mark.full  # first tier: drills/test_script_drill has a twin, test_jobs_on_topics a fork of a topic
def test_a_topic_is_read_in_batches_from_its_beginning_and_none_is_written(world: Project, kafka: Broker) -> None:
    """A second query makes another key in each run: as long as it is judged, nothing can be proven."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable("events"), kafka.connection)
        kafka.create("clicks", partitions=2)
        kafka.create("copies")
        kafka.produce("clicks", [f"click {number}" for number in range(60)], partitions=(0, 1))
        source = KafkaSource(connection="events", topic="clicks")
        spec = replace(stream(world), job=str(world.job("copy", FROM_TOPIC_TO_TOPIC)), args=(kafka.servers,))
        made = fork(replace(spec, source=source), into=world.root / "fork", rewind="all")
        forked = replace(made.spec, fork=replace(made.spec.fork or ScriptFork(output=""), batches=3))
        driver_id = world.start(forked)
        end = world.await_end(driver_id)
        assert end.kind is ExitKind.COMPLETED, (end, world.log(driver_id))
        copy, tagged = fork_queries(forked)
        captured = Path(str(copy.output))
        assert sorted(each.name for each in captured.glob("batch_id=*")) == [f"batch_id={batch}" for batch in range(3)]
        assert kafka.ends("copies", 1) == [0]
        with pytest.raises(VerificationError, match=r"cannot be proven .* of 60 keys are in one") as unstable:
            compared_with_twin(forked, world.root / "twins", key=("id",))
        assert str(unstable.value.where).startswith("the key id")
        Path(str(tagged.output)).parent.joinpath(INDEX, "tagged.json").unlink()
        twin = compared_with_twin(forked, world.root / "twins")
    assert twin.outcome.problems == ("tagged: no start of the fork started this query, and the twin did",)
    assert (twin.outcome.lost, twin.outcome.duplicated, twin.outcome.unexpected, twin.outcome.wrong) == (0, 0, 0, 0)
    assert (twin.outcome.expected, twin.outcome.records, twin.last) == (60, 60, 2)


SUMS = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).json("input")
late = rows.select("id", F.timestamp_seconds("id").alias("at")).withWatermark("at", "5 seconds")
sums = late.groupBy(F.window("at", "10 seconds")).agg(F.count("*").alias("n"))
sums.writeStream.queryName("sums").format("parquet").start("output/sums", checkpointLocation="checkpoints/sums")
spark.streams.awaitAnyTermination()
"""


def cut_before_the_first_commit(query: ForkQuery) -> None:
    """Leave what a driver leaves that dies when the sink has listed its first batch."""
    for log in (
        Path(query.checkpoint, "offsets"),
        Path(query.checkpoint, "commits"),
        Path(str(query.output), SINK_LOG),
    ):
        for entry in log.iterdir():
            if log.name == "commits" or entry.name not in ("0", ".0.crc"):
                entry.unlink()


@pytest.mark.full  # first tier: unit/services/proofs/test_script_witness judges such a start
def test_a_watermark_that_a_batch_without_its_commit_leaves_behind_is_no_deviation(world: Project) -> None:
    """Spark does not read a batch again that the sink's manifest has, so its rows never move the watermark."""
    world.publish(3)
    spec = replace(stream(world), job=str(world.job("sums", SUMS)), args=())
    forked = fork(spec, into=world.root / "fork", rewind="all").spec
    assert world.await_end(world.start(forked)).kind is ExitKind.COMPLETED
    (query,) = fork_queries(forked)
    cut_before_the_first_commit(query)
    assert world.await_end(world.start(forked)).kind is ExitKind.COMPLETED
    assert commit(open_path(query.checkpoint), 0).next_watermark_ms == 0
    twin = compared_with_twin(forked, world.root / "twins")
    assert twin.outcome.exactly_once, twin.outcome.to_dict()
