"""A script with two queries, unmodified and undeclared, under supervision.

1. `start` returns once both run; `status` lists the stream and each query under `STREAM/QUERY`.
2. Each query is measured and checked by its own trigger, and another stream cannot have its checkpoint.
3. The driver is killed; the next one goes on with both, and no batch is missing in the books.
4. One query dies while the other goes on: that is an incident of this query alone.
5. `stop` ends the rest at its batch boundary; the output of both has each row once.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.cli.exit_codes import Exit
from streamwarden.errors import LeaseHeld
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.stream.spec import SinkSpec, SourceSpec
from support.command_line import Answer, in_process, in_shell
from support.spark.drivers import Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

PAIR = """
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession, functions as F

source, base = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("pair").getOrCreate()
schema = "id BIGINT, key INT, at TIMESTAMP"
rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(source)


@F.udf("bigint")
def checked(number):
    if Path(base, "poison").exists():
        raise ValueError("a poisoned row")
    if Path(base, "slow").exists():
        time.sleep(0.2)
    return number


plain = (
    rows.select("id")
    .writeStream.format("parquet").option("path", base + "/output/plain")
    .option("checkpointLocation", base + "/checkpoints/pair/plain")
    .trigger(processingTime="250 milliseconds")
    .start()
)
picky = (
    rows.select(checked("id").alias("id"))
    .writeStream.format("parquet").option("path", base + "/output/picky").queryName("Picky One")
    .option("checkpointLocation", base + "/checkpoints/pair/second")
    .trigger(processingTime="300 milliseconds")
    .start()
)
try:
    plain.awaitTermination()
finally:
    spark.stop()  # it must not cut the batch of the other one
"""

STREAM = """
name: pair
job: jobs/pair.py
args: [{input}, {base}]
source: {{kind: script}}
sink: {{kind: script}}
checkpoint: checkpoints/pair
restart: {{initial: 1s}}
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""

NAMES = ["pair", "pair/picky_one", "pair/plain"]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        made.job("pair", PAIR)
        streams = tmp_path / "config" / "streams"
        streams.mkdir(parents=True)
        (streams / "pair.yaml").write_text(STREAM.format(input=made.input, base=made.data))
        yield made


def run(world: Project, *arguments: str) -> Answer:
    return in_process(world.root, *arguments)


def status(world: Project) -> dict[str, dict[str, Any]]:
    return {each["stream"]: each for each in run(world, "status", "--json").json["streams"]}


def committed(world: Project, folder: str) -> int:
    position = log_position(open_path(str(world.data / "checkpoints/pair" / folder)))
    return -1 if position.committed is None else position.committed


def kept(world: Project, name: str) -> list[int]:
    return [batch.batch_id for batch in world.store.batches.window(name) if batch.committed_at or batch.progress]


def rows_of(world: Project, name: str) -> Counter[int]:
    """The ids that a reader finds who honours the sink's manifest."""
    manifest = [each for each in (world.data / "output" / name / "_spark_metadata").iterdir() if each.name.isdigit()]
    entries = {json.loads(line)["path"] for each in manifest for line in each.read_text().splitlines()[1:]}
    found: Counter[int] = Counter()
    for path in entries:
        found.update(parquet.read_table(path.removeprefix("file://"))["id"].to_pylist())
    return found


