"""A fleet for whoever reads, searches and waits: one stream runs, one was never started, one has a file that cannot be
used, and one has its progress published."""

from __future__ import annotations

import time
from pathlib import Path

from streamwarden.health.verdict import Status, Verdict
from streamwarden.services.workspace import Workspace
from support.airflow.project import add_stream
from support.checkpoints.recorded import Archives
from support.pages.on_call import runs

COUNTED = "counted"
STREAMS = ("torn", COUNTED, "idle", "published")
"""As the fleet shows them: the trouble first."""
LAUNCHED = 600.0
"""Seconds since the launch of the driver: within the shortest time that the charts show."""
_DRILL = """
name: kill_idle
description: A crash of the stream that was never started
stream: idle
fault: {kind: kill_driver}
"""


def fill(space: Workspace) -> None:
    """The project and the store, with a checkpoint that Spark wrote and the log of a driver."""
    now = time.time()
    for name in (COUNTED, "idle", "published"):
        add_stream(space.project, name)
    (space.project / "config" / "streams" / "torn.yaml").write_text("name: torn\nsource: {kind: pigeons}\n")
    (space.project / "config" / "drills" / "kill_idle.yaml").write_text(_DRILL)
    runs(space, COUNTED, now - LAUNCHED, now)
    space.store.verdicts.save(
        [Verdict(stream=COUNTED, check="state_growth", status=Status.UNKNOWN, at=now - 30, reason="it ran for 10 m")]
    )
    _leave_log(space)
    _leave_checkpoint(space)


def _leave_log(space: Workspace) -> None:
    driver = space.store.drivers.latest(COUNTED)
    assert driver is not None
    Path(driver.folder).mkdir(parents=True)
    (Path(driver.folder) / "driver.log").write_text("26/11/27 01:00:00 INFO MicroBatchExecution: batch 199\n")


def _leave_checkpoint(space: Workspace) -> None:
    """With the output that belongs to it."""
    file = space.project / "config" / "streams" / f"{COUNTED}.yaml"
    text = file.read_text().replace(f"output/{COUNTED}", "origin/output")
    file.write_text(text.replace(f"checkpoints/{COUNTED}", "origin/checkpoint"))
    Archives(space.data / "archives").unpack("spark-4.3.0-changelog", space.data / "origin")
