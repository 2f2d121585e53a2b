"""Streams whose output is a table or a topic are upgraded by the command line, with real drivers and a real service.

1. A table: a version that fails in production is taken back, with the rows that it wrote; the next one runs beside the
   old one first, and takes over.
2. A topic: what readers have got cannot be taken back, so that the upgrade is refused until a person has said
   `--no-rollback`; then that version runs beside, too.

In the end each row of the input was counted once, under batches that follow one another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from streamwarden.adapters.connections import variable
from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.formats.logs import log_position
from support.command_line import Answer, in_shell
from support.servers.kafka_broker import Broker
from support.servers.postgres_server import PostgreSQL
from support.spark.drivers import Project, producing, project, until

pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1200)]

JOB = """
from pyspark.sql import functions as F


def build(spark, spec):
    rows = spark.readStream.schema("id long, key int, at timestamp").options(**spec.source.options)
    events = rows.option("maxFilesPerTrigger", "1").json(spec.source.path).withWatermark("at", "10 seconds")
    windows = events.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("*").alias("n"))
    return windows.select(F.col("window.start").alias("start"), "key", "n")
"""

STREAM = """
name: counts
job: jobs/counts.py
source: {path: input, max_files_per_trigger: 1}
sink: SINK
checkpoint: checkpoints/counts
trigger: {processing_time: 3 s}
state: {shuffle_partitions: 1}
restart: {initial: 1s}
health: {thresholds: {batch_longer_than_trigger: {warning: 1000, critical: 2000}}}   # what a busy machine may take
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""

TABLE = "{kind: postgresql, connection: warehouse, table: counts, key: [start, key]}"
TOPIC = "{kind: kafka, connection: events, topic: upgraded_counts, key: [start, key]}"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as it:
        it.job("counts", JOB)
        it.job("same", JOB.replace("groupBy(", "where('key >= 0').groupBy(", 1))
        it.job(
            "fails", JOB.replace("    windows = ", "    assert '__fork' in spec.name, 'no production'\n    windows = ")
        )
        with producing(it, every=2.0):
            yield it


def begun(made: Project, sink: str) -> None:
    folder = made.root / "config/streams"
    folder.mkdir(parents=True)
    (folder / "counts.yaml").write_text(STREAM.replace("SINK", sink))
    assert in_shell(made.root, "start", "counts").code == 0
    until("some batches", lambda: committed(made) >= 4)


def upgrade(made: Project, name: str, *more: str) -> Answer:
    options = ("--watch", "5s", "--batches", "2", *more)
    return in_shell(made.root, "upgrade", "counts", "--job", f"jobs/{name}.py", *options, timeout=600)


def committed(made: Project) -> int:
    return log_position(open_path(str(made.data / "checkpoints/counts"))).committed or 0


def goes_on(made: Project) -> None:
    at = committed(made)
    until("more batches", lambda: committed(made) > at + 3)


def assert_each_was_counted_once(made: Project, rows: Callable[[], list[tuple[str, int, int]]]) -> None:
    assert in_shell(made.root, "stop", "counts").code == 0
    found = rows()
    assert set(Counter((at, key) for at, key, _ in found).values()) == {1}
    sent: Counter[tuple[str, int]] = Counter()
    for path in (made.data / "input").glob("*.json"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            sent[row["at"][:18], row["key"]] += 1  # the ten seconds of its window
    last = max(at for at, _, _ in found)
    assert {(at, key): n for at, key, n in found} == {window: n for window, n in sent.items() if window[0] <= last}


def test_a_table(made: Project, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch) -> None:
    postgresql.create("upgraded")
    database = postgresql.connection("upgraded")
    monkeypatch.setenv(variable("warehouse"), database)
    begun(made, TABLE)
    fails = upgrade(made, "fails")
    assert fails.code == 1, fails
    assert "runs" in fails.out
    goes_on(made)
    same = upgrade(made, "same", "--beside", "15s")
    assert same.code == 0, same
    assert "beside: batch" in same.out
    assert "are the same" in same.out
    goes_on(made)

    def rows() -> list[tuple[str, int, int]]:
        with psycopg.connect(database) as session:
            session.execute("SET timezone TO 'UTC'")
            found = session.execute("SELECT start, key, n FROM counts").fetchall()
            schemas = session.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'streamwarden_fork%'")
            assert schemas.fetchall() == [], "nothing of the forks is left"
            ledger = session.execute("SELECT batch_id FROM streamwarden_sink").fetchall()
        assert ledger == [(committed(made),)]
        return [(f"{at:%Y-%m-%dT%H:%M:%S}"[:18], key, n) for at, key, n in found]

    assert_each_was_counted_once(made, rows)


def test_a_topic(made: Project, kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.create("upgraded_counts")
    monkeypatch.setenv(variable("events"), kafka.connection)
    begun(made, TOPIC)
    refused = upgrade(made, "same")
    assert refused.code != 0
    assert "--no-rollback" in refused.err
    same = upgrade(made, "same", "--no-rollback", "--beside", "15s")
    assert same.code == 0, same
    assert "are the same" in same.out
    goes_on(made)
    topics = kafka.admin().list_topics(timeout=10).topics
    assert not [name for name in topics if name.startswith("streamwarden_fork")]

    def rows() -> list[tuple[str, int, int]]:
        found = [json.loads(value) for value in kafka.values("upgraded_counts")]
        return [(str(row["start"])[:18].replace(" ", "T"), row["key"], row["n"]) for row in found]

    assert_each_was_counted_once(made, rows)
