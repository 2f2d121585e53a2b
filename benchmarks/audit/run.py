"""What an audit costs a running stream: the durations of its batches while an audit runs, and while none does.

The stream `flight_departures` of the repository processes the flights of 2013, a file of 500 flights a batch. An audit
of its newest 50 batches runs, then none for as long, and so on. Each stretch with an audit is paired with the one
without it beside it (on-off, off-on in turn, so that a trend cancels out).

    python benchmarks/audit/run.py [--pairs 8]

The year is 674 files, a batch a second: when they are nearly used up, it ends with the pairs that it has.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from streamwarden.adapters.store import Store
from streamwarden.config.loading import load_stream
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.fleet.fleet import Fleet
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
LEFT = 80
"""Files that a pair needs."""
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
    options.add_argument("--pairs", type=int, default=8)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="streamwarden-benchmark-") as folder:
        print(report(*measure(Path(folder), given.pairs)))
    return 0


def measure(data: Path, pairs: int) -> tuple[list[Stretch], list[tuple[float, float]]]:
    """The stretches, and (start, seconds) of each batch."""
    spec = stream(data)
    replay(Path(str(spec.source.path)), limit=336_776)
    store = Store(f"sqlite:///{data / 'streamwarden.db'}", busy_timeout=30)
    store.migrate()
    fleet = Fleet(store, data)
    fleet.start(spec, launched_by="benchmark")
    try:
        await_batches(store, spec, max(WARM_UP, AUDITED))
        stretches: list[Stretch] = []
        for pair in range(pairs):
            if len(store.batches.window(spec.name, limit=10_000)) > FILES - LEFT:
                break
            on = one_audit(spec) if pair % 2 == 0 else None
            off = quiet(on.ended - on.began if on else stretches[-1].ended - stretches[-1].began)
            stretches += [on, off] if on else [off, one_audit(spec)]
        window = store.batches.window(spec.name, limit=10_000)
        reports = [batch.progress for batch in window if batch.progress is not None and batch.progress.rows]
        return stretches, [(each.at, each.durations_ms["triggerExecution"] / 1000) for each in reports]
    finally:
        fleet.stop(spec.name, requested_by="benchmark", reason="it is over")


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


def one_audit(spec: StreamSpec) -> Stretch:
    """Audit the newest batches."""
    began = time.time()
    found = audit(spec, last=AUDITED)
    if found.outcome is not Outcome.BALANCED:
        raise SystemExit(found.sentence)
    return Stretch(began, time.time(), True)


def quiet(seconds: float) -> Stretch:
    """The same time without an audit."""
    began = time.time()
    time.sleep(seconds)
    return Stretch(began, time.time(), False)


def await_batches(store: Store, spec: StreamSpec, count: int) -> None:
    """Wait until the store has `count` more batches."""
    before, deadline = len(store.batches.window(spec.name, limit=10_000)), time.monotonic() + PATIENCE
    while len(store.batches.window(spec.name, limit=10_000)) < before + count:
        if time.monotonic() > deadline:
            raise SystemExit(f"no {count} batches within {PATIENCE:.0f} s")
        time.sleep(0.5)


def report(stretches: list[Stretch], batches: list[tuple[float, float]]) -> str:
    """Markdown: the median of the pairs' ratios with its 95 % interval, and what it rests on."""

    def within(stretch: Stretch) -> list[float]:
        return [took for at, took in batches if stretch.began <= at and at + took <= stretch.ended]

    pairs = []
    for one, other in zip(stretches[::2], stretches[1::2], strict=True):
        on, off = (one, other) if one.auditing else (other, one)
        pairs.append((within(on), within(off)))
    pairs = [(on, off) for on, off in pairs if len(on) >= 5 and len(off) >= 5]
    logs = [math.log(statistics.median(on) / statistics.median(off)) for on, off in pairs]
    chance = random.Random(11)  # noqa: S311 (resampling)
    medians = sorted(statistics.median(chance.choices(logs, k=len(logs))) for _ in range(5000))
    audits = [each.ended - each.began for each in stretches if each.auditing]
    all_on, all_off = ([took for pair in pairs for took in pair[side]] for side in (0, 1))
    rows = {
        "an audit beside a stream": "value",
        "---": "---",
        "batches during an audit, compared with those without": f"**{math.expm1(statistics.median(logs)):+.1%}**",
        "… its 95 % interval (bootstrap)": f"{math.expm1(medians[125]):+.1%} … {math.expm1(medians[4875]):+.1%}",
        "median batch with, without": f"{statistics.median(all_on):.3f} s, {statistics.median(all_off):.3f} s",
        "pairs, batches with and without": f"{len(pairs)}, {len(all_on)} and {len(all_off)}",
        f"an audit of {AUDITED} batches": f"{statistics.median(audits):.1f} s",
    }
    return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


if __name__ == "__main__":
    sys.exit(main())
