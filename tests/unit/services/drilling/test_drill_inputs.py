"""The files of a fork's own input: which a batch reads, taken out and put back, doubled, and in another order."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.drills.records.sections import ForkSpec
from streamwarden.drills.records.types import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.ports.inputs import TAKEN_OUT, ForkInputs
from support.checkpoints.recorded import Unpack, stream_of

INPUTS = ForkInputs()


@pytest.fixture
def fork(unpack: Unpack, tmp_path: Path) -> ForkView:
    unpack("spark-4.3.0-changelog", tmp_path / "origin")
    origin = stream_of(tmp_path / "origin", files=17)
    forks = DrillForks(DrillArchive(tmp_path / "data"), lambda _: origin)
    return forks.make("gone-20260101T000000-abc", "minutes", ForkSpec(rewind=2), Feed.ORIGIN)


def names(fork: ForkView) -> set[str]:
    return {path.name for path in Path(str(fork.spec.source.path)).iterdir()}


def test_a_file_is_taken_out_and_put_back_and_the_origin_keeps_its_own(fork: ForkView, tmp_path: Path) -> None:
    before = names(fork)
    (file,) = INPUTS.files_of(fork, 3)
    assert file in before
    INPUTS.take_out(fork, file)
    assert names(fork) == before - {file}
    assert INPUTS.missing(fork, 3) == [file]
    assert (tmp_path / "origin" / "input" / file).is_file()
    assert INPUTS.put_back(fork)
    assert names(fork) == before
    assert not INPUTS.put_back(fork)


def test_a_batch_that_was_never_planned_reads_nothing(fork: ForkView) -> None:
    assert INPUTS.files_of(fork, 99) == []


def test_a_file_that_stayed_out_is_removed_with_the_fork(fork: ForkView, tmp_path: Path) -> None:
    INPUTS.take_out(fork, INPUTS.files_of(fork, 3)[0])
    assert Path(fork.checkpoint).with_name(TAKEN_OUT).is_dir()
    origin = stream_of(tmp_path / "origin", files=17)
    DrillForks(DrillArchive(tmp_path / "data"), lambda _: origin).clear("gone-20260101T000000-abc", fork)
    assert not Path(fork.checkpoint).with_name(TAKEN_OUT).exists()
    assert len(list((tmp_path / "origin" / "input").iterdir())) == 17


@pytest.mark.parametrize("place", ["/data/flights", "s3a://bucket/flights"])
def test_the_input_of_another_is_never_touched(fork: ForkView, place: str) -> None:
    foreign = replace(fork, spec=replace(fork.spec, source=replace(fork.spec.source, path=place)))
    with pytest.raises(DrillAborted, match="not a folder that the drill made"):
        INPUTS.take_out(foreign, "a.json")


def modified(fork: ForkView, file: str) -> int:
    return (Path(str(fork.spec.source.path)) / file).stat().st_mtime_ns


@pytest.fixture
def ordered(fork: ForkView) -> ForkView:
    """A fork whose origin's files are each a second newer than the one before it, by name."""
    for at, name in enumerate(sorted(names(fork))):
        os.utime(Path(str(fork.spec.source.path)) / name, (1_700_000_000 + at, 1_700_000_000 + at))
    return fork


def test_the_unread_files_are_those_that_no_batch_has_planned_oldest_first(ordered: ForkView) -> None:
    read = {file for batch in range(20) for file in INPUTS.files_of(ordered, batch)}
    assert INPUTS.unread(ordered) == sorted(names(ordered) - read)
    assert len(INPUTS.unread(ordered)) > 2


def test_a_file_that_is_to_be_read_last_becomes_a_newer_copy_and_the_origin_keeps_its_own(
    ordered: ForkView, tmp_path: Path
) -> None:
    first, second, *others = INPUTS.unread(ordered)
    before = modified(ordered, first)
    INPUTS.read_last(ordered, [second, first])
    assert INPUTS.unread(ordered) == [*others, second, first]
    assert modified(ordered, first) > modified(ordered, second) > max(modified(ordered, file) for file in others)
    origin = tmp_path / "origin" / "input" / first
    assert origin.stat().st_mtime_ns == before
    assert (Path(str(ordered.spec.source.path)) / first).read_bytes() == origin.read_bytes()
    assert not any(name.startswith(".") for name in names(ordered))


def test_a_doubled_file_has_another_name_and_is_read_next(ordered: ForkView, tmp_path: Path) -> None:
    (file,) = INPUTS.files_of(ordered, 3)
    following = INPUTS.unread(ordered)
    assert INPUTS.copies(ordered) == []
    copy = INPUTS.double(ordered, file)
    assert copy != file
    assert INPUTS.unread(ordered) == [copy, *following]
    assert modified(ordered, copy) >= modified(ordered, file)
    assert INPUTS.double(ordered, file) == copy, "again, after a process that was killed"
    assert INPUTS.copies(ordered) == [copy]
    content = (tmp_path / "origin" / "input" / file).read_bytes()
    assert (Path(str(ordered.spec.source.path)) / copy).read_bytes() == content
    assert len(list((tmp_path / "origin" / "input").iterdir())) == 17
