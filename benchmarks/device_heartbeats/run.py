"""How many active sessions one driver keeps up with: the batches of `device_heartbeats` in which all of them beat.

A real driver (launcher, supervisor process, spark-submit, runner) of the job on two cores and four partitions. All
sessions begin in one file; then each batch writes a heartbeat of each session, with the interval and the trigger both
at `--interval`. Timed are the batches after the first three, from trigger to commit, and divided by the rows that came
out in them: that rate, for 30 seconds, is the ceiling. In the last run each session has a reading between two
heartbeats, too.

    python benchmarks/device_heartbeats/run.py [--interval 12] [--beats 3] [--sessions 10000 50000] [--each 10]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.progress import Progress
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.sinks.files.output import read_output
from streamwarden.sinks.parquet import ParquetSink
from streamwarden.sources.files import FilesSource
from streamwarden.stream.spark import SparkSpec
from streamwarden.stream.spec import StateSpec, StreamSpec, TriggerSpec

REPOSITORY = Path(__file__).resolve().parents[2]
JOB = REPOSITORY / "spark_jobs/device_heartbeats.py"
DEADLINE = 30
"""Seconds between two heartbeats that the ceiling is for."""


@dataclass(frozen=True)
class Load:
    """What the driver has to do."""

    sessions: int
    each: int
    busy: bool

    def readings(self) -> Iterator[str]:
        """One line for each session; `each` of them are on one device."""
        for number in range(self.sessions):
            device, session = divmod(number, self.each)
            yield json.dumps({"device_id": f"d-{device}", "session_id": f"s-{session}", "state": "on"})


@dataclass(frozen=True)
class Beat:
    """A batch in which heartbeats came out."""

    rows: int
    seconds: float


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--interval", type=int, default=12, help="seconds between two heartbeats, and two batches")
    options.add_argument("--beats", type=int, default=3)
    options.add_argument("--sessions", type=int, nargs="+", default=[10_000, 50_000])
    options.add_argument("--each", type=int, default=10, help="sessions a device")
    chosen = options.parse_args()
    quiet = [Load(sessions, chosen.each, busy=False) for sessions in chosen.sessions]
    loads = [*quiet, Load(chosen.sessions[0], chosen.each, busy=True)]
    with tempfile.TemporaryDirectory(prefix="device-heartbeats-") as folder:
        measured = [
            (load, beats(load, Path(folder) / str(number), chosen.interval, chosen.beats))
            for number, load in enumerate(loads)
        ]
    print(report(measured))
    return 0


def beats(load: Load, root: Path, interval: int, count: int) -> list[Beat]:
    """Run one driver until it has written `count` heartbeats of each session after the first two."""
    data = root / "var"
    source = data / "input"
    source.mkdir(parents=True)
    spec = StreamSpec(
        name="beating",
        job=str(JOB),
        checkpoint=str(data / "checkpoint"),
        args=(f"heartbeat={interval}s", "inactive=1h"),
        source=FilesSource(path=str(source)),
        sink=ParquetSink(path=str(data / "output")),
        quarantine=str(data / "quarantine"),
        trigger=TriggerSpec(processing_time=float(interval)),
        state=StateSpec(shuffle_partitions=4),
        spark=SparkSpec(driver_memory=2**30),
        project=str(REPOSITORY),
    )
    publish(load, source, 0)
    with driving(spec, data) as store:
        done: list[Progress] = []
        published = 0
        deadline = time.monotonic() + interval * (count + 3) * 4 + 90
        while len(done) < count + 3:  # the readings, two beats to warm up, and those that count
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(done)} batches of {load} after all this time")
            time.sleep(0.2)
            done = [batch.progress for batch in store.batches.window(spec.name) if batch.progress is not None]
            if load.busy and len(done) > published:
                published = len(done)
                publish(load, source, published)
    rows = read_output(Path(str(spec.sink.path))).keyed(("at",), ("kind",))
    beats = [at.timestamp() for (at,), kind in rows if kind == ("HEARTBEAT",) and isinstance(at, datetime)]
    return [
        Beat(sum(before.at <= at < batch.at for at in beats), batch.duration_ms / 1000)
        for before, batch in pairwise(done[2:])
    ]


def publish(load: Load, source: Path, number: int) -> None:
    """One file with a reading of each session."""
    hidden = source / f".{number}"
    hidden.write_text("".join(f"{line}\n" for line in load.readings()))
    hidden.rename(source / f"{number}.json")


@contextmanager
def driving(spec: StreamSpec, data: Path) -> Iterator[Store]:
    """A driver of the stream; it is stopped in the end."""
    with Store(f"sqlite:///{data / 'store.db'}") as store:
        store.migrate()
        fleet = Fleet(store, data)
        fleet.start(spec, launched_by="benchmark")
        try:
            yield store
        finally:
            fleet.stop(spec.name, requested_by="benchmark", reason="done")


def report(measured: list[tuple[Load, list[Beat]]]) -> str:
    """Markdown: one line a run, and the ceiling."""
    lines = ["| sessions | devices | readings between | a batch of heartbeats | heartbeats a second | fit into 30 s |"]
    lines.append("|---|---|---|---|---|---|")
    for load, timed in measured:
        seconds = statistics.median(beat.seconds for beat in timed)
        rate = statistics.median(beat.rows / beat.seconds for beat in timed)
        between = "one a session" if load.busy else "none"
        devices = load.sessions // load.each
        fit = round(rate * DEADLINE, -3)
        lines.append(f"| {load.sessions:,} | {devices:,} | {between} | {seconds:.1f} s | {rate:,.0f} | {fit:,.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
