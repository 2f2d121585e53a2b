"""A newcomer's first stream, from an empty folder: new, validate, start, status, a drill, stop. Nothing is edited."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamwarden.adapters.storage.files import open_path
from streamwarden.checkpoint.logs import log_position
from streamwarden.cli.exits import Exit
from support.command_line import Answer
from support.drivers import Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

Shell = Callable[..., Answer]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        yield made


@pytest.fixture
def shell(world: Project) -> Shell:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STREAMWARDEN_")}

    def run(*arguments: str) -> Answer:
        command = [sys.executable, "-m", "streamwarden.cli", *arguments]
        done = subprocess.run(
            command, cwd=world.root, capture_output=True, text=True, timeout=400, check=False, env=environ
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


def test_a_new_stream_starts_and_passes_its_drill(world: Project, shell: Shell) -> None:
    assert shell("new", "orders").code == Exit.OK
    assert shell("validate").code == Exit.OK
    started = shell("start", "orders")
    assert started.code == Exit.OK, started
    assert "query orders started; batch 0 is committed" in started.out
    checkpoint = open_path(str(world.data / "checkpoints/orders"))
    until("all five batches", lambda: (log_position(checkpoint).committed or 0) >= 4)
    assert shell("status", "orders").code == Exit.OK
    assert shell("stop", "orders").code == Exit.OK

    drilled = shell("drill", "run", "kill_orders")
    assert drilled.code == Exit.OK, drilled
    assert not list((world.data / "quarantine").rglob("*.json"))
