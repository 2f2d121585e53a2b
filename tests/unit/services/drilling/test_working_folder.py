"""The working folder of a fork: links to the stream's folders, and nothing that the stream's job keeps for itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamwarden.services.forks.working_folder import (
    WORK,
    in_working_folder,
    make_working_folder,
    renew_working_folder,
)
from streamwarden.stream.spec import StreamSpec

FIRST_START = 1_700_000_000


@pytest.fixture
def origin(tmp_path: Path) -> StreamSpec:
    data = tmp_path / "data"
    for name, seconds in (
        ("checkpoints/s/metadata", FIRST_START),
        ("input/events/1.json", FIRST_START + 9),
        ("zones.csv", FIRST_START - 9),
        ("marker", FIRST_START + 9),
        ("drills/old/journal.json", FIRST_START - 9),
        ("streamwarden.db", FIRST_START - 9),
    ):
        file = data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        os.utime(file, (seconds, seconds))
    return StreamSpec(name="s", job="s.py", checkpoint=str(data / "checkpoints" / "s"), data=str(data))


@pytest.fixture
def run(origin: StreamSpec) -> Path:
    made = Path(origin.data) / "drills" / "run"
    made.mkdir()
    return made


def test_relative_paths_lead_to_the_streams_folders_and_a_file_that_the_job_made_is_not_there(
    origin: StreamSpec, run: Path
) -> None:
    work = make_working_folder(origin, run)
    assert work == run / WORK
    assert sorted(entry.name for entry in work.iterdir()) == ["checkpoints", "input", "zones.csv"]
    assert (work / "input/events/1.json").read_text() == "input/events/1.json"
    (work / "zones.csv").write_text("changed")
    (work / "marker").touch()
    assert (Path(origin.data) / "zones.csv").read_text() == "zones.csv", "a copy"


def test_each_twin_begins_with_the_folder_as_the_fork_found_it(origin: StreamSpec, run: Path) -> None:
    work = make_working_folder(origin, run)
    (work / "marker").touch()
    renew_working_folder(run)
    assert not (work / "marker").exists()
    assert (work / "input/events/1.json").exists()
    assert (Path(origin.data) / "input/events/1.json").exists(), "nothing behind a link is removed"


def test_a_stream_that_never_ran_has_made_no_file(origin: StreamSpec, run: Path) -> None:
    (Path(origin.checkpoint) / "metadata").unlink()
    work = make_working_folder(origin, run)
    assert (work / "marker").exists()


def test_a_run_without_such_a_folder_is_left_as_it_is(tmp_path: Path) -> None:
    spec = StreamSpec(name="s", job="s.py", checkpoint="/c")
    assert in_working_folder(spec, spec, tmp_path) == spec
    renew_working_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
