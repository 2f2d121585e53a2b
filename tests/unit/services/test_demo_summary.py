"""What the demo prints at its end: where to look, and what to try."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console
from rich.text import Text

from streamwarden.adapters import processes
from streamwarden.lifecycle.driver import DriverRecord, ExitKind, ExitRecord
from streamwarden.services.workspace import Workspace
from support.streams.stored_journals import stored

DEMO = Path(__file__).parents[3] / "scripts" / "demo"
URL = "http://127.0.0.1:8080"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DEMO))
    import summary  # type: ignore[import-not-found]

    return summary


@contextmanager
def driver(space: Workspace) -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads its own group, as a driver does, and its record."""
    with subprocess.Popen(["sleep", "60"], process_group=0) as process:
        record = DriverRecord(
            driver_id="counted-1",
            stream="counted",
            checkpoint=space.stream("counted").checkpoint,
            token=1,
            folder=str(space.data / "drivers" / "counted-1"),
            launched_by="a test",
            launched_at=1.0,
            process=processes.identity(process.pid),
        )
        space.store.drivers.launched(record)
        try:
            yield process
        finally:
            process.kill()


def _plain(lines: list[str]) -> list[str]:
    return [Text.from_markup(line).plain for line in lines]


def test_the_fleet_page_comes_first_and_then_the_drills_report(demo: ModuleType, space: Workspace) -> None:
    run, _ = stored("kill_driver")
    found = _plain(demo.addresses(space, run, fleet=f"{URL}/plugin/streams", airflow=URL))
    assert [line.split() for line in found[:2]] == [
        ["Fleet", "page", f"{URL}/plugin/streams"],
        ["Drill's", "report", f"{URL}/streamwarden/drills/{run.run_id}"],
    ]
    assert any("streamwarden status" in line for line in found)


def test_the_command_that_is_printed_kills_the_driver(demo: ModuleType, space: Workspace) -> None:
    with driver(space) as process:
        command, *shown = _plain(demo.kill_to_try(space, "counted"))
        assert re.fullmatch(r"Try +kill -9 \d+", command)
        subprocess.run(command.split()[1:], check=True)
        assert process.wait(10) == -signal.SIGKILL
    said = " ".join(" ".join(shown).split())
    assert "Within 5 s the fleet page shows that it was killed by signal 9" in said
    assert "Half a minute later it runs" in said


def test_nothing_is_to_be_killed_if_no_driver_lives(demo: ModuleType, space: Workspace) -> None:
    """A pid that another process may have by now is not printed."""
    assert demo.kill_to_try(space, "counted") == []
    with driver(space):
        assert demo.kill_to_try(space, "counted") != []
        space.store.drivers.exited("counted-1", ExitRecord(kind=ExitKind.KILLED, ended_at=2.0, signal=9))
        assert demo.kill_to_try(space, "counted") == []


def test_the_box_says_the_verdict_and_the_lines_fit_beside_a_time(demo: ModuleType, space: Workspace) -> None:
    run, _ = stored("kill_driver", drill="kill_driver")
    console = Console(width=160, record=True)
    console.print(demo.summary(space, run, stream="counted"))
    assert "drill kill_driver: PASSED" in console.export_text()
    with driver(space):
        assert all(len(line) <= 110 for line in _plain(demo.kill_to_try(space, "counted")))
