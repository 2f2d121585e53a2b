"""What a drill's fork adds to a fork, so that an oracle can judge it: its logs begin with batch 0 and stay whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamwarden.drills.parts import ForkSpec
from streamwarden.drills.ports import ForkView
from streamwarden.errors import DrillAborted
from streamwarden.lifecycle.forks.topic_copy import Feed
from streamwarden.lifecycle.settings import RETAIN
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.forks import DrillForks
from streamwarden.stream import StreamSpec
from support.checkpoints import Unpack, remove, stream_of

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
