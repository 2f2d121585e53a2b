"""The files in a driver's folder are whole or absent, and private."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverEvent, ExitKind, ExitRecord, ProcessIdentity
from streamwarden.lifecycle.lease import Claim, Lease
from streamwarden.lifecycle.supervision.stop import StopRequest
from streamwarden.redaction import is_redacted


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    process = ProcessIdentity("h/b/1", 7, 99)
    lease = Lease(
        stream="s",
        holder="d",
        claims=(Claim("stream:s", 3), Claim("/cp", 3)),
        process=process,
        acquired_at=1,
        renewed_at=2,
        expires_at=3,
    )
    stop = StopRequest(
        driver_id="d", requested_by="a", reason="r", requested_at=1, batch_deadline=2, kill_deadline=3, restart=True
    )
    outcome = ExitRecord(kind=ExitKind.FENCED, ended_at=4.5, cut_batch=None, cause="second_writer")
    files.write_process(tmp_path, process)
    files.write_lease(tmp_path, lease)
    files.write_stop(tmp_path, stop)
    files.write_outcome(tmp_path, outcome)
    assert files.read_process(tmp_path) == process
    assert files.read_lease(tmp_path) == lease
    assert files.read_stop(tmp_path) == stop
    assert files.read_outcome(tmp_path) == outcome


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert files.read_process(tmp_path) is None
    assert files.read_outcome(tmp_path) is None
    assert files.read_events(tmp_path) == ()


def test_an_outcome_that_was_written_before_causes_had_codes_is_read(tmp_path: Path) -> None:
    (tmp_path / files.OUTCOME).write_text(
        '{"committed": null, "curable": false, "cut_batch": true, "ended_at": 1750000000.5, "error_class": '
        '"KAFKA_DATA_LOSS", "exit_code": null, "kind": "failed", "message": "records are gone", "next_step": "act", '
        '"signal": null}'
    )
    assert files.read_outcome(tmp_path) == ExitRecord(
        kind=ExitKind.FAILED,
        ended_at=1750000000.5,
        error_class="KAFKA_DATA_LOSS",
        message="records are gone",
        curable=False,
        cut_batch=True,
        next_step="act",
        cause=None,
    )


def test_the_secrets_of_a_spec_are_in_private_files_that_go_with_the_driver(tmp_path: Path) -> None:
    folder = tmp_path / "counts-1"
    folder.mkdir()
    spec = {"name": "counts", "spark": {"conf": {"spark.ssl.keyPassword": "hunter2-hunter2"}}, "args": []}
    files.write_spec(folder, spec)
    files.write_text(folder / files.PROPERTIES, "spark.ssl.keyPassword=hunter2-hunter2\nspark.app.name=counts\n")
    assert files.read_spec(folder) == spec
    holders = {path.name for path in folder.iterdir() if "hunter2" in path.read_text()}
    assert holders == {files.SECRETS, files.PROPERTIES}
    assert {(folder / name).stat().st_mode & 0o777 for name in holders} == {0o600}

    files.tidy(folder)
    assert [path.name for path in folder.iterdir() if "hunter2" in path.read_text()] == []
    shown = files.read_spec(folder)
    assert shown is not None
    assert is_redacted(shown)
    assert (folder / files.PROPERTIES).read_text().endswith("\nspark.app.name=counts\n")


def test_a_spec_without_secrets_is_one_file(tmp_path: Path) -> None:
    files.write_spec(tmp_path, {"name": "counts", "args": ("--topic", "flights")})
    assert [path.name for path in tmp_path.iterdir()] == [files.SPEC]


def test_temporary_files_behind_a_link_stay(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").touch()
    for folder, link in ((tmp_path / "one", files.TEMPORARY), (tmp_path / "two", "")):
        folder.mkdir() if link else folder.symlink_to(outside)
        (folder / files.TEMPORARY).symlink_to(outside) if link else (outside / files.TEMPORARY).mkdir()
        files.tidy(folder)
    assert (outside / "theirs").exists()
    assert (outside / files.TEMPORARY).exists()


def test_what_a_driver_writes_about_itself_holds_no_secret(tmp_path: Path) -> None:
    text = "login of postgresql://ann:hunter2-hunter2@db failed"
    files.write_outcome(tmp_path, ExitRecord(kind=ExitKind.FAILED, ended_at=1, message=text))
    files.append_event(tmp_path, DriverEvent(driver_id="d", at=1, kind="note", detail={"reason": text}))
    assert [path.name for path in tmp_path.iterdir() if "hunter2" in path.read_text()] == []


def test_half_a_document_is_none(tmp_path: Path) -> None:
    (tmp_path / files.STOP).write_text('{"driver_id": "d"')
    assert files.read_stop(tmp_path) is None


def test_nobody_else_can_read_a_document(tmp_path: Path) -> None:
    files.write_document(tmp_path / files.SPEC, {"secret": 1})
    assert (tmp_path / files.SPEC).stat().st_mode & 0o777 == 0o600


def test_a_document_that_cannot_be_written_leaves_the_old_one_and_no_rest(tmp_path: Path) -> None:
    files.write_document(tmp_path / files.SPEC, {"a": 1})
    with pytest.raises(TypeError):
        files.write_document(tmp_path / files.SPEC, {"a": object()})
    assert files.read_document(tmp_path / files.SPEC) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == [files.SPEC]


def test_many_writers_of_a_journal_do_not_cut_each_others_lines(tmp_path: Path) -> None:
    def write(writer: int) -> None:
        for number in range(50):
            files.append_event(tmp_path, DriverEvent(driver_id=f"d{writer}", at=number, kind="x" * 200))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files.read_events(tmp_path)) == 200


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    files.append_line(tmp_path / files.SPILL, {"a": 1})
    with (tmp_path / files.SPILL).open("a") as file:
        file.write('{"b": ')
    assert list(files.read_lines(tmp_path / files.SPILL)) == [{"a": 1}]
