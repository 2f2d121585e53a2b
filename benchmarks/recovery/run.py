"""How long a stream is without a commit after `kill -9`: through Airflow and through `streamwarden start --supervise`.

Real drivers of a small stateful stream that reads a file each half second. In each round the driver's process is killed
as it works, and the round ends with the first batch that the next driver commits. Each failure is the first after a
healthy life, so no back-off is in it. What the driver needs from its process's first moment to that commit is Spark's
start and no supervisor's; what comes before it is ours, and split:

- noticed: from the kill until the supervisor sees the end. Through Airflow that is the moment in which the trigger
  fires; the other way, the moment in which the end is in the store.
- decided: until a launch has claimed the checkpoint. Through Airflow the task has to be woken for it.
- launched: until the driver's process is there.

Airflow runs with a SQLite database and with its own default settings. The two ways are measured one after the other.

    python benchmarks/recovery/run.py [--rounds 5] [--goal 3] [supervise] [airflow]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
GOAL = 3.0
"""Seconds beyond the driver's own start."""

PATIENCE = 240.0
"""Seconds after which a driver that does not commit, or a DAG that is not there, is given up."""

HEALTHY = 5.0
"""Seconds of a query's life that forgive the failure before it, so that each kill is a first failure."""

STREAM = """
name: counted
job: spark_jobs/counting.py
source: {{kind: files, path: input/counted, format: json}}
sink: {{kind: parquet, path: output/counted}}
checkpoint: checkpoints/counted
trigger: {{processing_time: 500 ms}}
state: {{shuffle_partitions: 2}}
restart: {{initial: 5m, cap: 10m, budget: 1000 per hour, healthy_after: {healthy:g}s}}
spark: {{master: "local[2]", driver_memory: 1 GB}}
"""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The moments of one recovery, in Unix seconds."""

    killed: float
    noticed: float
    claimed: float
    process: float
    query: float
    committed: float

    @property
    def total(self) -> float:
        return self.committed - self.killed

    @property
    def ours(self) -> float:
        """What a supervisor added to the driver's own start."""
        return self.process - self.killed

    def stages(self) -> tuple[float, ...]:
        """Noticed, decided, launched, the query's start, the first batch: seconds."""
        moments = (self.killed, self.noticed, self.claimed, self.process, self.query, self.committed)
        return tuple(later - earlier for earlier, later in pairwise(moments))


T = TypeVar("T")
Noticed = Callable[[str], float | None]
"""When the supervisor saw the end of a driver; None: not yet. It is asked often."""


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("ways", nargs="*", help=f"of {', '.join(WAYS)}; default: all")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--goal", type=float, default=GOAL, help="seconds beyond the driver's own start")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    ways = chosen.ways or list(WAYS)
    if unknown := set(ways) - set(WAYS):
        options.error(f"{', '.join(sorted(unknown))}: neither of {', '.join(WAYS)}")
    sys.path.append(str(REPOSITORY / "tests"))
    measured: dict[str, list[Recovery]] = {}
    for way in ways:
        with tempfile.TemporaryDirectory(prefix="recovery-") as folder:
            measured[way] = recoveries(way, Path(folder), chosen.rounds)
    print(report(measured, chosen.goal))
    return 0


def recoveries(way: str, root: Path, rounds: int) -> list[Recovery]:
    """Kill the driver `rounds` times under this supervisor."""
    from support.airflow.project import Producer, make_project

    project = make_project(root / "project")
    (project / "config/streams/counted.yaml").write_text(STREAM.format(healthy=HEALTHY))
    with Workspace.open(project, root / "data", environ={}) as space, publishing(Producer(root / "data/input/counted")):
        found = []
        with WAYS[way](space) as noticed:
            try:
                for number in range(rounds):
                    found.append(recovery(space, noticed))
                    stages = "  ".join(f"{stage:.2f}" for stage in found[-1].stages())
                    print(f"{way}, round {number + 1}: {found[-1].total:.1f} s = {stages}", file=sys.stderr)
            finally:
                space.fleet.stop("counted", requested_by="benchmark", reason="done", batch_deadline=5, term_deadline=5)
    return found


def recovery(space: Workspace, noticed: Noticed) -> Recovery:
    """Wait for a healthy driver, kill it, wait for the next one's first commit."""
    before = wait_for("a driver that works", lambda: healthy(space))
    assert before.process is not None
    killed = time.time()
    os.kill(before.process.pid, signal.SIGKILL)
    seen = wait_for("the supervisor to notice", lambda: noticed(before.driver_id), poll=0.01)

    def successor() -> DriverRecord | None:
        record = space.store.drivers.latest("counted")
        return record if record is not None and record.launched_at > killed and record.started_at else None

    after = wait_for("the next driver's query", successor, poll=0.05)
    assert after.process is not None
    assert after.started_at is not None
    first = wait_for("its first commit", lambda: first_commit(space, after.launched_at), poll=0.05)
    return Recovery(killed, seen, after.launched_at, born(after.process.started_at), after.started_at, first)


