"""The exit code says what became of a command, and an error is one readable block, never a traceback."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reference_pages import command_line
from streamwarden import errors
from streamwarden.cli import app
from streamwarden.cli.exit_codes import Exit, exit_of
from support.command_line import CommandLine


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigError("x"), Exit.USAGE),
        (errors.CheckpointError("x"), Exit.BAD),
        (errors.JobError("x"), Exit.BAD),
        (errors.LeaseHeld("x"), Exit.UNAVAILABLE),
        (errors.LeaseLost("x"), Exit.UNAVAILABLE),
        (errors.StoreError("x"), Exit.UNAVAILABLE),
        (errors.ProcessError("x"), Exit.UNAVAILABLE),
        (errors.DrillAborted("x"), Exit.UNDECIDED),
        (errors.VerificationError("x"), Exit.UNDECIDED),
    ],
)
def test_each_kind_of_error_has_its_code(error: errors.StreamwardenError, code: Exit) -> None:
    assert exit_of(error) is code


@pytest.mark.parametrize(
    "arguments",
    [
        ("strt",),
        ("start",),
        ("status", "--nope"),
        ("logs", "a", "-n", "-3"),
        ("stop", "a", "--batch-deadline", "soon"),
        ("start", "a", "--within", "soon"),
        ("replay",),
        ("replay", "x", "--stream", "a"),
        ("store", "prune", "--keep", "long"),
    ],
)
def test_a_wrong_command_line_is_2_and_prints_no_traceback(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    cli.project.stream("a")
    answer = cli(*arguments)
    assert answer.code == Exit.USAGE
    assert "Error" in answer.err
    assert "Traceback" not in answer.out + answer.err


def test_error_block_has_observation_place_expectation_and_next_step(cli: CommandLine) -> None:
    cli.project.stream("flights")
    answer = cli("status", "flight")
    assert answer.code == Exit.USAGE
    assert answer.err.splitlines() == [
        "Error: there is no stream 'flight'",
        "  expected: one of: flights",
        "  next: did you mean 'flights'?",
    ]


def test_brackets_in_a_message_are_printed_and_not_taken_for_markup(cli: CommandLine) -> None:
    assert "'[red]'" in cli("status", "[red]").err


def test_outside_a_project_the_places_that_were_tried_are_reported(
    tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(cli.project.root / "config")
    monkeypatch.chdir(elsewhere)
    assert app.run(["status"]) == Exit.USAGE
    message = cli.capture.readouterr().err
    assert "no project found" in message
    assert str(elsewhere) in message


def test_a_store_that_cannot_be_opened_is_3(cli: CommandLine) -> None:
    cli.project.stream("a")
    cli.project.data.mkdir()
    (cli.project.data / "streamwarden.db").write_text("this is no database, and long enough to be looked at" * 50)
    answer = cli("status")
    assert answer.code == Exit.UNAVAILABLE
    assert "Traceback" not in answer.err


def test_a_defect_is_70_and_its_traceback_lies_in_a_file(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.project.stream("a")

    def burst(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("an unforeseen error")

    monkeypatch.setattr("streamwarden.services.overview.status.gather", burst)
    answer = cli("status")
    assert answer.code == Exit.DEFECT
    assert "Traceback" not in answer.err
    where = next(line.split("where: ")[1] for line in answer.err.splitlines() if "where: " in line)
    try:
        assert "ZeroDivisionError: an unforeseen error" in Path(where).read_text()
    finally:
        Path(where).unlink()


def test_ctrl_c_is_130(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.project.stream("a")

    def interrupted(*args: object, **kwargs: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("streamwarden.services.overview.status.gather", interrupted)
    assert cli("status").code == Exit.INTERRUPTED


def test_a_reader_that_has_seen_enough_is_no_error(cli: CommandLine) -> None:
    """As in `streamwarden validate | head`: the reading end of the pipe is closed."""
    cli.project.stream("a")
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "streamwarden.cli", "--project", str(cli.project.root), "validate"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (Exit.OK, "")


def test_help_comes_within_a_second_of_processor_time_and_without_a_heavy_import() -> None:
    code = (
        "import sys, time\n"
        "from streamwarden.cli.app import run\n"
        "code = run(['--help'])\n"
        "heavy = {'sqlalchemy', 'pandas', 'pyarrow', 'duckdb', 'pyspark', 'great_expectations', "
        "'pydantic', 'airflow', 'yaml', 'streamwarden.health.checks', 'streamwarden.drills.faults'}\n"
        "print(code, sorted(heavy & set(sys.modules)), time.process_time(), sep='|', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    returned, modules, seconds = done.stderr.strip().split("|")
    assert (returned, modules) == ("0", "[]")
    assert float(seconds) < 1.5  # 0.2 on an idle machine; the clock of a busy one counts more
    assert "validate" in done.stdout


def test_the_version_is_reported(cli: CommandLine) -> None:
    answer = cli("--version")
    assert answer.code == Exit.OK
    assert answer.out.startswith("streamwarden 0.")


def test_the_reference_page_names_every_command_and_every_code() -> None:
    text = command_line.page()
    for command in ("validate", "status", "start", "stop", "restart", "logs", "inspect", "check", "incidents",
                    "replay", "drill list", "drill run", "drill replay", "drill show", "store migrate",
                    "store prune"):  # fmt: skip
        assert f"## `streamwarden {command}" in text
    for code in Exit:
        assert f"| {code.value} | {code.meaning} |" in text
    assert app.app.info.help
