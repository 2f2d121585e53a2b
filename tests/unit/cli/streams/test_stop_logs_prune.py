"""`stop`, `logs`, `store prune`: what a person does with the drivers of a stream and their records."""

from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from streamwarden.lifecycle.driver import ExitKind
from streamwarden.lifecycle.supervision.stop import Desired
from support.command_line import CommandLine
from support.streams.recorded_drivers import driver, ended


def test_stopping_a_stream_without_a_driver_is_remembered(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("stop", "a", "--reason", "maintenance")
    assert answer.code == Exit.OK
    with cli.store() as store:
        desired = store.stops.desired("a")
    assert desired is not None
    assert (desired.desired, desired.reason) == (Desired.STOPPED, "maintenance")
    assert "command line" in desired.changed_by


def test_a_stream_with_a_broken_file_can_still_be_stopped(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    answer = cli("stop", "a")
    assert answer.code == Exit.OK
    assert "batch boundary" not in answer.out, "without a driver there is no batch to wait for"


def test_a_stream_with_a_broken_file_cannot_be_started(cli: CommandLine) -> None:
    cli.project.stream("a", "color: red\n")
    answer = cli("start", "a")
    assert answer.code == Exit.USAGE
    assert "color" in answer.err
    assert not (cli.project.data / "drivers").exists()


def test_the_log_of_the_newest_driver_is_shown(cli: CommandLine) -> None:
    cli.project.stream("a")
    assert "has had no driver" in cli("logs", "a").err
    record = driver(cli, ended(ExitKind.FAILED))
    folder = Path(record.folder)
    folder.mkdir(parents=True)
    (folder / "driver.log").write_text("".join(f"line {number} [bold]\n" for number in range(100)))
    answer = cli("logs", "a", "-n", "2")
    assert answer.out == "line 98 [bold]\nline 99 [bold]\n"
    assert cli("logs", "a", "--driver", "a-20260101T000000-ffffffff").code == Exit.USAGE


def test_following_a_log_ends_with_its_driver_and_shows_the_last_line(
    cli: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    from streamwarden.cli.commands.streams.streams import follow_log

    path = Path(cli.project.root) / "driver.log"
    path.write_text("before\n")
    looks = 0

    def over() -> bool:
        nonlocal looks
        looks += 1
        with path.open("a") as log:
            log.write(f"look {looks}\n")
        return looks == 3

    follow_log(path, ended=over, poll=0)
    assert capsys.readouterr().out == "look 1\nlook 2\nlook 3\n"


def test_pruning_reports_the_removed_files(cli: CommandLine) -> None:
    cli.project.stream("a")
    answer = cli("store", "prune", "--keep", "1 h", "--json")
    assert answer.code == Exit.OK
    assert answer.json["batches"] == 0
    assert cli("store", "migrate").code == Exit.OK
