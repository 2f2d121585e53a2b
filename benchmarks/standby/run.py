"""From the SIGKILL of a driver to the first new commit of its stream: with a warm standby, and with a cold start.

One small stateful stream under `streamwarden start --supervise`. Each round kills its driver twice: once while a
standby waits, once right after the standby was dismissed, so that the same supervisor starts a process. Run it on a
quiet machine, after `streamwarden prepare`. The end is the time of the commit's file. Ctrl-C shows the rounds so far.

    python benchmarks/standby/run.py [--rounds 20] [--c1]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import DriverRecord
from streamwarden.services.fleet.standbys.waiting import WaitingStandby, dismiss, waiting

NAME: Final = "taken_over"
PATIENCE: Final = 180.0
T = TypeVar("T")

JOB = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "key INT, at TIMESTAMP").withWatermark("at", "10 seconds")
    return rows.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("*").alias("n"))
"""

STREAM = """
name: taken_over
job: job.py
source: {kind: files, path: input, format: json, max_files_per_trigger: 1}
sink: {kind: parquet, path: output}
checkpoint: checkpoint
trigger: {processing_time: 500 ms}
state: {shuffle_partitions: 2}
standby: warm
restart: {initial: 1s, cap: 1s, budget: 1000 per hour, healthy_after: 1s}
spark: {master: "local[2]", driver_memory: 1 GB, conf: {CONF}}
"""
C1 = '"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"'


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--c1", action="store_true", help="the JVM compiles cheaply")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="standby-") as folder:
        home = Home(Path(folder), STREAM.replace("CONF", C1 if chosen.c1 else ""))
        taken: list[tuple[float, float]] = []
        with home.producing(), home.supervised(), contextlib.suppress(KeyboardInterrupt):
            for number in range(chosen.rounds):
                taken.append(home.round(number))
    print(report(taken, home.idle) if taken else "no round ended")
    return 0


class Home:
    """A project with one stream."""

    def __init__(self, root: Path, stream: str) -> None:
        self.root, self.data = root, root / "var"
        (self.data / "input").mkdir(parents=True)
        (root / "config" / "streams").mkdir(parents=True)
        (root / "config" / "streams" / f"{NAME}.yaml").write_text(stream)
        (root / "job.py").write_text(JOB)
        self.store = Store(f"sqlite:///{self.data / 'streamwarden.db'}", busy_timeout=30)
        self.store.migrate()
        self.idle: list[int] = []

    @contextmanager
    def producing(self) -> Iterator[None]:
        """A file is published four times a second in this block."""
        ended = threading.Event()

        def run() -> None:
            number = 0
            while not ended.wait(0.25):
                second = f"{number // 60 % 60:02d}:{number % 60:02d}"
                rows = [json.dumps({"key": key, "at": f"2026-01-01T00:{second}Z"}) for key in range(20)]
                part = self.data / f".{number}"
                part.write_text("\n".join(rows) + "\n")
                part.rename(self.data / "input" / f"{number:06d}.json")
                number += 1

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """The stream runs under `start --supervise`; it is stopped at the end."""
        command = [str(Path(sys.executable).with_name("streamwarden")), "--project", str(self.root)]
        with (self.root / "supervisor.log").open("wb") as log:
            supervisor = subprocess.Popen([*command, "start", NAME, "--supervise"], stdout=log, stderr=log)
            try:
                yield
            finally:
                supervisor.terminate()  # a background shell has it ignore SIGINT
                supervisor.wait()
                subprocess.run([*command, "stop", NAME], stdout=subprocess.DEVNULL, check=False)
                self.store.close()

    def round(self, number: int) -> tuple[float, float]:
        """Seconds with a standby and without one; the order changes from round to round."""
        order = (False, True) if number % 2 else (True, False)
        took = {warm: self.kill(warm=warm) for warm in order}
        print(f"round {number}: warm {took[True]:.2f} s, cold {took[False]:.2f} s", flush=True)
        return took[True], took[False]

    def kill(self, *, warm: bool) -> float:
        """Kill the driver; seconds to the next commit."""
        driver = until("a driver that works, with a standby", self.ready)
        standby = self.standby()
        assert standby is not None
        assert driver.process is not None
        self.idle.append(processes.resident_bytes(standby.process) or 0)
        if not warm:
            dismiss(standby.folder)
            until("the end of the standby", lambda: not processes.is_alive(standby.process))
        killed_at = time.time()
        processes.signal_group(driver.process, signal.SIGKILL)
        return until("a new commit", lambda: self.committed_after(killed_at)) - killed_at

    def ready(self) -> DriverRecord | None:
        """The driver, once it has committed three batches and its standby waits."""
        driver, standby = self.store.drivers.latest(NAME), self.standby()
        if driver is None or driver.exit is not None or standby is None or not standby.is_ready(time.time()):
            return None
        if standby.record.leader != driver.driver_id or time.time() - (standby.answered_at or 0) > 60:
            return None
        settled = time.time() - (standby.folder / files.GO).stat().st_mtime > 5  # what it started has come to rest
        return driver if settled and self.committed_after(driver.launched_at) else None

    def standby(self) -> WaitingStandby | None:
        return next(iter(waiting(self.data / "drivers" / NAME)), None)

    def committed_after(self, at: float) -> float | None:
        """When the first batch after `at` was committed."""
        commits = self.data / "checkpoint" / "commits"
        times = [path.stat().st_mtime for path in commits.glob("[0-9]*")] if commits.is_dir() else []
        return min((time for time in times if time > at), default=None)


def until(what: str, condition: Callable[[], T | None]) -> T:
    """Wait for the condition, and return what it returned."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise SystemExit(f"after {PATIENCE:.0f} s still not: {what}")


def report(taken: list[tuple[float, float]], idle: list[int]) -> str:
    """Markdown: median, 95th percentile, and the median of the ratios within each round."""
    columns = {"warm standby": [warm for warm, _ in taken], "cold start": [cold for _, cold in taken]}
    lines = ["| from SIGKILL to the next commit | median | p95 | least | most |", "|---|---|---|---|---|"]
    for name, seconds in columns.items():
        shown = (statistics.median(seconds), p95(seconds), min(seconds), max(seconds))
        lines.append(f"| {name} | " + " | ".join(f"{value:.2f} s" for value in shown) + " |")
    ratios = [warm / cold for warm, cold in taken]
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    last = (
        f"{len(taken)} rounds; warm is {statistics.median(ratios):.2f} of cold (median of the rounds, p95 "
        f"{p95(ratios):.2f}); an idle standby has {statistics.median(idle) / 1e6:.0f} MB; load of a core: {load:.1f}"
    )
    return "\n".join([*lines, "", last])


def p95(values: list[float]) -> float:
    """The 95th percentile: the least value that so many of all do not exceed."""
    return sorted(values)[max(0, round(0.95 * len(values) + 0.5) - 1)]


if __name__ == "__main__":
    sys.exit(main())
