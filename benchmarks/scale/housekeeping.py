"""How long a driver's write takes while housekeeping rolls up and prunes."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.services.housekeeping import sweep
from streamwarden.units import DAY, HOUR

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks import simulated
from benchmarks.scale.part import Part, Sizes

GOAL: Final = 0.25
OLD: Final = 120
"""Batches of each stream that are past their retention, an hour's worth at one every 30 seconds."""
WRITES: Final = 0.02


def measure(sizes: Sizes) -> Iterator[str]:
    """Each size: writes alone, then beside housekeeping. The writer is a process of its own."""
    for streams in sizes.streams:
        with tempfile.TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/store.db", busy_timeout=30) as store:
            store.migrate()
            fill(store, streams)
            alone, (during, (took, pruned)) = beside(store.url, sizes.seconds), beside_work(store, Path(folder))
        told = "" if streams != 1000 else "met" if max(during) <= GOAL else "missed"
        yield (
            f"| {streams:,} | {pruned:,} | {took:.1f} s | {percentile(alone)} | {percentile(during)} "
            f"| {max(alone) * 1e3:.0f} ms | {max(during) * 1e3:.0f} ms | {told} |"
        )


def beside(url: str, seconds: float) -> list[float]:
    """The writes of some seconds in which nothing else happens."""
    with writing(url) as took:
        time.sleep(min(10.0, seconds))
    return took


def beside_work(store: Store, folder: Path) -> tuple[list[float], tuple[float, int]]:
    """The writes beside one run of housekeeping; its seconds, and the batches that it pruned."""
    with writing(store.url) as took:
        began = time.monotonic()
        store.roll_up(time.time())
        pruned = store.prune(time.time())
        sweep(store, folder, time.time())
        seconds = time.monotonic() - began
    return took, (seconds, pruned.batches)


@contextmanager
def writing(url: str) -> Iterator[list[float]]:
    """A process that writes; what its writes took, when it has ended."""
    took: list[float] = []
    process = subprocess.Popen(
        [sys.executable, __file__, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield took
    output, _ = process.communicate("end\n")
    took += json.loads(output)


def fill(store: Store, streams: int) -> None:
    """Batches that were stored before they became too old: housekeeping has not run for a week and an hour."""
    reports = simulated.history(time.time() - 7 * DAY - HOUR, OLD)
    for number in range(streams):
        store.batches.upsert_many(f"stream_{number}", reports)


def write(url: str) -> None:
    """Store a batch fifty times a second until a line comes; print the seconds of each write."""
    took: list[float] = []
    with Store(url, busy_timeout=30) as store:
        while not select.select([sys.stdin], [], [], WRITES)[0]:
            (report,) = simulated.history(time.time(), 1, first=len(took))
            began = time.monotonic()
            store.batches.upsert_progress("writer", report)
            took.append(time.monotonic() - began)
            if len(took) == 1:
                print("begun", flush=True)
    print(json.dumps(took))


def percentile(took: list[float]) -> str:
    """The time that 95 % of the writes take at most."""
    return f"{sorted(took)[int(len(took) * 0.95)] * 1e3:.1f} ms"


PART = Part(
    name="housekeeping",
    goal=f"A write of a driver beside housekeeping, SQLite; goal: none takes longer than {GOAL * 1e3:.0f} ms",
    head="| streams | batches pruned | housekeeping | 95 % of writes alone | beside | longest alone | beside | goal |",
    measure=measure,
)

if __name__ == "__main__":
    write(sys.argv[1])
