"""Processes that were left behind by one that was killed are found by their mark and ended, and no others."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.errors import ProcessError
from streamwarden.services.local.airflow import Restart, free_port
from streamwarden.services.local.installation import exclusive
from streamwarden.services.local.marked import MarkedProcesses

DEMO = Path(__file__).parents[3] / "scripts" / "demo"

# A parent that starts a child in its own session, as Airflow and the supervisor process do, prints its pid and waits.
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""

IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[MarkedProcesses]:
    made = MarkedProcesses(tmp_path, tmp_path)
    yield made
    made.stop(patience=0.0)


@pytest.fixture
def unrelated() -> Iterator[subprocess.Popen[bytes]]:
    """A process without the mark."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def started(marked: MarkedProcesses, code: str) -> subprocess.Popen[bytes]:
    process = marked.start("child", [sys.executable, "-c", code], marked.environment({}), marked.root)
    deadline = time.monotonic() + 30
    while not marked.log_path("child").read_text():
        assert time.monotonic() < deadline, "the child prints nothing"
        time.sleep(0.05)
    return process


def test_the_child_of_a_killed_process_is_found_and_ended(
    marked: MarkedProcesses, unrelated: subprocess.Popen[bytes]
) -> None:
    parent = started(marked, FAMILY)
    orphan = int(marked.log_path("child").read_text())
    parent.kill()
    parent.wait()
    assert [process.pid for process in marked.living()] == [orphan]
    marked.stop(patience=5.0)
    assert processes.identity(orphan) is None
    assert unrelated.poll() is None


def test_the_members_of_a_session_can_be_spared(marked: MarkedProcesses) -> None:
    """A driver leads a session: it outlives the Airflow that started it."""
    parent = started(marked, FAMILY)
    driver = int(marked.log_path("child").read_text())
    marked.stop(patience=5.0, except_sessions={driver})
    assert parent.wait(10) == -signal.SIGTERM
    assert processes.identity(driver) is not None


def test_a_process_that_ignores_sigterm_is_killed(marked: MarkedProcesses) -> None:
    child = started(marked, IGNORES_SIGTERM)
    marked.stop(patience=0.3)
    assert child.wait(10) == -signal.SIGKILL
    assert marked.living() == []


def test_the_processes_of_another_folder_are_left_alone(marked: MarkedProcesses, tmp_path: Path) -> None:
    child = started(marked, "import time; print('up', flush=True); time.sleep(600)")
    MarkedProcesses(tmp_path / "other", tmp_path).stop(patience=0.1)
    assert child.poll() is None
    marked.stop(patience=1.0)
    assert child.wait(10) < 0


def test_settings_for_another_workspace_do_not_reach_them(
    marked: MarkedProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STREAMWARDEN_STORE_URL", "STREAMWARDEN_DATA", "AIRFLOW_HOME", "AIRFLOW__API__PORT", "SPARK_HOME"):
        monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in marked.environment({}).values()


def test_connections_of_the_shell_reach_them(marked: MarkedProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", "kafka://broker")
    assert marked.environment({})["AIRFLOW_CONN_EVENTS"] == "kafka://broker"


def test_a_second_one_is_refused_while_one_runs(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with exclusive(lock), pytest.raises(ProcessError, match=f"pid {os.getpid()}"), exclusive(lock):
        pass
    with exclusive(lock):
        pass


def test_a_demo_keeps_what_a_person_tried_in_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEMO))
    from steps import set_aside  # type: ignore[import-not-found]

    data = tmp_path / "demo"
    assert set_aside(data, datetime(2026, 1, 2, tzinfo=UTC)) is None
    data.mkdir()
    (data / "mine").touch()
    kept = set_aside(data, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert kept == tmp_path / "demo-2026-01-02T03-04-05"
    assert (kept / "mine").exists()
    assert not data.exists()


def test_a_port_that_is_in_use_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) > port


def test_a_restart_says_what_happened() -> None:
    assert "scheduler was killed by SIGKILL; it starts again in 1 s" in str(Restart("scheduler", -9, 1.0))
    assert "triggerer ended with 1" in str(Restart("triggerer", 1, 2.0))
