"""A stream gets another number of partitions, goes on, and writes what it would have written.

Numbered scenario: (1) a query of a windowed aggregation reads 8 files into parquet, one a batch, with four partitions;
(2) it is repartitioned to eight, which adds batch 9 at which the sink's manifest is compacted; (3) it reads 11 more
files, past the next compaction; (4) the output is what the rows say, row for row. Then what Spark did is made wrong: a
key is lost, keys are in another partition. Each is found, and the stream is as it was.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import checkpoint_of, open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.errors import CheckpointError
from streamwarden.lifecycle.exchanges.exchange import journal_of
from streamwarden.services.fleet.launch_check import require_fit
from streamwarden.services.forks.forks import fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.state import repartitioning
from streamwarden.services.state.looking import Selection, show
from streamwarden.services.state.repartitioning import Repartitioned, repartition
from streamwarden.services.state.two_states import StateAt, compare_states
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Archives, stream_of
from support.spark.state_looks import read_here
from support.spark.worker import DELAY_MS, ROCKSDB, WINDOW_MS, expected_rows, minute_of_rows, publish

pytestmark = pytest.mark.spark

ANN = Author(by="ann", reason="more cores")
BEFORE, FILES = 8, 19


@dataclass
class Query:
    """A windowed count, in a session. Its places have a space in their names, which Spark's tools encode twice."""

    spark: Any
    root: Path

    @property
    def spec(self) -> StreamSpec:
        return StreamSpec(
            name="minutes",
            job=str(self.root / "minutes.py"),
            checkpoint=str(self.root / "a place" / "checkpoint"),
            source=FilesSource(path=str(self.root / "input"), max_files_per_trigger=1),
            sink=ParquetSink(path=str(self.root / "a place" / "output")),
            data=str(self.root / "data"),
        )

    def run(self, files: range) -> None:
        """Read these files to their end, with four partitions unless the checkpoint has others."""
        from pyspark.sql import functions as f

        for index in files:
            publish(self.root / "input", index, minute_of_rows(index))
        self.spark.conf.set("spark.sql.shuffle.partitions", "4")
        self.spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        rows = self.spark.readStream.schema("id long, key string, at long").option("maxFilesPerTrigger", "1")
        timed = rows.json(str(self.root / "input")).withColumn("at", f.timestamp_millis("at"))
        windows = timed.withWatermark("at", f"{DELAY_MS} milliseconds").groupBy(
            f.window("at", f"{WINDOW_MS} milliseconds"), "key"
        )
        counts = windows.agg(f.count("*").alias("n"), f.sum("id").alias("total"))
        written = counts.select(f.col("window.start").alias("start"), "key", "n", "total").writeStream
        options = {"checkpointLocation": self.spec.checkpoint, "path": str(self.spec.sink.path)}
        written.format("parquet").options(**options).trigger(availableNow=True).start().awaitTermination()

    def rows(self) -> list[tuple[Any, ...]]:
        frame = self.spark.read.parquet(str(self.spec.sink.path))
        return sorted((int(row.start.timestamp() * 1000), row.key, row.n, row.total) for row in frame.collect())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as opened:
        opened.migrate()
        yield opened


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    read_here(monkeypatch, spark)


