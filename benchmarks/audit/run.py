"""What an audit costs a running stream: the durations of its batches while the reading runs, and while it does not.

The stream `flight_departures` of the repository processes the flights of 2013, 200 a batch and back to back, and Spark
keeps its default of 100 batches. The newest 50 are audited again and again, in a process of their own as always. The
benchmark divides the time into stretches, in turn: the reading runs without pauses; it is held; it runs with the pauses
of the share; it is held. Each stretch in which it runs is paired with the held one after it.

    python benchmarks/audit/run.py [--minutes 12] [--share 0.04]

The cost at a small share is smaller than what the durations of some hundred batches can show. So it is given twice:
measured directly, and as the cost without pauses times the part of the time in which the process really was not
stopped, which supposes that a batch is slowed in proportion to how long the reading runs beside it.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from pathlib import Path
from typing import Final

from streamwarden.adapters.store import Store
from streamwarden.config.loading import load_stream
from streamwarden.services.auditing.auditing import audit
from streamwarden.services.fleet.fleet import Fleet
from streamwarden.services.fleet.launching import one_off_spark
from streamwarden.services.replay.replay import replay
from streamwarden.sources.files import FilesSource
from streamwarden.stream.audit import AuditSpec
from streamwarden.stream.spec import StreamSpec, TriggerSpec
from streamwarden.verification.comparing.balance import Outcome

REPOSITORY = Path(__file__).parents[2]
WARM_UP = 60
"""Batches before the first stretch: the JVM compiles its hot code in them."""
AUDITED = 50
"""Batches of an audit."""
FLIGHTS = 200
"""In a file, of which a batch reads one."""
FILES = 1680
LEFT = 40
"""Files that are left over: an audit that has begun needs some to end."""
STRETCH = 10.0
"""Seconds."""
LEAST = 5
"""Batches that each stretch of a pair has to hold whole."""
PATIENCE = 300.0
HELD: Final = 0.0

wait_gently, pause = one_off_spark.wait_gently, one_off_spark.pause


@dataclass(frozen=True)
class Stretch:
    """A time with one share of reading, 0 to 1, in Unix seconds. `ran`: for which part of it the reading was not
    stopped."""

    began: float
    ended: float
    share: float
    ran: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class Over(Exception):
    """The time is up, or the files are."""


@dataclass
class Alternation:
    """Takes the place of the product's waiting, and waits as it does, but with another share in each stretch."""

    share: float
    over: Callable[[], bool]
    stretches: list[Stretch] = field(default_factory=list)
    paused: float = 0.0
    shares: Iterator[float] = field(init=False)

    def __post_init__(self) -> None:
        self.shares = cycle((1.0, HELD, self.share, HELD))

    def wait(self, process: subprocess.Popen[bytes], share: float, within: float) -> int:
        """Wait until the process ends; raises Over."""
        while not self.over():
            status = self.stretch(process, next(self.shares))
            if status is not None:
                return status
        raise Over

    def stretch(self, process: subprocess.Popen[bytes], share: float) -> int | None:
        began, before = time.time(), self.paused
        try:
            if share > HELD:
                return wait_gently(process, share, STRETCH)
            self.pause(process, STRETCH)
        except subprocess.TimeoutExpired:
            pass
        finally:
            took = time.time() - began
            self.stretches.append(Stretch(began, began + took, share, 1 - (self.paused - before) / took))
        return None

    def pause(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        began = time.time()
        pause(process, seconds)
        self.paused += time.time() - began


@dataclass(frozen=True)
class Batch:
    """When it began, Unix seconds, and how many it took."""

    at: float
    took: float


@dataclass(frozen=True)
class Measured:
    """`audits`: the seconds that the reading of each audit ran. `load`: the load average before the stream began."""

    share: float
    stretches: Sequence[Stretch]
    batches: Sequence[Batch]
    audits: Sequence[float]
    load: float


@dataclass(frozen=True)
class Effect:
    """How much longer a batch takes: the median over pairs of the ratio of the means, with its 95 % interval (bootstrap
    over the pairs). `batches`: with and without the reading; `medians`: of their durations."""

    ratio: float
    low: float
    high: float
    pairs: int
    batches: tuple[int, int]
    medians: tuple[float, float]

    @classmethod
    def of(cls, measured: Measured, share: float) -> Effect:
        def within(stretch: Stretch) -> list[float]:
            return [b.took for b in measured.batches if stretch.began <= b.at and b.at + b.took <= stretch.ended]

        beside = [(on, off) for on, off in pairwise(measured.stretches) if (on.share, off.share) == (share, HELD)]
        found = [(within(on), within(off)) for on, off in beside]
        pairs = [(on, off) for on, off in found if len(on) >= LEAST and len(off) >= LEAST]
        logs = [math.log(statistics.fmean(on) / statistics.fmean(off)) for on, off in pairs]
        chance = random.Random(11)  # noqa: S311 (resampling)
        medians = sorted(statistics.median(chance.choices(logs, k=len(logs))) for _ in range(5000))
        on, off = ([took for pair in pairs for took in pair[side]] for side in (0, 1))
        return cls(
            ratio=math.expm1(statistics.median(logs)),
            low=math.expm1(medians[125]),
            high=math.expm1(medians[4875]),
            pairs=len(pairs),
            batches=(len(on), len(off)),
            medians=(statistics.median(on), statistics.median(off)),
        )

    def times(self, part: float) -> str:
        return f"**{self.ratio * part:+.2%}**, 95 % interval {self.low * part:+.2%} … {self.high * part:+.2%}"

    @property
    def basis(self) -> str:
        return (
            f"{self.pairs} pairs, {self.batches[0]} and {self.batches[1]} batches, medians {self.medians[0]:.3f} s and "
            f"{self.medians[1]:.3f} s"
        )


def main() -> int:
    """Parse the options, measure, print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--share", type=float, default=AuditSpec().share)
    options.add_argument("--minutes", type=float, default=12.0, help="of the whole benchmark")
    given = options.parse_args()
    until = time.monotonic() + given.minutes * 60
    with tempfile.TemporaryDirectory(prefix="streamwarden-benchmark-", ignore_cleanup_errors=True) as folder:
        print(report(measure(Path(folder), given.share, until)))
    return 0


def measure(data: Path, share: float, until: float) -> Measured:
    """Run the stream and audit it until the time `until` of the monotonic clock."""
    load = os.getloadavg()[0]
    spec = stream(data)
    replay(Path(str(spec.source.path)), rows_per_file=FLIGHTS, limit=FILES * FLIGHTS)
    store = Store(f"sqlite:///{data / 'streamwarden.db'}", busy_timeout=30)
    store.migrate()
    fleet = Fleet(store, data)
    fleet.start(spec, launched_by="benchmark")
    waiting = Alternation(share, lambda: time.monotonic() > until or count(store, spec) > FILES - LEFT)
    one_off_spark.wait_gently, one_off_spark.pause = waiting.wait, waiting.pause
    audits = []
    try:
        await_batches(store, spec, max(WARM_UP, AUDITED))
        while not waiting.over():
            before = len(waiting.stretches)
            try:
                found = audit(spec, last=AUDITED, share=share)
            except Over:
                break
            if found.outcome is not Outcome.BALANCED:
                raise SystemExit(found.sentence)
            audits.append(sum(each.seconds * each.ran for each in waiting.stretches[before:]))
        window = store.batches.window(spec.name, limit=10_000)
        reports = [batch.progress for batch in window if batch.progress is not None and batch.progress.rows]
        batches = [Batch(each.at, each.durations_ms["triggerExecution"] / 1000) for each in reports]
        return Measured(share, waiting.stretches, batches, audits, load)
    finally:
        fleet.stop(spec.name, requested_by="benchmark", reason="it is over")


def stream(data: Path) -> StreamSpec:
    """The stream of the repository with small batches, back to back."""
    spec = load_stream(REPOSITORY / "config/streams/flight_departures.yaml", project=REPOSITORY, data=data)
    assert isinstance(spec.source, FilesSource)
    return replace(
        spec,
        source=replace(spec.source, max_files_per_trigger=1),
        trigger=TriggerSpec(processing_time=0.1),
        spark=replace(spec.spark, master="local[1]"),
    )


def count(store: Store, spec: StreamSpec) -> int:
    """The batches that the store has."""
    return len(store.batches.window(spec.name, limit=10_000))


def await_batches(store: Store, spec: StreamSpec, wanted: int) -> None:
    """Wait until the store has so many batches."""
    deadline = time.monotonic() + PATIENCE
    while count(store, spec) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"no {wanted} batches within {PATIENCE:.0f} s")
        time.sleep(0.5)


def report(measured: Measured) -> str:
    """Markdown."""
    share = measured.share
    whole, gentle = Effect.of(measured, 1.0), Effect.of(measured, share)
    parts = [each for each in measured.stretches if each.share == share]
    ran = sum(each.seconds * each.ran for each in parts) / sum(each.seconds for each in parts)
    rows = {
        "an audit beside a stream": "value",
        "---": "---",
        "A. a batch while the reading runs without pauses, compared with none": f"{whole.times(1)}; {whole.basis}",
        f"B. the part of the time in which the reading ran at share {share:g}": f"{ran:.2%}",
        f"A × B: a batch at share {share:g}, if it is slowed in proportion": whole.times(ran),
        f"the same, measured directly by the batches at share {share:g}": f"{gentle.times(1)}; {gentle.basis}",
        f"reading of an audit of {AUDITED} batches, without its pauses": ", ".join(
            f"{each:.0f} s" for each in measured.audits
        ),
        "load average before": f"{measured.load:.1f}",
    }
    return "\n".join(f"| {name} | {value} |" for name, value in rows.items())


if __name__ == "__main__":
    sys.exit(main())
