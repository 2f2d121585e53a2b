"""Forks and savepoints of a real query: a file source -> windowed aggregation with a watermark -> parquet, RocksDB with
changelogs.

Numbered scenario: (1) a query reads 22 files, one a batch; while it runs it is forked three times, and two savepoints
are taken; (2) it goes on to its end and is stopped; (3) each fork runs to its own end, and so do a fork of a savepoint,
and the query itself after it is put back; (4) every output is what the rows say, row for row.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.logs import log_position
from streamwarden.checkpoint.formats.sources import file_source_log
from streamwarden.checkpoint.formats.uris import file_name
from streamwarden.lifecycle.forks.fork import Fork
from streamwarden.lifecycle.savepoints.savepoint import Savepoint
from streamwarden.lifecycle.savepoints.verification import Fault
from streamwarden.services.forks.forks import fork
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.forking import fork_from
from streamwarden.services.savepoints.restoring import Request, restore
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.services.savepoints.verifying import verify
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spec import StreamSpec
from support.spark.worker import HDFS, ROCKSDB, Row, SparkWorker, expected_rows, minute_of_rows, publish

pytestmark = pytest.mark.spark

FILES = 22
FORK_AFTER = 11  # past the first compaction of both logs (batch 9), before the second (19): forks must get over that
CONF = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "4",
}
ANN = Author(by="ann", reason="a test")
EXPECTED = expected_rows(row for index in range(FILES) for row in minute_of_rows(index))


@dataclass
class Scene:
    spec: StreamSpec
    forks: dict[str, Fork]
    committed_at_fork: int
    spark: SparkWorker
    digest: str
    savepoints: dict[str, Savepoint]


def spec_at(root: Path) -> StreamSpec:
    return StreamSpec(
        name="minutes",
        job=str(root / "minutes.py"),
        checkpoint=str(root / "checkpoint"),
        source=FilesSource(path=str(root / "input"), max_files_per_trigger=1),
        sink=ParquetSink(path=str(root / "output")),
        data=str(root.parent / f"data of {root.name}"),
    )


def places(spec: StreamSpec) -> dict[str, object]:
    return {
        "input": spec.source.path,
        "output": spec.sink.path,
        "checkpoint": spec.checkpoint,
        "options": spec.source.options,
    }


def await_commit(checkpoint: str, batch: int, *, within: float = 90) -> None:
    deadline = time.monotonic() + within
    while (log_position(open_path(checkpoint)).committed or 0) < batch:
        assert time.monotonic() < deadline, f"batch {batch} was not committed within {within} s"
        time.sleep(0.02)


def read_without_manifest(output: str) -> list[Row]:
    """The rows of all data files, as a reader sees them that knows nothing of the manifest."""
    rows = [row for file in Path(output).glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    return [(int(row["start"].timestamp() * 1000), row["key"], row["n"], row["total"]) for row in rows]


def digest(*roots: str | None) -> str:
    """Names and contents of everything under the folders."""
    sha = hashlib.sha256()
    for root in roots:
        assert root is not None
        for path in sorted(Path(root).rglob("*")):
            if path.is_file():
                sha.update(f"{path}\0".encode() + path.read_bytes())
    return sha.hexdigest()


def put_back(store_url: str, spec: StreamSpec, savepoint: str | None = None) -> None:
    with Store(store_url) as store:
        restore(store, spec, savepoint, Request(author=ANN))


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorker]:
    worker = SparkWorker(tmp_path_factory.mktemp("worker"), CONF)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, spark: SparkWorker) -> Scene:
    root = tmp_path_factory.mktemp("origin") / "with space"
    spec = spec_at(root)
    for index in range(FILES):
        publish(root / "input", index, minute_of_rows(index))
    spark.ask("start", query="origin", **places(spec))
    await_commit(spec.checkpoint, FORK_AFTER)
    committed = log_position(open_path(spec.checkpoint)).committed
    assert committed is not None
    forks = {
        "newest": fork(spec, into=root.parent / "newest", rewind=0),
        "rewound": fork(spec, into=root.parent / "rewound", rewind=5),
        "beginning": fork(spec, into=root.parent / "beginning", rewind="all"),
    }
    savepoints = {"newest": create(spec, None, ANN), "older": create(spec, committed - 3, ANN)}
    committed = log_position(open_path(spec.checkpoint)).committed or 0
    assert committed < FILES - 1, "the origin ended before it was forked and saved"
    await_commit(spec.checkpoint, FILES - 1)
    await_commit(spec.checkpoint, FILES)  # the last window is emitted by a batch without data
    spark.ask("stop", query="origin")
    left = digest(spec.checkpoint, spec.sink.path, spec.source.path)
    return Scene(spec, forks, committed, spark, left, savepoints)


@pytest.mark.parametrize("name", ["newest", "rewound", "beginning"])
def test_a_fork_of_a_running_query_ends_with_exactly_the_right_rows(scene: Scene, name: str) -> None:
    """No row lost, none twice; and its logs say that it read each unseen file once and no seen file again."""
    made = scene.forks[name]
    options = {**made.spec.source.options, "maxFilesPerTrigger": "6" if name == "beginning" else "1"}
    assert scene.spark.run(made.spec.name, **{**places(made.spec), "options": options}) is None
    assert scene.spark.rows(made.spec.sink.path or "") == EXPECTED
    read = file_source_log(open_path(made.spec.checkpoint))
    own = [file_name(uri) for batch, uris in read.items() if made.batch is None or batch > made.batch for uri in uris]
    assert len(own) == len(set(own)) == made.unseen
    assert sorted(file_name(uri) for uris in read.values() for uri in uris) == [
        f"in {i:03d}.json" for i in range(FILES)
    ]


def test_the_forks_start_where_they_were_asked_to(scene: Scene) -> None:
    newest, rewound, beginning = (scene.forks[name] for name in ("newest", "rewound", "beginning"))
    assert newest.batch is not None
    assert rewound.batch is not None
    assert newest.batch >= scene.committed_at_fork
    assert newest.unseen == FILES - 1 - newest.batch
    assert newest.batch - 5 <= rewound.batch <= FILES - 6
    assert rewound.batches_left == rewound.unseen == FILES - 1 - rewound.batch
    assert beginning.batch is None
    assert beginning.unseen == beginning.inputs == FILES
    assert newest.input_digest == beginning.input_digest
    assert len({made.query_id for made in scene.forks.values()}) == 3


def test_a_fork_of_a_savepoint_of_a_running_query_ends_with_exactly_the_right_rows(
    scene: Scene, tmp_path: Path
) -> None:
    saved = scene.savepoints["newest"]
    assert verify(Savepoints.of(scene.spec), saved) == ()
    made = fork_from(scene.spec, saved, tmp_path / "fork")
    assert made.batch == saved.batch
    assert made.unseen == FILES - 1 - saved.batch
    assert scene.spark.run("saved", **places(made.spec)) is None
    assert scene.spark.rows(made.spec.sink.path or "") == EXPECTED
    assert verify(Savepoints.of(scene.spec), saved) == (), "a fork shares its files, and changes none"


def test_the_original_is_untouched_by_its_forks_running(scene: Scene) -> None:
    assert digest(scene.spec.checkpoint, scene.spec.sink.path, scene.spec.source.path) == scene.digest
    assert scene.spark.rows(scene.spec.sink.path or "") == EXPECTED


def test_the_inspector_finds_nothing_wrong_with_origin_and_forks(scene: Scene) -> None:
    for spec in (scene.spec, *(made.spec for made in scene.forks.values())):
        report = read_checkpoint(open_path(spec.checkpoint), output=open_path(spec.sink.path))
        assert report.findings == ()
        assert report.position.committed is not None
        assert json.loads(json.dumps(report.to_dict()))["committed"] == report.position.committed


def test_a_fork_whose_manifest_keeps_the_origins_paths_is_caught(scene: Scene, tmp_path: Path) -> None:
    """Negative control: without the rewriting of the manifest a reader of the fork's output does not see its rows."""
    made = fork(scene.spec, into=tmp_path / "fork", rewind=2)
    assert made.spec.sink.path is not None
    assert set(scene.spark.rows(made.spec.sink.path)) < set(EXPECTED)
    for entry in (Path(made.spec.sink.path) / "_spark_metadata").iterdir():
        shutil.copy(Path(scene.spec.sink.path or "") / "_spark_metadata" / entry.name, entry)
    assert scene.spark.run("wrong_manifest", **places(made.spec)) is None
    assert scene.spark.rows(made.spec.sink.path) != EXPECTED


