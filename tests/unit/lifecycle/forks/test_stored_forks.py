"""Forks that are in the object store of their origin: made from a checkpoint of a real Spark, read, and removed.

That Spark runs them rightly is shown by tests/spark/storage/test_object_store.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.storage.files import FsspecFiles, open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.sources import source_entries
from streamwarden.checkpoint.formats.uris import of_hadoop, to_path, to_uri
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.checkpoint import ForkCheckpoint
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.forks.forks import fork
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of
from support.servers.bucket import Bucket, bucket, stored

ROOT, AT = "s3a://lake/a stream", "s3a://lake/drills"
FILES, LAST = 17, 13
RUN = "kill-20260101T000000-abc"


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    extra = json.dumps({"endpoint_url": "http://store:9000"})
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "aws", "extra": extra}))
    return bucket(monkeypatch)


@pytest.fixture
def origin(lake: Bucket, unpack: Unpack, tmp_path: Path) -> Iterator[StreamSpec]:
    """13 batches with a file each, one without; four more files have arrived. Nothing of it may ever change."""
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    spec = stored(lake, stream_of(tmp_path / "origin", files=FILES), ROOT)
    before = lake.contents()
    assert len(before) > 100
    yield spec
    after = lake.contents()
    assert {key: after.get(key) for key in before} == before


def elsewhere(lake: Bucket) -> list[str]:
    """Keys of what is not the origin's."""
    return sorted(key for key in lake.contents() if not key.startswith(ROOT.removeprefix("s3a://")))


def test_a_fork_beside_its_origin_is_a_whole_checkpoint(origin: StreamSpec, lake: Bucket, tmp_path: Path) -> None:
    made = fork(origin, into=tmp_path / "fork", at=f"{AT}/1", rewind=2)
    spec = made.spec
    assert (spec.checkpoint, spec.sink.path) == (f"{AT}/1/checkpoint", f"{AT}/1/output")
    assert (spec.in_object_store, spec.connections) == ({"checkpoint", "sink"}, ("lake",))
    report = read_checkpoint(open_path(spec.checkpoint, "lake"), output=open_path(spec.sink.path, "lake"))
    assert report.findings == ()
    assert (report.position.committed, report.position.query_id) == (LAST - 2, made.query_id)
    assert (made.batch, made.inputs, made.unseen) == (LAST - 2, FILES, 5)
    output = read_output(str(spec.sink.path), connection="lake", committed=made.batch)
    assert (output.problems, output.orphans) == ((), ())
    assert output.rows == read_output(tmp_path / "origin/output").rows[: len(output.rows)] != []
    named = [content for key, content in lake.contents().items() if key.startswith("lake/drills/1/")]
    assert not [content for content in named if to_uri(ROOT).encode() in content]


def test_its_input_is_on_this_host_and_as_old_as_the_origins(origin: StreamSpec, lake: Bucket, tmp_path: Path) -> None:
    written = datetime(2020, 1, 1, tzinfo=UTC)
    lake.store["/lake/a stream/input/in 016.json"].created = written
    made = fork(origin, into=tmp_path / "fork", at=f"{AT}/1")
    (folder,) = made.spec.source.folders
    assert (Path(folder) / "in 016.json").stat().st_mtime == written.timestamp()
    checkpoint = open_path(made.spec.checkpoint, "lake")
    entries = [to_path(file.path) for files in source_entries(checkpoint).values() for file in files]
    assert sorted(entries) == [f"{folder}/in {number:03d}.json" for number in range(13)]


def test_what_the_origin_has_on_a_disk_stays_on_one(origin: StreamSpec, lake: Bucket, tmp_path: Path) -> None:
    mixed = replace(origin, sink=ParquetSink(path=str(tmp_path / "origin/output")))
    made = fork(mixed, into=tmp_path / "fork", at=f"{AT}/1")
    assert (made.spec.checkpoint, made.spec.sink.path) == (f"{AT}/1/checkpoint", str(tmp_path / "fork/output"))
    checkpoint = open_path(made.spec.checkpoint, "lake")
    assert read_checkpoint(checkpoint, output=open_path(made.spec.sink.path)).findings == ()
    assert not [key for key in elsewhere(lake) if "/output/" in key]


