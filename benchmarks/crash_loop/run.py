"""A stream that is killed again and again right after its start: how long its first batch takes, at first and later.

Each driver of a stream with RocksDB state (a count for each of 50,000 keys, all of which change in each batch) is
killed by SIGKILL when it has committed one batch, or some seconds later, and is started again. A start loads the newest
snapshot of the state and replays every batch that was committed since, its debt. The variants take turns, so that a
slow minute hits all of them. A restart's seconds are from its launch to its first commit, and from the plan of that
batch to its commit, which has the loading of the state in it.

    python benchmarks/crash_loop/run.py [--restarts 30] [--after 0] [--variants ours spark]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamwarden.adapters.storage.files import open_path
from streamwarden.adapters.store import Store
from streamwarden.checkpoint.diagnosis.report import read_checkpoint
from streamwarden.checkpoint.formats.layout import COMMITS, OFFSETS
from streamwarden.checkpoint.formats.logs import log_position, written_at
from streamwarden.lifecycle.settings import DELTAS, MAINTENANCE
from streamwarden.lifecycle.submission import MAINTENANCE_INTERVAL
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

KEYS: Final = 50_000
PATIENCE: Final = 180.0
COMPARED: Final = 3
"""Restarts at the begin and at the end whose medians are compared."""
GOAL: Final = 1.1

JOB: Final = """
from pyspark.sql import functions as F

from streamwarden.spark.sources import read_rows


def build(spark, spec):
    rows = read_rows(spark, spec, "key INT, at TIMESTAMP").withWatermark("at", "10 seconds")
    return rows.groupBy(F.window("at", "1 day"), "key").agg(F.count("*").alias("n"))
"""

C1: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
VARIANTS: Final = {
    "ours": {},
    "spark": {MAINTENANCE: "60s", DELTAS: "10"},
    "even": {MAINTENANCE: MAINTENANCE_INTERVAL},
}
"""Settings of the state store in addition to those that Streamwarden derives. `spark`: Spark's defaults; `even`: the
same interval of uploads in each life."""


@dataclass(frozen=True, slots=True)
class Life:
    """One driver: versions of the state that it replayed, seconds to its first commit, and those of that batch."""

    debt: int
    start: float
    batch: float


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--restarts", type=int, default=30)
    options.add_argument("--after", type=float, default=0.0, help="seconds from the first commit to the kill")
    options.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="crash-loop-") as folder:
        streams = {name: Loop(Path(folder) / name, VARIANTS[name], given.restarts) for name in given.variants}
        lives: dict[str, list[Life]] = {name: [] for name in streams}
        for number in range(given.restarts + 1):
            for name, stream in streams.items():
                lives[name].append(stream.live(given.after))
                print(f"{name} {number}: {lives[name][-1]}", file=sys.stderr, flush=True)
    print(report({name: each[1:] for name, each in lives.items()}))  # the first driver found no state
    return 0


class Loop:
    """A project with the stream, whose drivers live for one batch."""

    def __init__(self, root: Path, settings: dict[str, str], restarts: int) -> None:
        self.data = root / "var"
        (self.data / "input").mkdir(parents=True)
        job = root / "job.py"
        job.write_text(JOB)
        self._publish(2 * restarts + 20)
        self.spec = StreamSpec(
            name="loop",
            job=str(job),
            checkpoint=str(self.data / "checkpoint"),
            source=FilesSource(path=str(self.data / "input"), max_files_per_trigger=1),
            sink=ParquetSink(path=str(self.data / "output")),
            trigger=TriggerSpec(processing_time=3600.0),  # one batch, at once: no life plans a second one
            state=StateSpec(shuffle_partitions=2),
            spark=SparkSpec(driver_memory=2**30, conf=C1 | settings),
            project=str(root),
        )
        self.store = Store(f"sqlite:///{self.data / 'store.db'}", busy_timeout=30)
        self.store.migrate()
        self.fleet = Fleet(self.store, self.data)

    def _publish(self, files: int) -> None:
        """The same rows under many names."""
        first = self.data / "rows.json"
        first.write_text("".join(json.dumps({"key": key, "at": "2026-01-01T00:00:00Z"}) + "\n" for key in range(KEYS)))
        for number in range(files):
            os.link(first, self.data / "input" / f"{number:04d}.json")

    def live(self, after: float) -> Life:
        """Start a driver, and kill it after its first commit."""
        debt, before = self.debt(), self.committed()
        record = self.fleet.start(self.spec, launched_by="benchmark").record
        deadline = time.monotonic() + PATIENCE
        while self.committed() == before:
            if time.monotonic() > deadline or self.fleet.observe(record.driver_id).exit is not None:
                raise SystemExit(f"no batch: {self.fleet.log_path(record.driver_id).read_text()[-2000:]}")
            time.sleep(0.02)
        time.sleep(after)
        self.fleet.kill(record.driver_id)
        self.fleet.wait(record.driver_id, timeout=PATIENCE)
        planned, committed = (self._at(log, before + 1) for log in (OFFSETS, COMMITS))
        return Life(debt, committed - record.launched_at, committed - planned)

    def _at(self, log: str, batch: int) -> float:
        at = written_at(open_path(self.spec.checkpoint), log, batch)
        assert at is not None
        return at

    def committed(self) -> int:
        committed = log_position(open_path(self.spec.checkpoint)).committed
        return -1 if committed is None else committed

    def debt(self) -> int:
        """The most versions that a store of the state has to replay."""
        if not Path(self.spec.checkpoint).exists():
            return 0
        return max(store.replay.versions for store in read_checkpoint(open_path(self.spec.checkpoint)).stores)


def report(lives: dict[str, list[Life]]) -> str:
    """Markdown: the first and the last restarts of each variant, and the ratio of their medians."""
    heads = ["restarts", "debt at the first and the last", "the most", "to the first commit", "its batch", "ratio"]
    lines = [f"| {' | '.join(['', *heads])} |", f"|{'---|' * (len(heads) + 1)}"]
    for name, each in lives.items():
        few = min(COMPARED, len(each))
        first, last = each[:few], each[-few:]
        starts, batches = (
            [statistics.median(getattr(life, what) for life in some) for some in (first, last)]
            for what in ("start", "batch")
        )
        cells = [
            len(each),
            f"{each[0].debt}, {each[-1].debt}",
            max(life.debt for life in each),
            f"{starts[0]:.2f} s, {starts[1]:.2f} s",
            f"{batches[0]:.2f} s, {batches[1]:.2f} s",
            f"{starts[1] / starts[0]:.2f}, its batch {batches[1] / batches[0]:.2f}",
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return "\n".join([*lines, "", f"medians of {COMPARED} restarts; goal: {GOAL}; load of a core now: {load:.1f}"])


if __name__ == "__main__":
    sys.exit(main())
