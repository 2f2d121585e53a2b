"""A line that the manifest lacks is found by the data file that its batch wrote, and a cut batch leaves none; an output
folder that was moved is one finding with a cheap remedy."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage
from streamwarden.checkpoint.diagnosis.moved import moved_output
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from support.checkpoints.recorded import Unpack, remove, rewrite

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


def findings(query: Path, output: Path) -> tuple[Damage, ...]:
    return read_checkpoint(open_path(query / "checkpoint"), output=open_path(output)).findings


def test_a_moved_folder_is_one_finding_and_a_link_cures_it(query: Path) -> None:
    assert findings(query, query / "output") == ()
    assert moved_output(open_path(query / "output")) is None
    there = query / "archive" / "output"
    there.parent.mkdir()
    (query / "output").rename(there)
    (found,) = findings(query, there)
    assert found.consequence is Consequence.LOSES
    assert f"below {query}/output, and they are here" in found.what
    assert f"ln -s {there} {query}/output" in found.next_step
    quick = moved_output(open_path(there))
    assert quick is not None
    assert quick.next_step == found.next_step
    (query / "output").symlink_to(there)
    assert findings(query, there) == ()


def test_a_file_that_is_lost_in_a_moved_folder_is_a_finding_of_its_own(query: Path) -> None:
    there = query / "archive"
    (query / "output").rename(there)
    lost = min(there.glob("*.parquet"))
    remove(lost)
    assert {lost.name in found.path for found in findings(query, there)} == {True, False}


def test_files_that_are_gone_were_not_moved(query: Path) -> None:
    for file in (query / "output").glob("*.parquet"):
        remove(file)
    assert not any("was moved" in found.what for found in findings(query, query / "output"))
    assert moved_output(open_path(query / "output")) is None