def test_an_operator_names_the_schema_beside_it(lake: Bucket, unpack: Unpack, tmp_path: Path) -> None:
    unpack("spark-4.3.0-processor", tmp_path / "origin")
    made = fork(stored(lake, stream_of(tmp_path / "origin", files=0), ROOT), into=tmp_path / "fork", at=f"{AT}/1")
    checkpoint = open_path(made.spec.checkpoint, "lake")
    metadata = checkpoint / "state/0/_metadata/v2"
    named = [
        of_hadoop(place)
        for name in metadata.names()
        for known in json.loads((metadata / name).read().split(b"\n")[1])["stateStoreInfo"]
        for place in known["stateSchemaFilePaths"]
    ]
    assert named
    assert all(place.startswith(f"{AT}/1/checkpoint/") and open_path(place, "lake").read() for place in named)


def test_from_the_beginning_nothing_is_put_into_the_store(origin: StreamSpec, lake: Bucket, tmp_path: Path) -> None:
    made = fork(origin, into=tmp_path / "fork", at=f"{AT}/1", rewind="all")
    assert (made.unseen, elsewhere(lake)) == (FILES, [])


def test_a_folder_with_something_in_it_is_refused_and_left_alone(
    origin: StreamSpec, lake: Bucket, tmp_path: Path
) -> None:
    lake.pipe_file(f"{AT}/1/output/precious", b"mine")
    with pytest.raises(CheckpointError, match="not empty"):
        fork(origin, into=tmp_path / "fork", at=f"{AT}/1")
    assert elsewhere(lake) == ["lake/drills/1/output/precious"]


def test_a_fork_that_cannot_be_finished_leaves_nothing(origin: StreamSpec, lake: Bucket, tmp_path: Path) -> None:
    lost = next(key for key in lake.contents() if key.endswith(".parquet"))
    content = lake.cat_file(f"s3a://{lost}")
    lake.rm_file(f"s3a://{lost}")
    with pytest.raises(CheckpointError, match=lost.rpartition("/")[2]):
        fork(origin, into=tmp_path / "fork", at=f"{AT}/1")
    assert elsewhere(lake) == []
    lake.pipe_file(f"s3a://{lost}", content)


