"""One round of the health checks over checkpoints on a disk and a large store."""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.services.monitoring.health_monitor import HealthMonitor
from streamwarden.sources.files import FilesSource

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import simulated
from benchmarks.scale.part import Part, Sizes, child, peak_memory, verdict

GOAL = 10.0
BATCHES = 300
"""Newest batches of a stream with a report; of the older ones the store has the numbers alone, which saves 20 GB."""


def measure(sizes: Sizes) -> Iterator[str]:
    """The second round of each size, in a process of its own: the first one opens the incidents."""
    for streams in sizes.streams:
        with tempfile.TemporaryDirectory() as folder:
            rows = fill(Path(folder), streams, sizes.rows // 1000)
            found = child(Path(__file__), folder, streams)
        wall, cpu, memory = found["wall"], found["cpu"], found["memory"]
        told, each = verdict(wall, GOAL, streams), wall * 1e3 / streams
        costs = f"{wall:.2f} s | {cpu:.2f} s | {each:.1f} ms | {memory / 1e6:.0f} MB"
        yield f"| {streams:,} | {rows:,} | {costs} | {told} |"


def fill(folder: Path, streams: int, each: int) -> int:
    """Checkpoints and a store; the number of its batches."""
    with Store(url(folder)) as store:
        store.migrate()
        for number in range(streams):
            window = simulated.make_window(number, min(BATCHES, each))
            simulated.lay_out(folder, window)
            store.batches.upsert_many(window.spec.name, (b.progress for b in window.batches if b.progress is not None))
            store.drivers.launched(window.drivers[0])
            store.measurements.add(window.measurements)
    with closing(sqlite3.connect(folder / "store.db")) as connection, connection:
        for number in range(streams):
            connection.execute(
                "WITH RECURSIVE older(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM older WHERE n < ?) "
                "INSERT INTO batches "
                "(stream, query_id, batch_id, run_id, at, started_at, executed, duration_ms, rows, origin) "
                "SELECT ?, 'older', n, 'r', ? - 10.0 * n, ? - 10.0 * n, 1, 900, 5000, 'progress' FROM older",
                (each - BATCHES, f"stream_{number}", *[simulated.NOW - simulated.STEP * BATCHES] * 2),
            )
        (rows,) = connection.execute("SELECT count(*) FROM batches").fetchone()
    return int(rows)


def url(folder: Path) -> str:
    """The store's."""
    return f"sqlite:///{folder}/store.db"


def evaluate(folder: Path, streams: int) -> None:
    """Print what the second round took."""
    specs = [replace(simulated.make_window(n, 1).spec, checkpoint=str(folder / f"stream_{n}")) for n in range(streams)]
    sources = [FilesSource(path=str(simulated.input_of(Path(spec.checkpoint)))) for spec in specs]
    specs = [replace(spec, source=source) for spec, source in zip(specs, sources, strict=True)]
    with Store(url(folder)) as store:
        for minute in range(2):
            wall, cpu = time.monotonic(), time.process_time()
            HealthMonitor(store, alive=lambda process: True).evaluate(specs, simulated.NOW + 60.0 * minute)
            took = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu, "memory": peak_memory()}
    print(json.dumps(took))


PART = Part(
    name="evaluation",
    goal=f"A round of the health checks with its reading and writing, SQLite; goal: {GOAL:.0f} s for 1,000 streams",
    head="| streams | batches in the store | round | CPU | a stream | memory | goal |",
    measure=measure,
)

if __name__ == "__main__":
    evaluate(Path(sys.argv[1]), int(sys.argv[2]))
