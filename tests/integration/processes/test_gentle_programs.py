"""Programs that run beside a stream: they leave it the processor, and they end with whoever waits for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from streamwarden.adapters.processes import ending_with_us
from streamwarden.services.fleet.launching.one_off_spark import pause, wait_gently
from support.airflow.harness import wait_for

BUSY = "while True: pass"


@pytest.mark.parametrize(("share", "least", "most"), [(0.1, 0.8, 0.95), (1.0, 0.0, 0.0)])
def test_a_program_is_paused_for_the_rest_of_the_time(
    monkeypatch: pytest.MonkeyPatch, share: float, least: float, most: float
) -> None:
    """Its time on the processor shows that a pause stops it. Its state does not: on a busy host it may wait for the
    processor to be stopped."""
    pauses: list[float] = []

    def recorded(process: subprocess.Popen[bytes], seconds: float) -> None:
        began = time.monotonic()
        pause(process, seconds)
        pauses.append(time.monotonic() - began)

    monkeypatch.setattr("streamwarden.services.fleet.launching.one_off_spark.pause", recorded)
    process = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    began = time.monotonic()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_gently(process, share, within=3.0)
        took, times = time.monotonic() - began, psutil.Process(process.pid).cpu_times()
    finally:
        process.kill()
        process.wait()
    assert least <= sum(pauses) / took <= most
    assert times.user + times.system <= took - sum(pauses) + 0.1


def test_a_program_that_is_paused_most_of_the_time_still_ends_with_its_status() -> None:
    counting = [sys.executable, "-c", "import sys; sum(range(1_000_000)); sys.exit(7)"]
    assert wait_gently(subprocess.Popen(counting, start_new_session=True), 0.2, within=60) == 7


@pytest.mark.parametrize("stopped", [False, True], ids=["runs", "paused"])
def test_a_program_ends_with_whoever_waits_for_it(tmp_path: Path, stopped: bool) -> None:
    """Also if that is killed while the program is paused: nobody would let it go on."""
    note = tmp_path / "pid"
    command = [*ending_with_us(), sys.executable, "-c", BUSY]
    waits = (
        "import pathlib, subprocess\n"
        f"process = subprocess.Popen({command!r}, start_new_session=True)\n"
        f"pathlib.Path({str(note)!r}).write_text(str(process.pid))\n"
        "process.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", waits])
    try:
        wait_for("the program", lambda: note.exists() and note.read_text(), timeout=30)
        program = psutil.Process(int(note.read_text()))
        wait_for("its start", lambda: BUSY in program.cmdline() and "setpriv" not in program.name(), timeout=30)
        if stopped:
            os.kill(program.pid, signal.SIGSTOP)
    finally:
        parent.kill()
        parent.wait()
    assert wait_for("the program's end", lambda: not program.is_running(), timeout=30)