def test_a_script_with_two_queries_is_supervised_killed_restarted_and_stopped(world: Project) -> None:
    world.publish(3)

    first = in_shell(world.root, "start", "pair")
    assert first.code == Exit.OK, (first, world.log(_driver(world)))
    assert "query picky_one started; batch" in first.out, first.out
    assert "query plain started; batch" in first.out, first.out

    until("both read all", lambda: committed(world, "plain") >= 2 and committed(world, "second") >= 2)
    seen = status(world)
    assert sorted(seen) == NAMES
    assert {each["state"] for each in seen.values()} == {"running"}
    units = {each.name: each for each in world.store.queries.of("pair")}
    assert (units["plain"].trigger.processing_time, units["picky_one"].trigger.processing_time) == (0.25, 0.3)
    with pytest.raises(LeaseHeld, match="pair"):
        world.store.leases.acquire(units["plain"].checkpoint, stream="thief", holder="thief-1", ttl=30, now=time.time())
    checked = run(world, "check", "--json").json["streams"]
    assert sorted(checked) == NAMES
    assert "restart_loop" in {each["check"] for each in checked["pair"]["verdicts"]}
    assert "query_ended" in {each["check"] for each in checked["pair/plain"]["verdicts"]}
    one = run(world, "check", "pair/picky_one", "--json").json["streams"]
    assert list(one) == ["pair/picky_one"]
    assert run(world, "inspect", "pair/plain", "--json").json["findings"] == []

    killed = _driver(world)
    world.publish(2)
    assert world.fleet.kill(killed)
    assert world.await_end(killed).kind is ExitKind.KILLED
    assert run(world, "start", "pair").code == Exit.OK
    until("both went on", lambda: committed(world, "plain") >= 4 and committed(world, "second") >= 4)
    for name, folder in (("pair/plain", "plain"), ("pair/picky_one", "second")):
        until(
            f"all batches of {name}",
            lambda name=name, folder=folder: set(kept(world, name)) >= set(range(committed(world, folder) + 1)),  # type: ignore[misc]
        )
    assert kept(world, "pair") == [], "nothing is kept under the name of the stream alone"

    (world.data / "poison").touch()
    world.publish(1)
    until("the end of one query", lambda: any(query.error for query in world.store.queries.of("pair")))
    assert status(world)["pair/picky_one"]["state"] == "ended"
    until("the other one's batch", lambda: committed(world, "plain") >= 5)
    report = run(world, "check", "--json")
    assert report.code == Exit.BAD
    (opened,) = [each for each in world.store.incidents.open() if each.check == "query_ended"]
    assert (opened.stream, opened.status.value) == ("pair/picky_one", "CRITICAL")
    assert "a poisoned row" in opened.reason
    assert status(world)["pair/plain"]["state"] == "running"

    stopped = run(world, "stop", "pair")
    assert stopped.code == Exit.OK, (stopped, world.log(_driver(world)))
    assert log_position(open_path(units["plain"].checkpoint)).gap == 0
    (world.data / "poison").unlink()
    world.publish(1)  # a start waits ten seconds for the first batch of a query that has nothing to read
    assert run(world, "start", "pair").code == Exit.OK
    until("the other one's batches, too", lambda: committed(world, "second") >= 6)
    run(world, "check", "--json")
    (world.data / "slow").touch()
    world.publish(1)
    position = {name: open_path(unit.checkpoint) for name, unit in units.items()}
    newest = world.published - 1  # each file is a batch
    until("a long batch", lambda: log_position(position["picky_one"]).gap == 1)
    until("the plans of both", lambda: [log_position(at).planned for at in position.values()] == [newest, newest])
    driver = _driver(world)
    assert run(world, "stop", "pair").code == Exit.OK
    assert {log_position(open_path(each.checkpoint)).gap for each in units.values()} == {0}
    end = world.await_end(driver)
    assert (end.kind, end.cut_batch) == (ExitKind.STOPPED, False)
    expected = Counter(range(world.published * 20))
    assert rows_of(world, "plain") == expected
    assert rows_of(world, "picky") == expected


def _driver(world: Project) -> str:
    record = world.store.drivers.latest("pair")
    assert record is not None
    return record.driver_id


@pytest.mark.full  # in the first tier test_word_count has a script that contradicts its file
def test_a_query_that_is_not_declared_never_begins_and_ends_the_driver(world: Project) -> None:
    """The declared one is stopped at its batch boundary; nothing of the other one is kept."""
    world.publish(2)
    places = world.data / "checkpoints" / "pair"
    spec = world.spec(
        "pair",
        PAIR,
        args=(str(world.input), str(world.data)),
        source=SourceSpec(),
        sink=SinkSpec(),
        queries={"plain": str(places / "plain")},
    )
    driver_id = world.start(spec)
    end = world.await_end(driver_id)
    assert (end.kind, end.error_class, end.curable, end.cut_batch) == (ExitKind.FAILED, "JobError", False, False), end
    assert "Picky One" in end.message
    assert "one of the declared queries: plain" in end.message
    assert "add it to `queries`" in end.next_step
    assert not list((places / "second" / "offsets").glob("[0-9]*"))
    assert [(each.name, each.error) for each in world.store.queries.of("pair")] == [("plain", None)]
    assert committed(world, "plain") == max(kept(world, "pair/plain"), default=-1)