def test_a_fork_that_does_not_know_seen_files_by_name_is_caught(scene: Scene, tmp_path: Path) -> None:
    """Negative control: with foreign paths in the source's log, files that were read are read again."""
    made = fork(scene.spec, into=tmp_path / "fork", rewind=2)
    log = Path(made.spec.checkpoint) / "sources/0"
    for entry in log.iterdir():
        entry.write_text(entry.read_text().replace("/in%20", "/was%20"))
    assert scene.spark.run("wrong_names", **places(made.spec)) is None
    read = file_source_log(open_path(made.spec.checkpoint))
    assert sum(len(uris) for batch, uris in read.items() if batch > (made.batch or 0)) > made.unseen


def test_a_checkpoint_of_format_2_forks_as_well(tmp_path: Path, spark: SparkWorker, store_url: str) -> None:
    """Its state files carry unique ids that the commit log names. It is put back to a savepoint, too."""
    spec = spec_at(tmp_path / "origin")
    rows = [minute_of_rows(index) for index in range(7)]
    for index in range(4):
        publish(tmp_path / "origin/input", index, rows[index])
    conf = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
    assert spark.run("second_format", conf=conf, **places(spec)) is None
    for index in range(4, 7):
        publish(tmp_path / "origin/input", index, rows[index])
    made, _ = fork(spec, into=tmp_path / "fork", rewind=2), create(spec, 2, ANN)
    failures = [spark.run(made.spec.name, conf=conf, **places(made.spec))]
    put_back(store_url, spec)
    failures.append(spark.run("second_format_again", conf=conf, **places(spec)))
    spark.ask("conf", key="spark.sql.streaming.stateStore.checkpointFormatVersion", value="1")
    assert failures == [None, None]
    for output in (made.spec.sink.path, spec.sink.path):
        assert spark.rows(output or "") == expected_rows(row for each in rows for row in each)


