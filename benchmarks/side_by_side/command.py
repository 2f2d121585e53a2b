"""The command line: install what is missing, make each job's input once, run each contender on it, print the tables."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.side_by_side.contender import Contender
from benchmarks.side_by_side.figures import Measured
from benchmarks.side_by_side.jobs.registry import JOBS
from benchmarks.side_by_side.measuring import DidNotFinish, Input, Load, make_input, measure
from benchmarks.side_by_side.registry import CONTENDERS
from benchmarks.side_by_side.table import table

from streamwarden.errors import StreamwardenError

FULL = Load(before=200_000, rate=1_000, seconds=40, batch=20_000, patience=240)
QUICK = Load(before=20_000, rate=500, seconds=16, batch=5_000, patience=60)


def main(description: str) -> int:
    """Parse the options, measure, print one table for each job."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    options.add_argument("--peers", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    options.add_argument("--quick", action="store_true", help="a tenth of the input: the figures mean little")
    options.add_argument("--install", action="store_true", help="install the peers, and end")
    options.add_argument("--keep", type=Path, help="a folder for logs and outputs; default: a temporary one")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped then, too
    installed = {name: install(CONTENDERS[name]) for name in chosen.peers}
    if chosen.install:
        return 1 if any(installed.values()) else 0
    with tempfile.TemporaryDirectory(prefix="side-by-side-") as folder:
        compare(chosen.jobs, installed, QUICK if chosen.quick else FULL, chosen.keep or Path(folder))
    return 0


def install(contender: Contender) -> str | None:
    """Why it cannot be had; None if it is there."""
    try:
        contender.install()
    except StreamwardenError as error:
        print(f"{contender.name}: {error}", file=sys.stderr)
        return f"not installed: {error.observed}"
    return None


def compare(jobs: Sequence[str], installed: dict[str, str | None], load: Load, root: Path) -> None:
    """All jobs on one broker."""
    from support.servers.kafka_broker import broker

    root.mkdir(parents=True, exist_ok=True)
    with broker() as kafka:
        for job in jobs:
            given = load.of(JOBS[job])
            made = make_input(JOBS[job], JOBS[job].lines(given.records), root)
            rows = [
                (CONTENDERS[name].name, missing or figures(name, made, given, kafka, root))
                for name, missing in installed.items()
            ]
            print(f"\n### `{job}`\n\n{table(rows)}\n\n{footnote(made, given)}", flush=True)


def figures(name: str, made: Input, load: Load, kafka: object, root: Path) -> Measured | str:
    """Those of one run, or why there are none."""
    contender = CONTENDERS[name]
    if (reason := contender.cannot(made.job)) is not None:
        return reason
    try:
        found = measure(contender, made, load, kafka, root / f"{made.job.name}-{name}")
    except DidNotFinish as error:
        return str(error)
    print(table([(contender.name, found)]).splitlines()[-1], file=sys.stderr, flush=True)
    return found


def footnote(made: Input, load: Load) -> str:
    """What the input was, and what else the machine did."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return (
        f"{load.before:,} records at once, then {load.rate:,} a second for {load.seconds} s, {made.job.partitions} "
        f"partitions; {len(made.expected):,} rows expected; load of a core at the end: {busy:.1f}"
    )
