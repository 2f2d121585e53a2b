"""`--forks`: the verdict of each test arrives, whatever happens to the process that runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]

CONFTEST = """
from support.forked import Forks

def pytest_configure(config):
    config.pluginmanager.register(Forks(config, 2))
"""

SOME = """
import os, signal, time, warnings
import pytest

@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    yield folder
    (folder / "torn down").touch()

def test_passes(shared):
    warnings.warn("a warning")

def test_fails(shared, tmp_path):
    print("printed by", tmp_path)
    assert shared == "another folder"

@pytest.mark.skip(reason="a reason")
def test_is_skipped(): ...

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after_one_that_died(shared): ...

@pytest.fixture
def broken_at_its_end():
    yield
    raise RuntimeError("at its end")

def test_whose_fixture_breaks(broken_at_its_end): ...
"""

OTHER = """
import pytest

@pytest.mark.parametrize("number", range(20))
def test_in_another_process(number): ...
"""


def run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:schemathesis", "-p", "no:anyio"]
    ended = subprocess.run(
        [*command, "-ra", f"--basetemp={folder / 'temporary'}", *options],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return ended.stdout


def test_every_verdict_arrives(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(SOME)
    (tmp_path / "test_other.py").write_text(OTHER)
    told = run(tmp_path)
    assert "2 failed, 23 passed, 1 skipped, 1 warning, 1 error in" in told
    assert re.search(r"printed by .*/temporary/process\d/test_fails0", told)
    assert "FAILED test_some.py::test_dies - the process of this test ended with -9" in told
    assert "SKIPPED [1] test_some.py:18: a reason" in told
    assert "RuntimeError: at its end" in told
    assert "UserWarning: a warning" in told
    assert len(list(tmp_path.rglob("torn down"))) == 1, "one of the two processes that made it was killed"
    told = run(tmp_path, "--last-failed", "--exitfirst")
    assert "stopping after 1 failures" in told
    assert "1 failed in" in told, "the tests that passed before are left out, and the rest after the first failure"
