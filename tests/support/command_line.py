"""The command line, run in this process on a project of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.cli.app import run
from support.projects import Project


@dataclass(frozen=True)
class Answer:
    """What a command line gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class CommandLine:
    """`streamwarden …` on `project`."""

    project: Project
    capture: pytest.CaptureFixture[str]
    empty_store: Path

    def __call__(self, *arguments: str) -> Answer:
        self.capture.readouterr()
        code = run(["--project", str(self.project.root), "--data", str(self.project.data), *arguments])
        sink = self.capture.readouterr()
        return Answer(code, sink.out, sink.err)

    def store(self) -> Store:
        """The store that the command line opens."""
        self.project.data.mkdir(parents=True, exist_ok=True)
        path = self.project.data / "streamwarden.db"
        if not path.exists():
            path.write_bytes(self.empty_store.read_bytes())  # migrated once for all tests: 0.2 s each
        return Store(f"sqlite:///{path}")
