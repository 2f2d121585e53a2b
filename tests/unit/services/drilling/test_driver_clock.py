"""The clock that drivers of a drill are given, with the real library and real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from streamwarden.errors import DrillAborted
from streamwarden.services.drilling.archive import DrillArchive
from streamwarden.services.drilling.ports import driver_clock
from streamwarden.services.drilling.ports.driver_clock import ForkClock

pytestmark = pytest.mark.skipif(
    "libfaketime" in os.environ.get("LD_PRELOAD", ""),
    reason="libfaketime has stepped the clock of the tests themselves, and is not made to be loaded twice",
)

SHARED = Path("/dev/shm")
RUN = "kill_driver-20260101T000000Z-0123456789"
STEPS = {3600.0: RUN, -3600.0: "kill_driver-20260101T000000Z-9876543210"}
"""Seconds by which the clock of a run is stepped."""
OURS = (*STEPS.values(), "streamwarden-clock")
STEPPED = """
import pathlib, sys, time
file, wall, calm = pathlib.Path(sys.argv[1]), time.time(), time.monotonic()
print("ready", flush=True)
while abs(time.time() - wall - (time.monotonic() - calm)) < 60:
    time.sleep(0.05)
print(round(time.time() - wall - (time.monotonic() - calm)), abs(file.stat().st_mtime - wall) < 60)
"""

LAUNCHER = """
import os, sys
reader, writer = os.pipe()
if os.fork() > 0:
    os.close(reader)
    sys.exit()
os.close(writer)
os.read(reader, 1)  # returns when the launcher has ended
os.execv("/bin/bash", ["bash", sys.argv[1]])
"""


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[ForkClock]:
    """Nothing of its shared memory may be left."""
    before = shared_by_processes()
    clock = ForkClock(DrillArchive(tmp_path))
    yield clock
    for run in STEPS.values():
        clock.remove(run)
    assert shared_by_processes() == before


def shared_by_processes() -> set[str]:
    return {each.name for each in SHARED.iterdir() if any(part in each.name for part in OURS)}


def test_processes_that_run_see_the_step_and_wait_on(clock: ForkClock, tmp_path: Path) -> None:
    """Only the time of day steps: a sleep lasts as long as it should, and files keep the host's time."""
    clock.require()
    programs = {by: stepping(clock, run, tmp_path) for by, run in STEPS.items()}
    began = time.monotonic()
    for by, run in STEPS.items():
        clock.step(run, by)
    for by, program in programs.items():
        told, _ = program.communicate(timeout=30)
        assert (program.returncode, told.split()) == (0, [f"{by:.0f}", "True"])
    assert time.monotonic() - began < 20
    for run in STEPS.values():
        assert clock.reset(run)
        assert not clock.reset(run), "it is right"


def stepping(clock: ForkClock, run: str, folder: Path) -> subprocess.Popen[str]:
    """A process with the clock of the run, which says by how many seconds it was stepped."""
    clock.provide(run)
    program = subprocess.Popen(
        [sys.executable, "-c", STEPPED, str(folder)],
        env={**os.environ, **clock.environment(run)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    return program


def test_scripts_start_although_the_program_that_launched_them_has_ended(clock: ForkClock, tmp_path: Path) -> None:
    """As the launcher of a driver does, in the worst order: it ends just before the first shell starts."""
    clock.provide(RUN)
    environment = clock.environment(RUN)
    assert launched(tmp_path, environment) == "1\n"
    before = set(SHARED.iterdir())
    alone = launched(tmp_path, {key: value for key, value in environment.items() if key != "FAKETIME_SHARED"})
    for left in set(SHARED.glob("*faketime_*")) - before:
        left.unlink()
    assert "recreation attempts failed" in alone, "negative control: the library's own shared memory"


def launched(folder: Path, environment: Mapping[str, str]) -> str:
    """What two scripts print, each of which replaces its process by the next, as spark-submit and spark-class do."""
    first, second = folder / "spark-submit", folder / "spark-class"
    first.write_text(f"exec /usr/bin/env bash {second}\n")
    second.write_text(f"exec {sys.executable} -c 'print(1)'\n")
    return subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(first)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=30,
        check=False,
    ).stdout


def test_a_run_without_a_clock_of_its_own_changes_nothing(clock: ForkClock) -> None:
    assert clock.environment(RUN) == {}
    assert not clock.reset(RUN)


def test_without_the_library_the_drill_is_refused(clock: ForkClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_clock, "_PACKAGE", "no_such_package")
    with pytest.raises(DrillAborted, match="no_such_package is not installed") as refusal:
        clock.require()
    assert "streamwarden[clock]" in str(refusal.value)


def test_a_library_without_effect_is_refused(clock: ForkClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a processor that it was not built for: the loader says so and goes on without it."""
    other = tmp_path / "libfaketime.so.1"
    other.write_bytes(b"for another processor")
    monkeypatch.setattr(driver_clock, "_library", lambda: other)
    with pytest.raises(DrillAborted, match=r"has no effect: its clock is (0|-\d) s ahead"):  # a start takes time
        clock.require()
