"""`streamwarden up`: Airflow for one's own project, from a shell.

1. A project with one stream and no DAG file; `up` starts Airflow, and the stream is unpaused there.
2. Airflow's scheduler is killed: it starts again, and the stream's driver is the same one.
3. SIGTERM ends Airflow and stops the driver at a batch boundary. The stream is to run again at the next `up`.
4. In the second tier `up` itself is killed: the driver goes on, and the next `up` ends what was left of Airflow and
   keeps the driver.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from streamwarden.adapters.airflow_server import AirflowServer
from streamwarden.adapters.processes import commands
from streamwarden.lifecycle.driver import DriverRecord, ExitKind
from streamwarden.services.local.marked import MarkedProcesses
from support.airflow.harness import free_port, wait_for
from support.spark.drivers import COUNTS, Project, project

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

LONG = 240.0
STREAM = """
name: counts
job: jobs/counts.py
source: {path: input, max_files_per_trigger: 1}
sink: {path: output/counts}
checkpoint: checkpoints/counts
trigger: {processing_time: 200 ms}
state: {shuffle_partitions: 1}
spark:
  master: "local[1]"
  driver_memory: 700 MiB
  conf:
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
    spark.sql.codegen.wholeStage: "false"
"""


class Up:
    """One run of the command."""

    started: ClassVar[list[Up]] = []

    def __init__(self, world: Project, port: int) -> None:
        self.port, self.log = port, world.root / "up.log"
        self.server = AirflowServer(url=f"http://127.0.0.1:{port}")
        self._before = self.log.stat().st_size if self.log.exists() else 0
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STREAMWARDEN_")}
        command = [sys.executable, "-m", "streamwarden.cli", "--project", str(world.root), "up", "--port", str(port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        self.started.append(self)
        wait_for("Airflow", lambda: "Airflow is up" in self.text(), timeout=LONG, explain=self.text)

    def text(self) -> str:
        return self.log.read_text()[self._before :]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        made.job("counts", COUNTS)
        (tmp_path / "config" / "streams").mkdir(parents=True)
        (tmp_path / "config" / "streams" / "counts.yaml").write_text(STREAM)
        made.publish(2)
        with swept(made):
            yield made


@contextmanager
def swept(world: Project) -> Iterator[None]:
    try:
        yield
    finally:
        for up in Up.started:  # it would start again what is ended below
            up.process.kill()
            up.process.wait()
        Up.started.clear()
        MarkedProcesses(world.data, world.data).stop(patience=2.0)


def running(world: Project) -> DriverRecord | None:
    record = world.store.drivers.latest("counts")
    return record if record is not None and record.started_at is not None and record.exit is None else None


def commits_more(world: Project) -> None:
    before = world.store.batches.summary("counts").batches
    world.publish(1)
    wait_for("one more batch", lambda: world.store.batches.summary("counts").batches > before, timeout=LONG)


@pytest.fixture
def up(world: Project) -> tuple[Up, DriverRecord]:
    """The command, and the driver of the stream that was unpaused in its Airflow."""
    up = Up(world, free_port())
    wait_for("the DAG", lambda: up.server.has_dag("stream_counts"), timeout=LONG)
    up.server.unpause("stream_counts")
    driver = wait_for("the driver", lambda: running(world), timeout=LONG, explain=up.text)
    commits_more(world)
    return up, driver


@pytest.mark.full  # in the first tier processes/test_marked_processes ends what a killed process left
def test_up_that_is_killed_leaves_the_driver_to_the_next_one(world: Project, up: tuple[Up, DriverRecord]) -> None:
    command, driver = up
    command.process.kill()
    command.process.wait()
    commits_more(world)
    Up(world, command.port)
    again = running(world)
    assert again is not None
    assert again.driver_id == driver.driver_id


def test_a_project_from_up_to_its_end(world: Project, up: tuple[Up, DriverRecord]) -> None:
    command, driver = up
    scheduler = world.data / "airflow" / "components" / "airflow-scheduler.log"
    starts = len(re.findall("Starting the scheduler", scheduler.read_text()))
    os.kill(scheduler_of(command), signal.SIGKILL)
    wait_for("the news", lambda: "scheduler was killed by SIGKILL" in command.text(), timeout=30, explain=command.text)
    wait_for(
        "its restart",
        lambda: len(re.findall("Starting the scheduler", scheduler.read_text())) > starts,
        timeout=LONG,
        explain=command.text,
    )
    commits_more(world)
    again = running(world)
    assert again is not None
    assert again.driver_id == driver.driver_id

    command.process.terminate()
    assert command.process.wait(120) == 0, command.text()
    ended = world.store.drivers.latest("counts")
    assert ended is not None
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.STOPPED
    assert MarkedProcesses(world.data, world.data).living() == []
    assert world.store.airflow_servers.newest(since=0.0) is None, "a start after `up` must not ask for its Airflow"
    desired = world.store.stops.desired("counts")
    assert desired is None or desired.desired.value == "running"


def scheduler_of(up: Up) -> int:
    """The main process: a child of `up`."""
    children = subprocess.run(["pgrep", "-P", str(up.process.pid)], capture_output=True, text=True, check=True).stdout
    (pid,) = (each for each in map(int, children.split()) if "scheduler" in commands()[each])
    return pid
