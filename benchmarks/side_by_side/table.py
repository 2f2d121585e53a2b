"""The table, as Markdown. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.side_by_side.figures import Measured, percentile

HEAD = (
    "| contender | input rows/s | caught up after | latency p50, p99 | checkpoint | memory | recovery | lost | doubled "
    "| output |\n|---|---|---|---|---|---|---|---|---|---|"
)
UNKNOWN = "–"
"""Where a contender gives no such figure."""


def table(rows: Iterable[tuple[str, Measured | str]]) -> str:
    """One line for each contender: its figures, or why it has none."""
    return "\n".join([HEAD, *(line(name, found) for name, found in rows)])


def line(name: str, found: Measured | str) -> str:
    """A contender and its figures, or the reason why there are none."""
    if isinstance(found, str):
        return f"| {name} | {found} |" + " |" * 8
    verdict = found.verdict
    cells = [
        f"{found.rate:,.0f}" if found.rate else "one commit",
        f"{found.caught_up:.1f} s",
        latency(found.latencies),
        f"{statistics.median(found.checkpoints) * 1000:,.0f} ms" if found.checkpoints else UNKNOWN,
        f"{found.memory / 1e9:.2f} GB",
        f"{found.recovery:.1f} s" if found.recovery is not None else "none within the run",
        f"{verdict.lost:,}",
        f"{verdict.doubled:,}",
        judged(found),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def latency(seconds: Sequence[float]) -> str:
    """Median and 99th percentile, in seconds."""
    middle, last = percentile(seconds, 0.5), percentile(seconds, 0.99)
    return UNKNOWN if middle is None or last is None else f"{middle:.2f}, {last:.2f} s"


def judged(found: Measured) -> str:
    """The verdict in words: a row with wrong or unexpected output does not count."""
    verdict = found.verdict
    if verdict.exactly_once:
        return f"{verdict.expected:,} rows, each once and right"
    if verdict.wrong or verdict.unexpected:
        return f"**does not count**: {verdict.wrong:,} wrong, {verdict.unexpected:,} unexpected"
    return f"{verdict.expected:,} rows expected"
