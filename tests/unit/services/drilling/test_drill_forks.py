"""What a drill's fork adds to a fork, so that an oracle can judge it: its logs begin with batch 0 and stay whole."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from streamwarden.drills.ports import SpecCodec
from streamwarden.drills.recorder import RunRecorder
from streamwarden.drills.records.journal import DrillRun
from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import CheckpointError, ConfigError, DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.redaction import REDACTED
from streamwarden.services.drilling.archive import DrillArchive, SystemClock
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.fleet.launching.launch import write_folder
from streamwarden.services.forks.spec_storage import StoredSpecs
from streamwarden.stream.spec import StreamSpec
from support.checkpoints.recorded import Unpack, remove, stream_of

LAST = 13


@pytest.fixture
def origin(unpack: Unpack, tmp_path: Path) -> StreamSpec:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    return stream_of(tmp_path / "origin", files=17)


def make(origin: StreamSpec, fork: ForkSpec, data: Path) -> ForkView:
    return DrillForks(DrillArchive(data), lambda _: origin).make(
        "kill-20260101T000000-abc", "minutes", fork, Feed.ORIGIN
    )


def test_a_fork_keeps_all_its_logs_whatever_its_stream_retains(origin: StreamSpec, tmp_path: Path) -> None:
    conf = {RETAIN: "20", "spark.sql.shuffle.partitions": "2"}
    frugal = replace(origin, spark=replace(origin.spark, conf=conf))
    view = make(frugal, ForkSpec(rewind="all"), tmp_path / "data")
    assert view.spec.spark.conf == {RETAIN: "100000", "spark.sql.shuffle.partitions": "2"}


def test_a_fork_that_begins_behind_batches_whose_offsets_are_gone_is_refused(
    origin: StreamSpec, tmp_path: Path
) -> None:
    """Such a drill would run to its end, and no oracle could judge it."""
    for batch in (0, 1, 2):
        for log in ("offsets", "commits"):
            remove(Path(origin.checkpoint, log, str(batch)))
    with pytest.raises(DrillAborted, match=r"no longer has batch 0 \(3 batches in all\)") as error:
        make(origin, ForkSpec(rewind=2), tmp_path / "data")
    assert "`rewind: all`" in str(error.value.next_step)
    assert make(origin, ForkSpec(rewind="all"), tmp_path / "data").batch is None


def test_a_fork_of_a_stream_whose_logs_are_whole_begins_where_it_was_asked_to(
    origin: StreamSpec, tmp_path: Path
) -> None:
    assert make(origin, ForkSpec(rewind=2), tmp_path / "data").batch == LAST - 2


RUN = "kill-20260101T000000-abc"
SECRET = "hunter2-hunter2"


def with_secrets(origin: StreamSpec) -> StreamSpec:
    conf = {"spark.ssl.keyPassword": SECRET, "spark.sql.shuffle.partitions": "2"}
    return replace(
        origin,
        file="/p/config/streams/minutes.yaml",
        args=("--db-password", SECRET),
        source=replace(origin.source, options={"sasl.jaas.config": SECRET}),
        spark=replace(origin.spark, conf=conf),
    )


def holders(folder: Path, text: str) -> list[str]:
    """The files below `folder` in which `text` stands."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_stored_fork_holds_no_secret_and_gets_them_from_the_streams_file(origin: StreamSpec, tmp_path: Path) -> None:
    spec = with_secrets(origin)
    forks = DrillForks(DrillArchive(tmp_path / "data"), lambda _: spec)
    view = forks.make(RUN, "minutes", ForkSpec(), Feed.ORIGIN)
    assert holders(tmp_path / "data", SECRET) == []
    specs = StoredSpecs(lambda _: spec)
    stored = json.loads(json.dumps(specs.write(view.spec)))
    assert SECRET not in str(stored)
    assert specs.read(stored) == view.spec


def test_the_steps_of_a_drill_pass_a_fork_on_without_its_secrets(
    origin: StreamSpec, store: Store, tmp_path: Path
) -> None:
    """Each step may be a separate process, which reads the run from the store."""
    spec = with_secrets(origin)
    view = DrillForks(DrillArchive(tmp_path / "data"), lambda _: spec).make(RUN, "minutes", ForkSpec(), Feed.ORIGIN)
    specs = StoredSpecs(lambda _: spec)
    codec = SpecCodec(read=specs.read, write=specs.write)
    store.journals.save(DrillRun(run_id=RUN, drill="kill", stream="minutes", started_at=1.0))
    RunRecorder(RUN, store.journals, SystemClock(), codec).put(fork=view)
    run = store.journals.get(RUN)
    assert run is not None
    assert SECRET not in str(run.facts)
    found = RunRecorder(RUN, store.journals, SystemClock(), codec).require_fork()
    assert found.spec == view.spec


def test_a_secret_that_the_streams_file_no_longer_has_is_never_replaced(origin: StreamSpec, tmp_path: Path) -> None:
    """The fork can still be healed. A driver that would get the redacted text is not launched."""
    spec = with_secrets(origin)
    stored = StoredSpecs(lambda _: spec).write(spec)

    def broken(_: str) -> StreamSpec:
        raise ConfigError("the file is broken")

    for edited in (lambda _: origin, broken):
        found = StoredSpecs(edited).read(stored)
        assert found.spark.conf["spark.ssl.keyPassword"] == REDACTED
        assert found.checkpoint == spec.checkpoint
        with pytest.raises(ConfigError, match="only its place") as error:
            write_folder(found, tmp_path / "d" / "1", tmp_path, {})
        assert "begin a new run" in error.value.next_step


@pytest.mark.parametrize("place", ["", "fork", "fork/input", "fork/checkpoint", "anew", "anew/checkpoint"])
def test_healing_never_removes_files_behind_a_link(origin: StreamSpec, tmp_path: Path, place: str) -> None:
    """A person may have replaced a folder of the drill by a link to another disk: the drill reports it."""
    data = tmp_path / "data"
    forks = DrillForks(DrillArchive(data), lambda _: origin)
    view = forks.make(RUN, "minutes", ForkSpec(), Feed.ORIGIN)
    outside = tmp_path / "outside"
    for each in ("input", "checkpoint/state", "fork/input", "fork/checkpoint/state", "state"):
        (outside / each).mkdir(parents=True)
        (outside / each / "theirs").touch()
    before = sorted(outside.rglob("*"))
    link = data / "drills" / RUN / place
    if link.exists():
        link.rename(tmp_path / "real")
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    for fork in (view, None):
        with pytest.raises(CheckpointError, match="is a symbolic link") as error:
            forks.clear(RUN, fork)
        assert "remove the link" in error.value.next_step
        if place not in ("", "fork", "anew"):
            break  # of a fork that was never finished the whole folder is removed, and a link in it with it
    assert sorted(outside.rglob("*")) == before


def test_no_fork_is_made_behind_a_link(origin: StreamSpec, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "theirs").mkdir(parents=True)
    home = tmp_path / "data" / "drills" / RUN
    home.mkdir(parents=True)
    (home / "fork").symlink_to(outside)
    with pytest.raises(DrillAborted, match="is a symbolic link"):
        make(origin, ForkSpec(), tmp_path / "data")
    assert [path.name for path in outside.iterdir()] == ["theirs"]


def test_other_users_cannot_open_the_folder_of_a_drill(origin: StreamSpec, tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        make(origin, ForkSpec(), tmp_path / "data")
    finally:
        os.umask(before)
    for folder in ("drills", f"drills/{RUN}"):
        assert (tmp_path / "data" / folder).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o777, "it may hold output for others"