@pytest.mark.full  # in the first tier a savepoint of the other store opens, and test_state reads both
def test_a_savepoint_of_hdfs_backed_state_opens_as_well(tmp_path: Path, spark: SparkWorker, store_url: str) -> None:
    """Deltas after a snapshot: in a fork, and when the stream is put back. One byte that is changed is named."""
    spec = spec_at(tmp_path / "origin")
    rows = [minute_of_rows(index) for index in range(12)]
    for index in range(8):
        publish(tmp_path / "origin/input", index, rows[index])
    provider = "spark.sql.streaming.stateStore.providerClass"
    assert spark.run("hdfs", conf={provider: HDFS}, **places(spec)) is None
    saved = create(spec, 6, ANN)
    for index in range(8, 12):
        publish(tmp_path / "origin/input", index, rows[index])
    made = fork_from(spec, saved, tmp_path / "fork")
    failures = [spark.run("hdfs_saved", **places(made.spec))]
    put_back(store_url, spec)
    failures.append(spark.run("hdfs_again", **places(spec)))
    spark.ask("conf", key=provider, value=ROCKSDB)
    assert failures == [None, None]
    for output in (made.spec.sink.path, spec.sink.path):
        assert spark.rows(output or "") == expected_rows(row for each in rows for row in each)
    assert [file.path for file in saved.files if file.path.endswith(".snapshot")]
    delta = Path(Savepoints.of(spec).place(saved.id).path) / next(
        file.path for file in saved.files if file.path.endswith(".delta")
    )
    content = bytearray(delta.read_bytes())
    content[-1] ^= 1
    delta.unlink()
    delta.write_bytes(content)
    assert [(fault.fault, delta.match(f"*/{fault.path}")) for fault in verify(Savepoints.of(spec), saved)] == [
        (Fault.DIGEST, True)
    ]


def test_a_stream_that_is_put_back_ends_with_exactly_the_right_rows(scene: Scene, store_url: str) -> None:
    """It had written everything. All batches after the savepoint, which was taken while it ran, are executed again, in
    its own checkpoint and its own output. (The last test of the file: the others use what it changes.)"""
    saved = scene.savepoints["older"]
    put_back(store_url, scene.spec, saved.id)
    assert log_position(open_path(scene.spec.checkpoint)).committed == saved.batch
    assert set(scene.spark.rows(scene.spec.sink.path or "")) < set(EXPECTED)
    assert scene.spark.run("put_back", **places(scene.spec)) is None
    assert scene.spark.rows(scene.spec.sink.path or "") == EXPECTED
    assert sorted(read_without_manifest(scene.spec.sink.path or "")) == sorted(EXPECTED)
