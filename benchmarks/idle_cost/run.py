"""What the platform costs while nothing happens: processor time and memory of its parts for 100 running streams.

    python benchmarks/idle_cost/run.py [--streams 100] [--seconds 3600]

Each part runs in a process of its own, all at the same time on one SQLite store: the triggers of the streams' tasks in
one event loop; a round of the health checks each minute, each in a new process, whose imports count; and an hour's
housekeeping at the end. A further process writes what the drivers would, a batch of each stream every ten seconds, and
is not counted. Airflow itself is not started: its own cost is not counted, nor is that of starting a task.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.idle_cost.parts import Cost, ended, fill, start

GOAL: Final = 0.1
"""Of a core, for 100 streams."""
MOST: Final = 1e9
"""Bytes, beside Airflow's own."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), chosen.streams)
        found = measured(Path(folder), chosen.streams, chosen.seconds)
    print(f"| part, {chosen.streams:,} streams, {chosen.seconds:.0f} s | share of a core | memory | imports alone |")
    print("|---|---|---|---|")
    for part, cost in found.items():
        imports = f"{cost.imports / 1e6:.0f} MB" if cost.imports else ""
        print(f"| {part} | {cost.cpu / cost.wall:.2%} | {cost.memory / 1e6:.0f} MB | {imports} |")
    share, memory = sum(cost.cpu / cost.wall for cost in found.values()), sum(cost.memory for cost in found.values())
    print(f"| together | {share:.2%} | {memory / 1e6:.0f} MB | |")
    print(
        f"\nGoals for 100 streams: {GOAL:.0%} of a core, {'met' if share <= GOAL else 'missed'}; {MOST / 1e9:.0f} GB, "
        f"{'met' if memory <= MOST else 'missed'}. Load per core: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}."
    )


def measured(folder: Path, streams: int, seconds: float) -> dict[str, Cost]:
    """The cost of each part."""
    beside = [start(part, folder, streams, seconds) for part in ("triggers", "health", "drivers")]
    triggers, health, _ = [ended(process) for process in beside]
    housekeeping = ended(start("housekeeping", folder, streams, seconds))
    return {"triggers": triggers, "health checks, with imports": health, "housekeeping": housekeeping}


if __name__ == "__main__":
    main()