def test_a_purge_is_distinguished_from_a_store_that_fails(lake: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 has its own error for an object that does not exist, and so has its client."""
    lake.pipe_file(f"{ROOT}/a", b"")

    def fails(one: str, two: str, **options: Any) -> None:
        raise OSError("When copying key: AWS Error NO_SUCH_KEY")

    monkeypatch.setattr(lake, "cp_file", fails)
    with pytest.raises(FileNotFoundError):
        FsspecFiles(lake).copy(f"{ROOT}/gone", f"{AT}/b")
    with pytest.raises(OSError, match="NO_SUCH_KEY"):
        FsspecFiles(lake).copy(f"{ROOT}/a", f"{AT}/b")


# As a drill has them.


@pytest.fixture
def forks(origin: StreamSpec, tmp_path: Path) -> DrillForks:
    return DrillForks(DrillArchive(tmp_path / "data"), lambda name: replace(origin, quarantine=f"{ROOT}/quarantine"))


SPEC = ForkSpec(rewind=2, at=AT)


def test_what_is_left_of_a_drill_is_on_this_host_and_nothing_in_the_store(
    forks: DrillForks, lake: Bucket, tmp_path: Path
) -> None:
    for neighbour in (f"{RUN}2/fork/checkpoint/offsets/0", f"{RUN}/notes", "readme"):
        lake.pipe_file(f"{AT}/{neighbour}", b"of another stream")
    others = elsewhere(lake)
    view = forks.make(RUN, "minutes", SPEC, Feed.ORIGIN)
    assert view.checkpoint == f"{AT}/{RUN}/fork/checkpoint"
    assert len(elsewhere(lake)) > 50
    lake.pipe_file(f"{AT}/{RUN}/fork/quarantine/query=1/batch=12/part-0.json", b"{}")
    removed = forks.clear(RUN, view)
    assert removed == [f"{AT}/{RUN}/fork/{part}" for part in ("checkpoint", "output", "quarantine")] + ["fork/input"]
    assert elsewhere(lake) == others
    home = tmp_path / "data/drills" / RUN / "fork"
    assert {path.name for path in (home / "checkpoint").iterdir()} == {"offsets", "commits", "sources", "metadata"}
    assert len(list((home / "checkpoint/commits").iterdir())) == LAST - 1
    assert list((home / "output").glob("*.parquet"))
    assert (home / "output/_spark_metadata").is_dir()
    assert (home / "quarantine/query=1/batch=12/part-0.json").is_file()
    assert forks.clear(RUN, view) == [], "again"
    assert (home / "checkpoint/metadata").is_file()


def test_the_signs_of_its_folders_go_too(forks: DrillForks, lake: Bucket) -> None:
    """The store's client leaves one in the place of the last file."""
    lake.makedirs(f"{AT}/{RUN}/fork", exist_ok=True)
    view = forks.make(RUN, "minutes", SPEC, Feed.ORIGIN)
    forks.clear(RUN, view)
    assert not lake.isdir(f"{AT}/{RUN}/fork")
    assert not lake.isdir(f"{AT}/{RUN}")


def test_half_a_fork_of_a_killed_try_is_made_again_and_removed(forks: DrillForks, lake: Bucket) -> None:
    half = f"{AT}/{RUN}/fork/checkpoint/state/0/0/99.changelog"
    lake.pipe_file(half, b"half")
    forks.make(RUN, "minutes", SPEC, Feed.ORIGIN)
    assert not lake.exists(half)
    assert forks.clear(RUN, None)
    assert elsewhere(lake) == []


def test_a_folder_that_is_not_the_runs_is_never_removed(
    forks: DrillForks, origin: StreamSpec, lake: Bucket, tmp_path: Path
) -> None:
    view = forks.make(RUN, "minutes", SPEC, Feed.ORIGIN)
    elsewhere_of_it = replace(view.spec, checkpoint=f"{AT}/{RUN}2/fork/checkpoint")
    for other, why in ((origin, "is a live stream"), (elsewhere_of_it, "it is not a folder of the drill run")):
        with pytest.raises(CheckpointError, match=why):
            forks.clear(RUN, replace(view, spec=other))
    assert any(key.startswith(f"lake/drills/{RUN}/fork/checkpoint/") for key in elsewhere(lake))


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        ({}, f"{ROOT}/output/drills", "of the stream minutes"),
        ({}, f"{ROOT}/checkpoint", "of the stream minutes"),
        ({"quarantine": AT}, AT, "of the stream minutes"),
        ({"checkpoint": "/c", "sink": ParquetSink(path="/o")}, AT, "neither its checkpoint nor its output"),
    ],
)
def test_where_no_fork_can_be_the_drill_ends_before_anything_is_made(
    change: dict[str, Any], at: str, words: str, origin: StreamSpec, lake: Bucket, tmp_path: Path
) -> None:
    forks = DrillForks(DrillArchive(tmp_path / "data"), lambda name: replace(origin, **change))
    with pytest.raises(DrillAborted, match=words):
        forks.make(RUN, "minutes", replace(SPEC, at=at), Feed.ORIGIN)
    assert elsewhere(lake) == []
    assert forks.clear(RUN, None) == []


@pytest.fixture
def view(origin: StreamSpec, tmp_path: Path) -> ForkView:
    return DrillForks(DrillArchive(tmp_path / "data"), lambda name: origin).make(RUN, "minutes", SPEC, Feed.ORIGIN)


def test_a_drill_reads_where_the_fork_stands(view: ForkView, lake: Bucket, store_url: str) -> None:
    facts = ForkCheckpoint(Store(store_url))
    assert (facts.position(view).planned, facts.position(view).gap) == (LAST - 2, 0)
    assert (facts.is_planned(view, 11), facts.is_committed(view, 11)) == (True, True)
    lake.pipe_file(f"{view.checkpoint}/offsets/12", lake.cat_file(f"{view.checkpoint}/offsets/11"))
    assert facts.position(view).gap == 1
    assert (facts.is_planned(view, 12), facts.is_committed(view, 12)) == (True, False)
    at = lake.created(f"{view.checkpoint}/commits/11").timestamp()
    assert (facts.commit_time(view, 11), facts.commit_time(view, 12)) == (at, None)
    (batch,) = facts.batches(view)
    assert (batch.batch_id, batch.committed_at) == (12, None)
    assert facts.snapshot(view).size > 0
    assert facts.unplanned(view) == view.unseen == 5


def test_a_store_that_fails_is_reported_and_not_taken_for_an_empty_one(
    view: ForkView, lake: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ForkCheckpoint(Store(f"sqlite:///{tmp_path}/store.db"))

    def fails(path: str, **options: Any) -> Any:
        raise OSError("AWS Error SLOW_DOWN")

    for method in ("ls", "info"):
        monkeypatch.setattr(lake, method, fails)
    for ask in (facts.unplanned, lambda fork: facts.is_committed(fork, 11), facts.position):
        with pytest.raises(CheckpointError, match="SLOW_DOWN"):
            ask(view)  # type: ignore[operator]
