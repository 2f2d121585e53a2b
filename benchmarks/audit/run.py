"""What an audit costs a running stream: the durations of its batches while an audit runs, and while none does.

The stream `flight_departures` of the repository processes the flights of 2013, a file of 500 flights a batch. Its
newest 50 batches are audited again and again. The reading goes on for ten seconds, is held for ten, and so on: each
stretch with it is paired with the one without it beside it.

    python benchmarks/audit/run.py [--share 0.1]

The year is 674 files, a batch a second: when they are nearly used up, it ends.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.audit_policy import AuditSpec
from streamwarden.config.loading import load_stream
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.fleet import program
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.program import wait_gently
from streamwarden.services.replay.replay import replay
from streamwarden.sources.files import FilesSource
from streamwarden.stream import StreamSpec, TriggerSpec
from streamwarden.verification.balance import Outcome

REPOSITORY = Path(__file__).parents[2]
WARM_UP = 40
"""Batches before the first stretch: the JVM compiles its hot code in them."""
AUDITED = 50
"""Batches of an audit."""
FILES = 674
LEFT = 40
"""Files that are left over: an audit that has begun needs some to end."""
STRETCH = 10.0
"""Seconds."""
PATIENCE = 300.0


@dataclass(frozen=True)
class Stretch:
    """A time with an audit or without one, in Unix seconds."""

    began: float
    ended: float
    auditing: bool


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--share", type=float, default=AuditSpec().share)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="streamwarden-benchmark-", ignore_cleanup_errors=True) as folder:
        print(report(given.share, *measure(Path(folder), given.share)))
    return 0


def measure(data: Path, share: float) -> tuple[list[Stretch], list[float], list[tuple[float, float]]]:
    """The stretches, the seconds of reading of each audit, and (start, seconds) of each batch."""
    spec = stream(data)
    replay(Path(str(spec.source.path)), limit=336_776)
    store = Store(f"sqlite:///{data / 'streamwarden.db'}", busy_timeout=30)
    store.migrate()
    fleet = Fleet(store, data)
    fleet.start(spec, launched_by="benchmark")
    stretches: list[Stretch] = []
    program.wait_gently = partial(alternately, stretches)
    try:
        await_batches(store, spec, max(WARM_UP, AUDITED))
        audits: list[float] = []
        while len(store.batches.window(spec.name, limit=10_000)) < FILES - LEFT:
            before = len(stretches)
            found = audit(spec, last=AUDITED, share=share)
            if found.outcome is not Outcome.BALANCED:
                raise SystemExit(found.sentence)
            audits.append(sum(each.ended - each.began for each in stretches[before:] if each.auditing))
        window = store.batches.window(spec.name, limit=10_000)
        reports = [batch.progress for batch in window if batch.progress is not None and batch.progress.rows]
        return stretches, audits, [(each.at, each.durations_ms["triggerExecution"] / 1000) for each in reports]
    finally:
        fleet.stop(spec.name, requested_by="benchmark", reason="it is over")


def alternately(stretches: list[Stretch], process: subprocess.Popen[bytes], share: float, within: float) -> int:
    """Wait for the reading as an audit does, but hold it for every second stretch. Raises TimeoutExpired."""
    deadline = time.monotonic() + within
    while True:
        began = time.time()
        try:
            return wait_gently(process, share, STRETCH)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise
        finally:
            stretches.append(Stretch(began, time.time(), True))
        os.killpg(process.pid, signal.SIGSTOP)
        began = time.time()
        time.sleep(STRETCH)
        stretches.append(Stretch(began, time.time(), False))
        os.killpg(process.pid, signal.SIGCONT)


def stream(data: Path) -> StreamSpec:
    """The stream of the repository with small batches, back to back, whose logs are kept."""
    spec = load_stream(REPOSITORY / "config/streams/flight_departures.yaml", project=REPOSITORY, data=data)
    assert isinstance(spec.source, FilesSource)
    kept = {"spark.sql.streaming.minBatchesToRetain": "1000"}
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        trigger=TriggerSpec(processing_time=1.0),
        spark=replace(spec.spark, master="local[1]", conf={**spec.spark.conf, **kept}),
    )


def await_batches(store: Store, spec: StreamSpec, count: int) -> None:
    """Wait until the store has `count` more batches."""
    before, deadline = len(store.batches.window(spec.name, limit=10_000)), time.monotonic() + PATIENCE
    while len(store.batches.window(spec.name, limit=10_000)) < before + count:
        if time.monotonic() > deadline:
            raise SystemExit(f"no {count} batches within {PATIENCE:.0f} s")
        time.sleep(0.5)


def report(share: float, stretches: list[Stretch], audits: list[float], batches: list[tuple[float, float]]) -> str:
    """Markdown: the median of the pairs' ratios of means with its 95 % interval, and what it rests on."""

    def within(stretch: Stretch) -> list[float]:
        return [took for at, took in batches if stretch.began <= at and at + took <= stretch.ended]

    beside = [(within(on), within(off)) for on, off in pairwise(stretches) if on.auditing and not off.auditing]
    pairs = [(on, off) for on, off in beside if len(on) >= 5 and len(off) >= 5]
    logs = [math.log(statistics.fmean(on) / statistics.fmean(off)) for on, off in pairs]
    chance = random.Random(11)  # noqa: S311 (resampling)
    medians = sorted(statistics.median(chance.choices(logs, k=len(logs))) for _ in range(5000))
    all_on, all_off = ([took for pair in pairs for took in pair[side]] for side in (0, 1))
    rows = {
        "an audit beside a stream": "value",
        "---": "---",
        "share": f"{share:g}",
        "batches during an audit, compared with those without": f"**{math.expm1(statistics.median(logs)):+.1%}**",
        "… its 95 % interval (bootstrap)": f"{math.expm1(medians[125]):+.1%} … {math.expm1(medians[4875]):+.1%}",
        "median batch with, without": f"{statistics.median(all_on):.3f} s, {statistics.median(all_off):.3f} s",
        "pairs, batches with and without": f"{len(pairs)}, {len(all_on)} and {len(all_off)}",
        f"an audit of {AUDITED} batches": f"{statistics.median(audits):.1f} s",
    }
    return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


if __name__ == "__main__":
    sys.exit(main())
