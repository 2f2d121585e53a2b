"""What the platform costs as the fleet grows, with simulated streams: no Spark runs.

    python benchmarks/scale/run.py [PART ...] [--streams 10 100 1000]

Each part is a module of this folder with a goal, and prints one row for each size of the fleet. Without a name all
parts run. `--rows` and `--seconds` make them shorter.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.scale import dag_file, evaluation, housekeeping, triggers, writes
from benchmarks.scale.part import Part, Sizes

PARTS: dict[str, Part] = {
    part.name: part for part in (dag_file.PART, evaluation.PART, triggers.PART, writes.PART, housekeeping.PART)
}


def main() -> None:
    """Run the parts and print their tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    options.add_argument("--streams", type=int, nargs="+", default=[10, 100, 1000])
    options.add_argument("--rows", type=int, default=10_000_000, help="batches in the store of a thousand streams")
    options.add_argument("--seconds", type=float, default=30.0, help="of each measurement that lasts")
    given = options.parse_args()
    for name in given.parts or PARTS:
        part = PARTS[name]
        print(f"\n{part.goal}\n\n{part.head}\n|{'---|' * (part.head.count('|') - 1)}", flush=True)
        for row in part.measure(Sizes(tuple(given.streams), given.rows, given.seconds)):
            print(row, flush=True)
    print(f"\nLoad per core: {os.getloadavg()[0] / (os.cpu_count() or 1):.1f}.")


if __name__ == "__main__":
    main()
