"""Whatever of a demo was killed, and however: the next one finds what is left of it, ends that, and nothing else."""

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

# A parent that starts a child in a session of its own, as Airflow and the keeper do, tells its pid and waits.
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""


@pytest.fixture
def ground(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import ground

    return ground


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of the demo's."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def spawned(place: ModuleType, ground: object, code: str) -> subprocess.Popen[bytes]:
    process: subprocess.Popen[bytes] = ground.spawn("child", [sys.executable, "-c", code], ground.environment())  # type: ignore[attr-defined]
    deadline = time.monotonic() + 30
    while not ground.log_of("child").read_text():  # type: ignore[attr-defined]
        assert time.monotonic() < deadline, "the child says nothing"
        time.sleep(0.05)
    return process


def test_orphans_of_a_killed_demo_are_found_and_ended(
    ground: ModuleType, tmp_path: Path, innocent: subprocess.Popen[bytes]
) -> None:
    first = ground.Ground(tmp_path)
    first.claim()
    parent = spawned(ground, first, FAMILY)
    orphan = int(first.log_of("child").read_text())
    parent.kill()
    parent.wait()
    second = ground.Ground(tmp_path)
    first._lock.close()  # the kernel does this when the demo itself is killed
    assert [process.pid for process in second.processes()] == [orphan]
    second.claim()
    assert second.processes() == []
    assert not _lives(orphan)
    assert innocent.poll() is None


def test_who_is_deaf_to_sigterm_is_killed(ground: ModuleType, tmp_path: Path) -> None:
    place = ground.Ground(tmp_path)
    place.claim()
    child = spawned(ground, place, STUBBORN)
    place.end_processes(patience=0.3)
    assert child.wait(10) == -9
    assert place.processes() == []


def test_the_demo_of_another_checkout_is_left_alone(ground: ModuleType, tmp_path: Path) -> None:
    mine, other = ground.Ground(tmp_path / "mine"), ground.Ground(tmp_path / "other")
    for place in (mine, other):
        place.project.mkdir()
        (place.project / "var").mkdir()
        place.claim()
    child = spawned(ground, other, "import time; print('up', flush=True); time.sleep(600)")
    mine.end_processes(patience=0.1)
    assert child.poll() is None
    other.end_processes(patience=1.0)
    assert child.wait(10) < 0


def test_a_second_demo_is_refused_while_one_runs(ground: ModuleType, tmp_path: Path) -> None:
    running = ground.Ground(tmp_path)
    running.claim()
    (running.data / "precious").write_text("still there")
    with pytest.raises(ground.DemoFailed, match=f"pid {os.getpid()}"):
        ground.Ground(tmp_path).claim()
    assert (running.data / "precious").exists()


def test_each_demo_begins_with_an_empty_folder(ground: ModuleType, tmp_path: Path) -> None:
    first = ground.Ground(tmp_path)
    first.claim()
    (first.data / "old").write_text("x")
    first._lock.close()
    second = ground.Ground(tmp_path)
    second.claim()
    assert list(second.data.iterdir()) == []


def test_settings_for_another_workspace_do_not_reach_the_demo(
    ground: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STREAMWARDEN_STORE_URL", "STREAMWARDEN_DATA", "AIRFLOW_HOME", "AIRFLOW__API__PORT", "SPARK_HOME"):
        monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in ground.Ground(tmp_path).environment().values()


def test_a_port_that_is_taken_is_passed_over(ground: ModuleType) -> None:
    from local_airflow import free_port

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) > port


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3]
    except FileNotFoundError:
        return False
