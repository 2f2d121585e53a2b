"""Airflow reads its settings when it is first imported: give it a home that is thrown away."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from streamwarden.services.workspace import Workspace

_HOME = tempfile.TemporaryDirectory(prefix="airflow-home-", ignore_cleanup_errors=True)
os.environ.setdefault("AIRFLOW_HOME", _HOME.name)
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


def pytest_unconfigure() -> None:
    """A worker of pytest-xdist does not end as a program does: what waits for the end of one would be left out."""
    _HOME.cleanup()


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """The workspace that tasks and triggers of a project with the stream `counted` open."""
    from streamwarden.airflow.workspaces import workspace
    from support.airflow.project import add_stream, make_project

    root = make_project(tmp_path / "project")
    add_stream(root, "counted")
    monkeypatch.setenv("STREAMWARDEN_PROJECT", str(root))
    monkeypatch.setenv("STREAMWARDEN_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("STREAMWARDEN_STORE_URL", raising=False)
    workspace.cache_clear()
    opened = workspace(str(root))
    yield opened
    opened.close()
    workspace.cache_clear()


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The notes that tasks write, of a `task` or of its `run`. No Airflow runs that could keep them."""
    from streamwarden.airflow import notes

    written: dict[str, list[str]] = {"task": [], "run": []}

    def annotate(ti: object, note: str, *, whole_run: bool, within: float) -> None:
        written["run" if whole_run else "task"].append(note)

    monkeypatch.setattr(notes, "annotate", annotate)
    return written
