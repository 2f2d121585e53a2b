"""A line that the manifest lacks is found by the data file that its batch wrote, and a cut batch leaves none."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from support.checkpoints.recorded import Unpack, rewrite

ENTRY = "output/_spark_metadata/12"


def found(root: Path) -> list[tuple[str, Consequence]]:
    report = read_checkpoint(open_path(root / "checkpoint"), output=open_path(root / "output"))
    return [(each.path, each.consequence) for each in report.findings]


def written(root: Path, entry: str) -> list[str]:
    """Data files that an entry lists."""
    lines = (root / entry).read_text().splitlines()[1:]
    return [json.loads(line)["path"].rpartition("/")[2] for line in lines]


@pytest.fixture
def query(unpack: Unpack, tmp_path: Path) -> Path:
    unpack("spark-4.3.0-changelog", tmp_path)
    return tmp_path


def leave(query: Path, like: str, name: str, earlier: float) -> None:
    """The remains of an attempt that was cut `earlier` seconds before the file `like` was written."""
    shutil.copy(query / "output" / like, query / "output" / name)
    at = (query / "output" / like).stat().st_mtime - earlier
    os.utime(query / "output" / name, (at, at))


def test_an_entry_without_its_last_line(query: Path) -> None:
    (*_, last) = written(query, ENTRY)
    rewrite(query / ENTRY, (query / ENTRY).read_bytes().rpartition(b"\n")[0])
    assert found(query) == [(last, Consequence.LOSES)]


def test_in_a_copy_that_lost_the_times_nothing_is_concluded(query: Path) -> None:
    rewrite(query / ENTRY, (query / ENTRY).read_bytes().rpartition(b"\n")[0])
    for file in (query / "output").glob("part-*"):
        os.utime(file, (2e9, 2e9))
    assert found(query) == []


def test_the_remains_of_a_batch_that_was_cut_and_ran_again(query: Path) -> None:
    first, second = written(query, ENTRY)
    for name in (first, second):
        leave(query, name, name[:11] + "00000000" + name[19:], earlier=0.05)
    assert found(query) == []


def test_the_remains_of_a_batch_that_ran_again_in_fewer_partitions(query: Path) -> None:
    """With fewer cores Spark splits the same input into fewer tasks."""
    first = min(written(query, ENTRY))
    leave(query, first, first[:11] + "00000000" + first[19:], earlier=0.3)
    leave(query, first, "part-00007" + first[10:], earlier=0.3)
    assert found(query) == []


def test_what_a_batch_writes_that_was_planned_meanwhile(query: Path) -> None:
    (name, *_) = written(query, "output/_spark_metadata/13")
    leave(query, name, "part-00009" + name[10:], earlier=-60)
    assert found(query) == []
