"""Every test here has a fresh project and a command line on it."""

from pathlib import Path

import pytest

from streamwarden.adapters.store import Store
from support.command_line import CommandLine
from support.projects import Project


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "streamwarden.db"
    with Store(f"sqlite:///{path}") as store:
        store.migrate()
    return path


@pytest.fixture
def cli(
    tmp_path: Path, empty_store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    for name in ("STREAMWARDEN_PROJECT", "STREAMWARDEN_DATA", "STREAMWARDEN_STORE_URL", "STREAMWARDEN_NOTIFY_URLS"):
        monkeypatch.delenv(name, raising=False)
    return CommandLine(Project.make(tmp_path), capsys, empty_store)
