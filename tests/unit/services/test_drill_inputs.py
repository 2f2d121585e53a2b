"""The files of a fork's own input: which a batch reads, taken out and put back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.drills.parts import ForkSpec
from streamwarden.drills.ports import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.services.drilling.inputs import TAKEN_OUT, ForkInputs
from support.checkpoints import Unpack, stream_of

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
