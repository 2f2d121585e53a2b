"""Memory and processor time of small streams: in the JVM of one group, and each in a JVM of its own.

The streams read the same folder, which gets a file of 20 rows every two seconds, and count windows of it. Both ways are
measured one after the other, each once every stream has committed some batches. Run it on a quiet machine, after
`streamwarden prepare`.

    python benchmarks/groups/run.py [--streams 10] [--seconds 60] [--memory 512]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from streamwarden.adapters import processes
from streamwarden.adapters.store import Store
from streamwarden.lifecycle import driver_folder as files
from streamwarden.lifecycle.driver import ProcessIdentity
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

PATIENCE: Final = 300.0
SETTLED: Final = 5
"""Batches of each stream before the measurement begins."""

TICK: Final = os.sysconf("SC_CLK_TCK")
T = TypeVar("T")

JOB = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "key INT, at TIMESTAMP").withWatermark("at", "10 seconds")
    return rows.groupBy(F.window("at", "10 seconds"), "key").agg(F.count("*").alias("n"))
"""


@dataclass(frozen=True)
class Cost:
    """Of all streams together: seconds until each had committed a batch, proportional memory, seconds of a processor in
    each second, batches a second; and how many processes there were."""

    started: float
    memory: int
    processor: float
    batches: float
    processes: int


def main() -> int:
    """Parse the options, measure both ways, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--streams", type=int, default=10)
    options.add_argument("--seconds", type=float, default=60.0, help="length of each measurement")
    options.add_argument("--memory", type=int, default=512, help="MiB of heap of each JVM")
    chosen = options.parse_args()
    costs = {}
    for way, group in ("one group", "small"), ("a JVM each", None):
        with tempfile.TemporaryDirectory(prefix="groups-") as folder, home(Path(folder)) as made:
            costs[way] = made.cost(chosen.streams, group, chosen.memory, chosen.seconds)
    print(report(costs, chosen.streams))
    return 0


class Home:
    """A project with small streams."""

    def __init__(self, root: Path) -> None:
        self.root, self.data = root, root / "var"
        (self.data / "input").mkdir(parents=True)
        (root / "job.py").write_text(JOB)
        self.store = Store(f"sqlite:///{self.data / 'streamwarden.db'}", busy_timeout=60)
        self.store.migrate()
        self.fleet = Fleet(self.store, self.data)

    def cost(self, count: int, group: str | None, memory: int, seconds: float) -> Cost:
        specs = [self.spec(f"stream_{number}", group, memory) for number in range(count)]
        with self.producing():
            began = time.monotonic()
            for spec in specs:
                self.fleet.start(spec, launched_by="benchmark")
            until("a batch of each stream", lambda: all(committed(spec) for spec in specs))
            started = time.monotonic() - began
            until("some batches of each", lambda: all(committed(spec) >= SETTLED for spec in specs))
            before, at = (self.processor(), sum(map(committed, specs))), time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - at
            after = self.processor(), sum(map(committed, specs))
            pids = self.pids()
            cost = Cost(
                started=started,
                memory=sum(map(proportional, pids)),
                processor=(after[0] - before[0]) / took,
                batches=(after[1] - before[1]) / took,
                processes=len(pids),
            )
        for spec in specs:
            self.fleet.stop(spec.name, requested_by="benchmark", reason="measured")
        return cost

    def spec(self, name: str, group: str | None, memory: int) -> StreamSpec:
        return StreamSpec(
            name=name,
            job=str(self.root / "job.py"),
            checkpoint=str(self.data / "checkpoints" / name),
            source=FilesSource(path=str(self.data / "input"), format="json", max_files_per_trigger=1),
            sink=ParquetSink(path=str(self.data / "output" / name)),
            trigger=TriggerSpec(processing_time=2.0),
            state=StateSpec(shuffle_partitions=1),
            spark=SparkSpec(master="local[2]", driver_memory=memory * 2**20),
            group=group,
            project=str(self.root),
        )

    def roots(self) -> list[ProcessIdentity]:
        """The drivers, the JVMs of groups, and the supervisor processes of both."""
        folders = [*self.data.glob("drivers/*/*"), *self.data.glob("groups/*/*")]
        found = [files.read_process(folder) for folder in folders]
        keepers = [files.read_document(folder / files.SUPERVISOR) for folder in folders]
        found += [ProcessIdentity(**document) for document in keepers if document]
        return [process for process in found if process is not None and processes.is_alive(process)]

    def pids(self) -> set[int]:
        return {pid for process in self.roots() for pid in processes.tree(process.pid)}

    def processor(self) -> float:
        """Seconds of a processor that all of them have used, with the children that have ended."""
        return sum(map(used, self.pids()))

    @contextmanager
    def producing(self) -> Iterator[None]:
        """A file is published every two seconds in this block."""
        ended = threading.Event()

        def run() -> None:
            number = 0
            while not ended.wait(2.0):
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

    def close(self) -> None:
        for process in self.roots():
            processes.signal_group(process, signal.SIGKILL)
        until("the end of all processes", lambda: not self.roots())
        self.store.close()


@contextmanager
def home(root: Path) -> Iterator[Home]:
    """A project, whose processes end with this block."""
    made = Home(root)
    try:
        yield made
    finally:
        made.close()


def committed(spec: StreamSpec) -> int:
    """Batches that the stream has committed; Spark keeps the files of the newest hundred at least."""
    commits = Path(spec.checkpoint) / "commits"
    numbers = [int(path.name) for path in commits.glob("[0-9]*")] if commits.is_dir() else []
    return max(numbers, default=-1) + 1


def proportional(pid: int) -> int:
    """Memory of a process; what several processes share counts in equal parts. 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def used(pid: int) -> float:
    """Seconds of a processor that the process has used, with its children that have ended. 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK


def until(what: str, condition: Callable[[], T | None]) -> T:
    """Wait for the condition, and return what it returned."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.1)
    raise SystemExit(f"after {PATIENCE:.0f} s still not: {what}")


def report(costs: dict[str, Cost], count: int) -> str:
    """Markdown: both ways, and what the group is of the other one."""
    lines = [
        f"| {count} small streams | memory | of a processor | batches/s | until all worked | processes |",
        "|---|---|---|---|---|---|",
    ]
    for way, cost in costs.items():
        shown = f"{cost.memory / 1e9:.2f} GB | {cost.processor:.2f} | {cost.batches:.1f} | {cost.started:.0f} s"
        lines.append(f"| {way} | {shown} | {cost.processes} |")
    one, each = costs.values()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    ratios = (
        f"the group needs {one.memory / each.memory:.2f} of the memory, and a batch of it "
        f"{(one.processor / one.batches) / (each.processor / each.batches):.2f} of the processor time; "
        f"{one.memory / count / 1e6:.0f} MB and {each.memory / count / 1e6:.0f} MB a stream; load of a core: {load:.1f}"
    )
    return "\n".join([*lines, "", ratios])


if __name__ == "__main__":
    raise SystemExit(main())