def content(folder: Path) -> dict[str, bytes]:
    """Without the file that is going to be a snapshot: Spark's maintenance outlives a query by a moment."""
    files = (path for path in folder.rglob("*") if path.suffix != ".tmp" and path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def newest(spec: StreamSpec) -> int:
    return max(int(path.name) for path in Path(spec.checkpoint, "commits").iterdir() if path.name.isdigit())


def test_a_stream_goes_on_with_other_partitions_and_nothing_is_lost_or_doubled(
    tmp_path: Path, spark: Any, store: Store
) -> None:
    query = Query(spark, tmp_path)
    spec = query.spec
    query.run(range(BEFORE))
    before, last = content(Path(spec.checkpoint)), newest(spec)
    assert last + 1 == 9, "the batch that is added is the one that compacts the manifest"
    rows = show(spec, Selection(), rows=100).answer

    done = repartition(store, spec, 8, ANN)
    report = read_checkpoint(checkpoint_of(spec), output=open_path(str(spec.sink.path)))
    assert (report.findings, report.shuffle_partitions, report.sink_newest) == ((), 8, last + 1)
    assert (report.position.planned, report.position.committed) == (last + 1, last + 1)
    assert content(Path(str(done.exchanged.aside))).items() >= before.items(), "no link was written through"
    assert done.savepoint is not None
    assert done.savepoint.batch == last
    after = show(spec, Selection(), rows=100).answer
    assert {entry.key: entry.value for entry in after.entries} == {entry.key: entry.value for entry in rows.entries}
    assert len(after.partitions) > len(rows.partitions)
    assert show(spec, Selection(), batch=last, rows=100).answer == rows, "older batches can still be looked at"
    require_fit(store, spec, "d", {}, at=0.0)
    assert create(spec, None, ANN).batch == fork(spec, into=tmp_path / "fork", rewind=0).batch == last + 1

    query.run(range(BEFORE, FILES))
    assert newest(spec) > 19
    assert query.rows() == expected_rows(row for index in range(FILES) for row in minute_of_rows(index))
    assert read_checkpoint(checkpoint_of(spec), output=open_path(str(spec.sink.path))).findings == ()


def empty_one(copy: Path, version: int) -> None:
    """Give the first partition the state of the second one, which has no row."""
    for name in (f"{version}.zip", f".{version}.zip.crc"):
        (copy / "state/0/0" / name).unlink()
        shutil.copy(copy / "state/0/1" / name, copy / "state/0/0" / name)


def exchange_two(copy: Path, version: int) -> None:
    """Let two partitions change their places: no row is lost, and the query would find none of them."""
    first, second, third = (copy / "state/0" / name for name in ("2", "3", "aside"))
    first.rename(third)
    second.rename(first)
    third.rename(second)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        # in the first tier unit/services/state compares two states
        pytest.param(empty_one, "0 keys appeared, 1 vanished, 0 changed", marks=pytest.mark.full),
        (exchange_two, "not in the partition of their key, of 4"),
    ],
)
def test_a_wrong_rewrite_is_found_and_the_stream_is_as_it_was(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[Path, int], None],
    found: str,
) -> None:
    spec = archived("changelog", tmp_path)
    root, last, run = Path(spec.checkpoint).parent, newest(spec), repartitioning.run_program
    before = content(root)

    def run_wrongly(name: str, process: StreamSpec, folder: Path, **options: Any) -> int:
        status = run(name, process, folder, **options)
        (copy,) = root.glob("checkpoint.prepared-*")
        wrong(copy, last + 2)
        return status

    monkeypatch.setattr(repartitioning, "run_program", run_wrongly)
    with pytest.raises(CheckpointError, match=found) as caught:
        repartition(store, spec, 4, ANN)
    assert "was discarded" in caught.value.observed
    assert content(root) == before
    assert not Path(journal_of(spec.checkpoint)).exists()
    require_fit(store, spec, "d", {}, at=0.0)


def archived(kind: str, folder: Path) -> StreamSpec:
    Archives(folder / "archives").unpack(f"spark-4.3.0-{kind}", folder / "a run")
    return replace(stream_of(folder / "a run", files=6), data=str(folder / "data"))


OPERATORS = ["processor", "join", "join-columns", "sessions", "format2", "offsets2", "rocksdb"]


@pytest.mark.full
@pytest.mark.parametrize("partitions", [4, 1])
@pytest.mark.parametrize("kind", OPERATORS)
def test_the_state_of_each_operator_is_repartitioned(tmp_path: Path, store: Store, kind: str, partitions: int) -> None:
    """Timers, lists, maps and indexes of a processor, both sides of a join in both formats, two operators in a row."""
    spec = archived(kind, tmp_path)
    last = newest(spec)
    done = repartition(store, spec, partitions, ANN)
    report = read_checkpoint(checkpoint_of(spec), output=open_path(str(spec.sink.path)))
    assert (report.findings, report.shuffle_partitions) == ((), partitions)
    before = StateAt(checkpoint=open_path(str(done.exchanged.aside)), batch=last, partitions=2)
    after = StateAt(checkpoint=checkpoint_of(spec), batch=last + 1, partitions=partitions)
    found = compare_states(spec, before, after)
    assert (found.different, found.misplaced) == ((), (0, 0))
    assert sum(table.difference.rows_after for table in found.tables) > 0
    back: Repartitioned = repartition(store, spec, 2, ANN)
    assert back.exchanged.exchange.batch == last + 2


@pytest.mark.full
def test_a_state_without_a_key_is_refused_because_spark_would_lose_it(tmp_path: Path, spark: Any, store: Store) -> None:
    """The control shows why: Spark says nothing, and the count begins anew."""
    from pyspark.sql import functions as f

    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spec, counts = Query(spark, tmp_path).spec, []

    def count(index: int) -> int:
        publish(tmp_path / "input", index, minute_of_rows(index, rows=30))
        rows = spark.readStream.schema("id long, key string, at long").json(str(tmp_path / "input"))
        written = rows.agg(f.count("*").alias("n")).writeStream.outputMode("complete")
        taken = written.foreachBatch(lambda batch, _: counts.append(batch.first()["n"]))
        taken.option("checkpointLocation", spec.checkpoint).trigger(availableNow=True).start().awaitTermination()
        return int(counts[-1])

    assert [count(0), count(1)] == [30, 60]
    with pytest.raises(CheckpointError, match="has no key and always one partition"):
        repartition(store, spec, 4, ANN)
    assert count(2) == 90
    plain = spec.checkpoint.replace(" ", "")
    shutil.copytree(spec.checkpoint, plain)
    spark._streamingCheckpointManager.repartition(plain, 4)
    spec = replace(spec, checkpoint=plain)
    assert count(3) == 30, "Spark has lost 90: if this is 120, it has learned it, and the refusal can go"
