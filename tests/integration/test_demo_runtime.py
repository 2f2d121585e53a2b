"""After a demo was killed, the next one finds the processes that it left behind, and stops those and no others."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts" / "demo"

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
def runtime(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import runtime

    return runtime


@pytest.fixture
def unrelated() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not belong to the demo."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def started(demo: object, code: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = demo.start("child", [sys.executable, "-c", code], demo.environment())  # type: ignore[attr-defined]
    deadline = time.monotonic() + 30
    while not demo.log_path("child").read_text():  # type: ignore[attr-defined]
        assert time.monotonic() < deadline, "the child prints nothing"
        time.sleep(0.05)
    return process


def test_orphans_of_a_killed_demo_are_found_and_ended(
    runtime: ModuleType, tmp_path: Path, unrelated: subprocess.Popen[bytes]
) -> None:
    first = runtime.Runtime(tmp_path)
    first.prepare()
    parent = started(first, FAMILY)
    orphan = int(first.log_path("child").read_text())
    parent.kill()
    parent.wait()
    second = runtime.Runtime(tmp_path)
    first._lock.close()  # the kernel does this when the demo itself is killed
    assert [process.pid for process in second.processes()] == [orphan]
    second.prepare()
    assert second.processes() == []
    assert not _is_running(orphan)
    assert unrelated.poll() is None


def test_a_process_that_ignores_sigterm_is_killed(runtime: ModuleType, tmp_path: Path) -> None:
    place = runtime.Runtime(tmp_path)
    place.prepare()
    child = started(place, IGNORES_SIGTERM)
    place.stop_processes(patience=0.3)
    assert child.wait(10) == -9
    assert place.processes() == []


def test_the_demo_of_another_checkout_is_left_alone(runtime: ModuleType, tmp_path: Path) -> None:
    mine, other = runtime.Runtime(tmp_path / "mine"), runtime.Runtime(tmp_path / "other")
    for place in (mine, other):
        place.project.mkdir()
        (place.project / "var").mkdir()
        place.prepare()
    child = started(other, "import time; print('up', flush=True); time.sleep(600)")
    mine.stop_processes(patience=0.1)
    assert child.poll() is None
    other.stop_processes(patience=1.0)
    assert child.wait(10) < 0


def test_a_second_demo_is_refused_while_one_runs(runtime: ModuleType, tmp_path: Path) -> None:
    running = runtime.Runtime(tmp_path)
    running.prepare()
    (running.data / "data").write_text("still there")
    with pytest.raises(runtime.DemoFailed, match=f"pid {os.getpid()}"):
        runtime.Runtime(tmp_path).prepare()
    assert (running.data / "data").exists()


def test_each_demo_begins_with_an_empty_folder(runtime: ModuleType, tmp_path: Path) -> None:
    first = runtime.Runtime(tmp_path)
    first.prepare()
    (first.data / "old").write_text("x")
    first._lock.close()
    second = runtime.Runtime(tmp_path)
    second.prepare()
    assert list(second.data.iterdir()) == []


def test_settings_for_another_workspace_do_not_reach_the_demo(
    runtime: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STREAMWARDEN_STORE_URL", "STREAMWARDEN_DATA", "AIRFLOW_HOME", "AIRFLOW__API__PORT", "SPARK_HOME"):
        monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in runtime.Runtime(tmp_path).environment().values()


def test_a_port_that_is_taken_is_passed_over(runtime: ModuleType) -> None:
    from local_airflow import free_port

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) > port


def _is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3]
    except FileNotFoundError:
        return False
