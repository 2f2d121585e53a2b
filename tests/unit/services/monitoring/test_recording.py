"""Every change of a file below a folder is recorded, in order, with its content."""

from __future__ import annotations

import time
from os import link
from pathlib import Path

import pytest

from streamwarden.drills.crash_states import Change, CrashState, Origin
from streamwarden.errors import CheckpointError
from streamwarden.services.crash_matrix.crash_layout import Record
from streamwarden.services.crash_matrix.recording import Recording


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for part in ("checkpoint/offsets", "output"):
        (tmp_path / "run" / part).mkdir(parents=True)
    return tmp_path / "run"


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.1.tmp")
    temporary.write_text(text)
    temporary.rename(path)


def await_files(folder: Path, count: int) -> None:
    """Wait until the contents of so many files are kept."""
    deadline = time.monotonic() + 30
    while len(list(folder.iterdir())) < count:
        assert time.monotonic() < deadline, "the recording keeps nothing"
        time.sleep(0.01)


def changes(recording: Recording) -> list[tuple[str, Change]]:
    return [(each.path, each.change) for each in recording.operations]


def test_a_renamed_file_a_written_one_and_a_removed_one(root: Path, tmp_path: Path) -> None:
    with Recording(root, tmp_path / "contents") as recording:
        write_atomically(root / "checkpoint/offsets/0", "plan")
        (root / "output/part-0").write_text("rows")
        await_files(tmp_path / "contents", 2)
        (root / "checkpoint/offsets/0").unlink()
    assert changes(recording) == [
        ("checkpoint/offsets/0", Change.RENAMED),
        ("output/part-0", Change.WRITTEN),
        ("checkpoint/offsets/0", Change.REMOVED),
    ]
    assert recording.operations[0].temporary == "checkpoint/offsets/.0.1.tmp"
    assert (tmp_path / "contents" / recording.operations[0].content).read_text() == "plan"


def test_a_temporary_file_that_never_got_its_name_is_not_in_the_record(root: Path, tmp_path: Path) -> None:
    with Recording(root, tmp_path / "contents") as recording:
        (root / "output/.x.tmp").write_text("half")
        (root / "output/.x.tmp").unlink()
        write_atomically(root / "checkpoint/offsets/0", "plan")
    assert ("checkpoint/offsets/0", Change.RENAMED) in changes(recording)
    assert not any(each.change is Change.WRITTEN and not each.path.endswith(".tmp") for each in recording.operations)


def test_a_file_that_goes_before_its_content_is_kept_is_an_error(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its states could not be laid out, so the record must not pass for a whole one."""

    def too_late(source: Path, target: Path) -> None:
        if not source.name.endswith(".tmp"):
            source.unlink()
        link(source, target)

    monkeypatch.setattr("streamwarden.services.crash_matrix.recording.link", too_late)
    with (
        pytest.raises(CheckpointError, match="checkpoint/offsets/0 was removed before"),
        Recording(root, tmp_path / "contents"),
    ):
        write_atomically(root / "checkpoint/offsets/0", "plan")


def test_files_in_a_new_folder_are_recorded(root: Path, tmp_path: Path) -> None:
    with Recording(root, tmp_path / "contents") as recording:
        folder = root / "checkpoint/state/0/0"
        folder.mkdir(parents=True)
        write_atomically(folder / "1.delta", "state")
    assert [each.path for each in recording.operations] == ["checkpoint/state/0/0/1.delta"]
    assert recording.operations[0].part == "state"


def test_a_state_is_laid_out_as_links_and_a_torn_file_as_a_copy(root: Path, tmp_path: Path) -> None:
    with Recording(root, tmp_path / "contents") as recording:
        write_atomically(root / "checkpoint/offsets/0", "first plan")
        (root / "output/part-0").write_text("0123456789")
    record = Record(recording.operations, tmp_path / "contents")
    state = CrashState(number=0, batch=0, name="", origin=Origin.KILL, applied=2, torn=1)
    record.lay(state, tmp_path / "state")
    linked, torn = tmp_path / "state/checkpoint/offsets/0", tmp_path / "state/output/part-0"
    assert linked.samefile(root / "checkpoint/offsets/0")
    assert torn.read_text() == "01234"
    assert (root / "output/part-0").read_text() == "0123456789"


def test_folders_that_are_gone_at_once_end_no_recording(root: Path, tmp_path: Path) -> None:
    with Recording(root, tmp_path / "contents") as recording:
        for number in range(300):
            (root / "output" / f"_temporary-{number}").mkdir()
            (root / "output" / f"_temporary-{number}").rmdir()
        (root / "output/part-0").write_text("rows")
    assert changes(recording) == [("output/part-0", Change.WRITTEN)]


def test_a_recording_that_ends_before_the_run_does_is_no_record(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")  # the kernel's limit of watches

    def run() -> None:
        with Recording(root, tmp_path / "contents"):
            monkeypatch.setattr("inotify_simple.INotify.add_watch", full)
            (root / "output/new").mkdir()

    with pytest.raises(CheckpointError, match=r"the recording ended before the run did: .*No space left on device"):
        run()
