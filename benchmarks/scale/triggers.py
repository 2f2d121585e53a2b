"""The triggers of deferred streams in one triggerer: the same measurement as that of `benchmarks/idle_cost`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.idle_cost import parts
from benchmarks.scale.part import Part, Sizes, verdict

GOAL = 0.2


def measure(sizes: Sizes) -> Iterator[str]:
    """Each size for some seconds."""
    for streams in sizes.streams:
        with tempfile.TemporaryDirectory() as folder:
            parts.fill(Path(folder), streams, hours=0.1)
            found = parts.ended(parts.start("triggers", Path(folder), streams, sizes.seconds))
        share = found.cpu / found.wall
        told = verdict(share, GOAL, streams)
        yield f"| {streams:,} | {share:.2%} | {share * 1e6 / streams:.0f} µs | {found.memory / 1e6:.0f} MB | {told} |"


PART = Part(
    name="triggers",
    goal=f"Triggers of deferred streams in one event loop; goal: {GOAL:.0%} of a core for 1,000 streams",
    head="| streams | share of a core | a stream and second | memory | goal |",
    measure=measure,
)
