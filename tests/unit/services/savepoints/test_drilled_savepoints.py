"""What a drill finds of a stream's savepoints before Spark starts: the newest one, its files, the batches after it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.checkpoint.formats.layout import OFFSETS, batch_ids
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.savepoints.savepoint import MANIFEST, Savepoint
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports.savepoints import HELD, StreamSavepoints
from streamwarden.services.savepoints.creating import create
from streamwarden.services.savepoints.describing import Author
from streamwarden.services.savepoints.saved import Savepoints
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, stream_of

NEWEST = 13
RUN = "restore-1"


@pytest.fixture
def spec(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    """RocksDB with changelogs; batches 0 to 13 are committed."""
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    made = stream_of(tmp_path / "origin", files=0)
    Path(made.job).write_text("def build(spark, spec): ...\n")
    os.utime(made.job, (1, 1))
    return replace(made, data=str(tmp_path / "data"))


@pytest.fixture
def seen(spec: StreamSpec, tmp_path: Path) -> StreamSavepoints:
    return StreamSavepoints(DrillArchive(tmp_path / "data"), lambda name: spec)


def saved_at(spec: StreamSpec, batch: int) -> Savepoint:
    return create(spec, batch, Author(by="ann", reason=""))


def forked(spec: StreamSpec, batch: int) -> ForkView:
    return ForkView(
        stream="minutes__fork_1",
        origin=spec.name,
        checkpoint="/fork/checkpoint",
        output="/fork/output",
        batch=batch,
        unseen=0,
        batches_left=0,
        input_digest="",
        spec=spec,
    )


def test_without_a_savepoint_the_refusal_has_the_command_that_takes_one(
    spec: StreamSpec, seen: StreamSavepoints
) -> None:
    with pytest.raises(DrillAborted, match="there is none") as refusal:
        seen.newest(spec.name)
    assert f"streamwarden savepoint create {spec.name}" in refusal.value.next_step


def test_the_newest_one_counts_although_its_manifest_is_damaged(spec: StreamSpec, seen: StreamSavepoints) -> None:
    older, newest = saved_at(spec, 5), saved_at(spec, 9)
    found = seen.newest(spec.name)
    assert (found.id, found.batch, found.problem) == (newest.id, 9, "")
    assert "of batch 9, taken at " in found.words
    (Path(Savepoints.of(spec).place(newest.id).path) / MANIFEST).write_text("{")
    damaged = seen.newest(spec.name)
    assert (damaged.id, damaged.batch) == (newest.id, None), f"and not {older.id}, which is whole"
    assert damaged.problem


@pytest.mark.parametrize("suffix", [".sst", ".zip", "/commits/9", "/offsets/9"])
def test_each_file_that_is_missing_or_cut_off_is_named(spec: StreamSpec, seen: StreamSavepoints, suffix: str) -> None:
    saved = saved_at(spec, 9)
    assert seen.broken_files(spec.name, saved.id) == []
    path = next(file.path for file in saved.files if file.path.endswith(suffix))
    file = Path(Savepoints.of(spec).place(saved.id).path) / path
    content = file.read_bytes()
    file.unlink()
    (missing,) = seen.broken_files(spec.name, saved.id)
    assert missing.startswith(f"{path} is no such file")
    file.write_bytes(content[:-1])
    (cut,) = seen.broken_files(spec.name, saved.id)
    assert cut.startswith(f"{path} is {len(content) - 1:,} bytes")


@pytest.mark.parametrize(
    ("after", "most", "gone", "found"),
    [
        (9, 50, None, [10, 11, 12, 13]),
        (9, 2, None, [10, 11]),
        (9, 50, 12, [10, 11]),
        (9, 50, 10, []),
        (NEWEST, 50, None, []),
    ],
)
def test_the_batches_after_it_are_those_without_a_gap_and_their_logs_are_kept(
    spec: StreamSpec, seen: StreamSavepoints, tmp_path: Path, after: int, most: int, gone: int | None, found: list[int]
) -> None:
    if gone is not None:
        (Path(spec.checkpoint) / OFFSETS / str(gone)).unlink()
    assert seen.batches(RUN, forked(spec, after), most) == found
    held = tmp_path / "data" / "drills" / RUN / HELD
    for log in ("offsets", "commits"):
        assert batch_ids(path.name for path in (held / log).glob("*")) == found
    seen.release(RUN)
    assert not held.exists()


def test_a_job_that_has_changed_since_is_not_compared(spec: StreamSpec, seen: StreamSavepoints) -> None:
    os.utime(spec.job, (time.time(), time.time()))
    with pytest.raises(DrillAborted, match="the job has changed"):
        seen.batches(RUN, forked(spec, 9), 50)
