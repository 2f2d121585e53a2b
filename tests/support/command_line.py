"""The command line: in this process on a small project, or in a process as a shell runs it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamwarden.adapters.store import Store
from streamwarden.cli.app import run
from support.streams.projects import Project


@dataclass(frozen=True)
class Answer:
    """What a command line gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def in_shell(project: Path, *arguments: str, timeout: float = 200, **more: str) -> Answer:
    """Run `streamwarden …` as a process in the folder of a project, without this shell's settings for another one.
    `more`: variables of its environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STREAMWARDEN_")} | more
    command = [sys.executable, "-m", "streamwarden.cli", *arguments]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=timeout, check=False, env=environ
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def in_process(project: Path, *arguments: str) -> Answer:
    """The same in this process, which saves a second of processor time: for what a test asks beside its story."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["--project", str(project), *arguments])
    return Answer(code, out.getvalue(), err.getvalue())


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