def healthy(space: Workspace) -> DriverRecord | None:
    """The living driver, once its query has run for long enough and has committed a batch."""
    record = space.store.drivers.latest("counted")
    if record is None or record.exit is not None or record.started_at is None:
        return None
    long_enough = time.time() - record.started_at > HEALTHY + 2
    return record if long_enough and first_commit(space, record.launched_at) else None


def first_commit(space: Workspace, since: float) -> float | None:
    """When the first batch after `since` was committed."""
    folder = space.data / "checkpoints/counted/commits"
    times = [path.stat().st_mtime for path in folder.glob("[0-9]*")] if folder.is_dir() else []
    return min((at for at in times if at > since), default=None)


def born(started_at: int) -> float:
    """Unix seconds of a process's first moment, which the kernel counts in ticks since boot."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return booted + started_at / os.sysconf("SC_CLK_TCK")


@contextmanager
def publishing(producer: Any) -> Iterator[None]:
    """A file of events each half second."""
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(0.5):
            producer.publish(1)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@contextmanager
def on_the_command_line(space: Workspace) -> Iterator[Noticed]:
    """`streamwarden start --supervise`."""
    command = [str(Path(sys.executable).with_name("streamwarden")), "start", "counted", "--supervise"]
    env = os.environ | {"STREAMWARDEN_PROJECT": str(space.project), "STREAMWARDEN_DATA": str(space.data)}
    with (space.data / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(command, env=env, cwd=space.project, stdout=log, stderr=log)

    def noticed(driver_id: str) -> float | None:
        record = space.store.drivers.get(driver_id)
        return time.time() if record is not None and record.exit is not None else None

    try:
        yield noticed
    finally:
        supervisor.send_signal(signal.SIGINT)
        supervisor.wait(timeout=60)


@contextmanager
def through_airflow(space: Workspace) -> Iterator[Noticed]:
    """The stream's DAG, under all components of Airflow."""
    from support.airflow.harness import Airflow, running

    airflow = Airflow(space.project.parent / "airflow", space.project, space.data)
    for section in ("SCHEDULER", "TRIGGERER", "DAG_PROCESSOR"):  # which the tests make quicker than they are
        for name in [name for name in airflow.env if name.startswith(f"AIRFLOW__{section}__")]:
            del airflow.env[name]
    airflow.env.pop("JDK_JAVA_OPTIONS", None)
    logs = airflow.home / "logs" / "dag_id=stream_counted"

    def noticed(driver_id: str) -> float | None:
        lines = (line for path in logs.rglob("*.trigger.*") for line in path.read_text().splitlines())
        return next((at for line in lines if (at := fired_at(line, driver_id))), None)

    with running(airflow):
        wait_for("the stream's DAG", lambda: "stream_counted" in airflow.dag_ids(), poll=1)
        airflow.pause("stream_counted", False)
        yield noticed
        airflow.pause("stream_counted", True)


def fired_at(line: str, driver_id: str) -> float | None:
    """When the trigger of this driver fired, if this line of its log says so."""
    if "fired" not in line or driver_id not in line:
        return None
    try:
        stamp = str(json.loads(line)["timestamp"])
    except (ValueError, KeyError):
        return None
    return datetime.fromisoformat(re.sub("Z$", "+00:00", stamp)).timestamp()


WAYS = {"supervise": on_the_command_line, "airflow": through_airflow}


def wait_for(what: str, condition: Callable[[], T | None], *, poll: float = 0.25) -> T:
    """Poll until there is something. Raises SystemExit after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while (found := condition()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"after {PATIENCE:.0f} s still waiting for: {what}")
        time.sleep(poll)
    return found


def report(measured: dict[str, list[Recovery]], goal: float) -> str:
    """Markdown: medians of the stages, and what is ours of the whole."""
    lines = [
        "| kill -9 to the first new commit | median | least | most | noticed | decided | launched | query started "
        "| first batch | the driver's own start | beyond it |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for way, found in measured.items():
        totals = [each.total for each in found]
        stages = [statistics.median(values) for values in zip(*(each.stages() for each in found), strict=True)]
        own = statistics.median(each.total - each.ours for each in found)
        cells = [statistics.median(totals), min(totals), max(totals), *stages, own]
        ours = statistics.median(each.ours for each in found)
        verdict = "met" if ours <= goal else "missed"
        lines.append(
            f"| {way}, {len(found)} rounds | "
            + " | ".join(f"{cell:.1f} s" for cell in cells)
            + f" | {ours:.1f} s (goal {goal:g} s: {verdict}) |"
        )
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return "\n".join([*lines, "", f"load of a core now: {load:.1f}"])


if __name__ == "__main__":
    sys.exit(main())
