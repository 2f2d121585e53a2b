"""Every test here has a fresh project and a command line on it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import ProcessIdentity
from support.command_line import CommandLine
from support.streams import recorded_drivers
from support.streams.projects import Project


@pytest.fixture(autouse=True)
def now(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """`recorded_drivers.NOW` is the time of the test that runs, also in a file that imports it: `make test` imports
    files many minutes before it runs their tests. A file with a `NOW` of its own keeps it."""
    imported, at = recorded_drivers.NOW, time.time()
    monkeypatch.setattr(recorded_drivers, "NOW", at)
    if getattr(request.module, "NOW", None) == imported:
        monkeypatch.setattr(request.module, "NOW", at)


@pytest.fixture
def cli(
    tmp_path: Path, migrated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    for name in ("PROJECT", "DATA", "LOCAL_DATA", "STORE_URL", "NOTIFY_URLS"):
        monkeypatch.delenv(f"STREAMWARDEN_{name}", raising=False)
    return CommandLine(Project.make(tmp_path), capsys, migrated)


@pytest.fixture
def living() -> Iterator[ProcessIdentity]:
    """Identity of a process that lives as long as the test."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        identity = processes.identity(child.pid)
        assert identity is not None
        yield identity
    finally:
        child.kill()
        child.wait()
