"""The tutorial, from an empty folder: its own commands, in its order. Nothing is edited."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamwarden.cli.exit_codes import Exit
from support.airflow.harness import REPOSITORY
from support.command_line import Answer, in_shell
from support.guides import Page
from support.spark.drivers import QUICK, Project, project, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(500)]

PAGE = Page((REPOSITORY / "docs" / "tutorial" / "first-stream.md").read_text())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICK["spark.driver.extraJavaOptions"])
    with project(tmp_path) as made:
        yield made


def typed(world: Project, command: str) -> Answer:
    program, *arguments = shlex.split(command)
    assert program == "streamwarden"
    return in_shell(world.root, *arguments, timeout=400)


def test_the_tutorial_does_what_it_says(world: Project) -> None:
    """The last command, `up`, has tests of its own."""
    *commands, last = PAGE.commands("streamwarden")
    assert last == "streamwarden up"
    answers = {}
    for command in commands:
        if command == "streamwarden check":
            until("all five batches", lambda: world.store.batches.summary("orders").batches >= 5)
        answers[command] = typed(world, command)
        assert answers[command].code == Exit.OK, (command, answers[command])
    started = answers["streamwarden start orders"]
    assert re.search(r"query orders started; batch \d+ is committed", started.out), started
    assert "stopped" in answers["streamwarden stop orders"].out
    assert "0 lost" in answers["streamwarden drill show kill_orders"].out or "loses nothing" in (
        answers["streamwarden drill show kill_orders"].out
    )
    assert not list((world.data / "quarantine").rglob("*.json"))
