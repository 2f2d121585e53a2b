"""packaging/compose/scheduler.sh with a scheduler that ends at once, late, or never; tests/integration/test_compose.py
runs it with Airflow's."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.airflow.harness import wait_for

SCRIPT = Path(__file__).resolve().parents[3] / "packaging/compose/scheduler.sh"

SCHEDULER = """\
import signal, sys, pathlib
signal.signal(signal.SIGTERM, {handler})
pathlib.Path("began").touch()
while not pathlib.Path("let_it_end").exists():
    signal.sigtimedwait([], 0.05)
sys.exit(7)
"""
AT_ONCE = "lambda *_: sys.exit(3)"
NOT_BEFORE_ITS_TASKS = "signal.SIG_IGN"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """The script, with the programs that it calls in a folder of this test."""
    programs = tmp_path / "bin"
    programs.mkdir()
    running: list[subprocess.Popen[bytes]] = []

    def program(name: str, text: str) -> None:
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)

    def start(handler: str) -> subprocess.Popen[bytes]:
        (tmp_path / "scheduler.py").write_text(SCHEDULER.format(handler=handler))
        program("airflow", f"#!/bin/sh\nexec {sys.executable} scheduler.py\n")
        program("streamwarden", "#!/bin/sh\necho $1 after $(grep -c . slept) s >> drained\n")
        (tmp_path / "slept").touch()
        program("sleep", "#!/bin/sh\necho $1 >> slept\n")  # the patience is counted, and passes at once
        running.append(subprocess.Popen(["sh", str(SCRIPT)], cwd=tmp_path, env={"PATH": f"{programs}:/usr/bin:/bin"}))
        wait_for("the scheduler", (tmp_path / "began").exists, timeout=30)
        return running[-1]

    yield start
    (tmp_path / "let_it_end").touch()
    for process in running:
        process.wait(timeout=30)


def test_the_drivers_are_stopped_when_the_scheduler_has_ended(
    started: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = started(AT_ONCE)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 3
    assert (tmp_path / "drained").read_text().startswith("drain after ")


def test_the_drivers_do_not_wait_for_a_scheduler_that_waits_for_its_tasks_which_get_another_minute(
    started: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = started(NOT_BEFORE_ITS_TASKS)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 128 + signal.SIGKILL, "it never ends by itself"
    assert (tmp_path / "drained").read_text() == "drain after 20 s\n"
    assert (tmp_path / "slept").read_text().split() == ["1"] * (20 + 60)


def test_the_drivers_are_stopped_when_the_scheduler_fails(
    started: Callable[[str], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = started(AT_ONCE)
    (tmp_path / "let_it_end").touch()
    assert process.wait(timeout=30) == 7
    assert (tmp_path / "drained").read_text() == "drain after 0 s\n"
    assert not (tmp_path / "slept").read_text()
