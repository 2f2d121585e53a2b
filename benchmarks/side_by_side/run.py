"""The jobs of the catalogue in Streamwarden and in its peers: a table for each job, and a run for each of its rows.

Each run gets the same records of a topic, and its output is compared with the oracle of the job, row by row. Most of
the input is there before the run begins: it shows the throughput. The rest is sent at a steady rate, and in the middle
of it the run is killed with SIGKILL: that shows the latency before the kill, the recovery, and the rows that were lost
or doubled.

The peers come from their packages, pinned below `programs/`, into environments of their own in the user's cache folder
(`--install` makes them and ends). Nothing of them is a requirement of Streamwarden.

    python benchmarks/side_by_side/run.py [--quick] [--install] [--jobs JOB ...] [--peers PEER ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[:0] = [str(REPOSITORY)]
    sys.path.append(str(REPOSITORY / "tests"))
    from benchmarks.side_by_side.command import main

    sys.exit(main(__doc__.split("\n")[0]))
