"""Word count as one would submit it to Spark, unmodified: it names no checkpoint, no trigger, and relative paths.

1. `validate` accepts it, and `start` reports its first batch.
2. Its paths are below the data folder, and its checkpoint and trigger are the declared ones.
3. It is stopped at a batch boundary, started again, and goes on where it was.
4. A script that only shows at its start that it contradicts its file is refused then, with both values.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.driver import ExitKind
from support.command_line import Answer, in_process, in_shell
from support.spark.drivers import Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

WORDS = """
from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

spark = SparkSession.builder.appName("word_count").getOrCreate()
lines = spark.readStream.text("input/words")
words = lines.select(explode(split(lines.value, " ")).alias("word"))
query = words.groupBy("word").count().writeStream.outputMode("complete").format("console").start()
query.awaitTermination()
"""

ELSEWHERE = WORDS.replace('"console").start()', '"console").option("checkpointLocation", sys.argv[1]).start()')

STREAM = """
name: word_count
job: jobs/word_count.py
args: [checkpoints/elsewhere]
checkpoint: checkpoints/word_count
trigger: {processing_time: 700 ms}
state: {shuffle_partitions: 1}
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf: {spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        made.job("word_count", WORDS)
        streams = tmp_path / "config" / "streams"
        streams.mkdir(parents=True)
        (streams / "word_count.yaml").write_text(STREAM)
        (made.data / "input/words").mkdir()
        yield made


def run(world: Project, *arguments: str) -> Answer:
    return in_process(world.root, *arguments)


def write(world: Project, name: str, text: str) -> None:
    part = world.data / f".{name}"
    part.write_text(text)
    part.rename(world.data / "input/words" / name)


def log(world: Project) -> str:
    record = world.store.drivers.latest("word_count")
    assert record is not None
    return world.log(record.driver_id)


def test_word_count_runs_as_it_is(world: Project) -> None:
    write(world, "one.txt", "to be or not to be\n")
    assert run(world, "validate").code == Exit.OK
    started = in_shell(world.root, "start", "word_count")
    assert started.code == Exit.OK, (started, log(world))
    assert "query word_count started; batch 0 is committed" in started.out
    (query,) = world.store.queries.of("word_count")
    assert (query.name, query.checkpoint) == ("", str(world.data / "checkpoints/word_count"))
    assert query.trigger.processing_time == 0.7
    until("the counts in the log", lambda: "|  to|    2|" in log(world), told=lambda: log(world))

    stopped = run(world, "stop", "word_count")
    assert stopped.code == Exit.OK, (stopped, log(world))
    assert log_position(open_path(query.checkpoint)).gap == 0
    write(world, "two.txt", "to do\n")
    again = run(world, "start", "word_count")
    assert again.code == Exit.OK, (again, log(world))
    assert "query word_count started; batch 1 is committed" in again.out
    assert "batch 1 is committed" in run(world, "start", "word_count").out, "a driver that runs is found at once"
    until("the state goes on", lambda: "|  to|    3|" in log(world), told=lambda: log(world))
    assert run(world, "stop", "word_count").code == Exit.OK
    assert run(world, "inspect", "word_count", "--json").json["findings"] == []

    world.job("word_count", f"import sys\n{ELSEWHERE}")
    assert run(world, "validate").code == Exit.OK, "the text does not show the checkpoint"
    refused = run(world, "start", "word_count")
    assert refused.code == Exit.BAD, (refused, log(world))
    assert "ended after" in refused.out
    assert f"the script names the checkpoint {world.data}/checkpoints/elsewhere" in refused.out
    assert f"declares, {world.data}/checkpoints/word_count" in refused.out
    assert "next: make the script and `checkpoint` the same" in refused.out
    assert not (world.data / "checkpoints/elsewhere").exists()
    last = world.store.drivers.latest("word_count")
    assert last is not None
    assert last.exit is not None
    assert (last.exit.kind, last.exit.curable) == (ExitKind.FAILED, False)
