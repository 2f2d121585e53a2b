"""An output folder that was moved: one finding with a cheap remedy, however many files it has."""

from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.diagnosis.damage import Consequence, Damage
from streamwarden.checkpoint.diagnosis.moved import moved_output
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from support.checkpoints import Unpack, remove

MADE = "spark-4.3.0-changelog"


@pytest.fixture
def home(unpack: Unpack, tmp_path: Path) -> Path:
    unpack(MADE, tmp_path)
    return tmp_path


def findings(home: Path, output: Path) -> tuple[Damage, ...]:
    return read_checkpoint(open_path(home / "checkpoint"), output=open_path(output)).findings


def test_a_moved_folder_is_one_finding_and_a_link_cures_it(home: Path) -> None:
    assert findings(home, home / "output") == ()
    assert moved_output(open_path(home / "output")) is None
    there = home / "archive" / "output"
    there.parent.mkdir()
    (home / "output").rename(there)
    (found,) = findings(home, there)
    assert found.consequence is Consequence.LOSES
    assert f"below {home}/output, and they are here" in found.what
    assert f"ln -s {there} {home}/output" in found.next_step
    quick = moved_output(open_path(there))
    assert quick is not None
    assert quick.next_step == found.next_step
    (home / "output").symlink_to(there)
    assert findings(home, there) == ()


def test_a_file_that_is_lost_in_a_moved_folder_is_a_finding_of_its_own(home: Path) -> None:
    there = home / "archive"
    (home / "output").rename(there)
    lost = min(there.glob("*.parquet"))
    remove(lost)
    assert {lost.name in found.path for found in findings(home, there)} == {True, False}


def test_files_that_are_gone_were_not_moved(home: Path) -> None:
    for file in (home / "output").glob("*.parquet"):
        remove(file)
    assert not any("was moved" in found.what for found in findings(home, home / "output"))
    assert moved_output(open_path(home / "output")) is None
