"""Where a stream's drivers started: the only reasons for which its watermark may stand still, or a batch be skipped.

A start forgets how far each source was (Spark's `WatermarkTracker` of a new run knows one number, the least of them),
and Spark does not read a batch again that the folder's manifest has already. Both lower what a right run writes. The
checkpoint does not record starts, and a run that lost its rows looks like one that was restarted, so the starts come
from the launcher, which reads the logs before it launches a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from streamwarden.checkpoint.sink import unplanned_entries

SLACK: Final = 60.0
"""Seconds by which the clocks of two hosts, or two readings of one clock on a busy host, may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The logs as they were just before a driver was launched. A number is None if there was no entry.

    Args:
        at: when they were read, Unix seconds.
        planned, committed: newest batch in `offsets/` and in `commits/`.
        sink: newest batch in the manifest of the sink's folder; None too for a sink that has no manifest.
        ended: when the driver's end was recorded, Unix seconds; None: it was not.
    """

    at: float
    planned: int | None
    committed: int | None
    sink: int | None = None
    ended: float | None = None

    @property
    def first(self) -> int:
        """The batch that the driver begins with: the planned one again if it was cut, else the next."""
        if self.planned is None:
            return 0
        return self.planned if self.committed is None or self.committed < self.planned else self.planned + 1

    @property
    def is_skip(self) -> bool:
        """Whether Spark skips the first batch: it was cut between its entry in the manifest and its commit."""
        return self.first == self.planned and self.sink is not None and self.sink >= self.first

    @property
    def ahead(self) -> range:
        """Batches that the manifest had and that no driver had planned: of an older, longer run."""
        return unplanned_entries(self.planned, self.sink)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """What the starts explain.

    Args:
        first: batches that a driver began with: in them Spark knows nothing of each source's own watermark.
        skipped: those of them that were not read again.
    """

    first: frozenset[int]
    skipped: frozenset[int]


def restarts(starts: Iterable[Start]) -> Restarts:
    """The starts that led to the checkpoint as it is. One before a rewind counts for no batch that ran again."""
    found: dict[int, bool] = {}
    for start in sorted(starts, key=lambda each: each.at):
        found = {batch: skipped for batch, skipped in found.items() if batch < start.first}
        found[start.first] = start.is_skip
    return Restarts(first=frozenset(found), skipped=frozenset(batch for batch, skipped in found.items() if skipped))


def planner(starts: Sequence[Start], batch: int) -> Start | None:
    """The start of the driver that planned `batch`; None: it is not known."""
    after = [start for start in starts if (-1 if start.planned is None else start.planned) < batch]
    return max(after, key=lambda each: each.at, default=None)


def stale_entries(starts: Iterable[Start], *, newest: int | None, planned: int | None) -> list[str]:
    """Entries of the sink's manifest that belong to no batch of this checkpoint, as problems.

    Entries that a later start no longer saw were removed since, or the fork was made of an earlier batch: no batch of
    this checkpoint was skipped for them.

    Args:
        newest: newest batch in the manifest now.
        planned: newest batch in `offsets/` now.
    """
    found: list[tuple[range, float]] = []
    for start in sorted(starts, key=lambda each: each.at):
        kept = -1 if start.planned is None or start.sink is None else min(start.planned, start.sink)
        found = [*_up_to(kept, found), (start.ahead, start.at)]
    found = _up_to(-1 if planned is None else planned, found)
    now = unplanned_entries(planned, newest)
    problems = [_stale(batches, f"when the driver of {_instant(at)} started") for batches, at in found if batches]
    return [*problems, _stale(now, "now")] if now else problems


def _up_to(last: int, entries: Iterable[tuple[range, float]]) -> list[tuple[range, float]]:
    """Of stale entries those that are still there: a later start did not see the others, or it counts them itself."""
    return [(range(batches.start, min(batches.stop, last + 1)), at) for batches, at in entries]


def invented_times(starts: Sequence[Start], times: Mapping[int, int]) -> list[str]:
    """Batches that say that they were planned when their driver did not live, as cases.

    Args:
        times: batch -> `batchTimestampMs` of `offsets/BATCH`, Unix milliseconds.
    """
    cases = []
    for batch in sorted(times):
        start, at = planner(starts, batch), times[batch] / 1000
        if start is None:
            continue
        if at < start.at - SLACK or (start.ended is not None and at > start.ended + SLACK):
            end = "now" if start.ended is None else _instant(start.ended)
            cases.append(
                f"batch {batch} says {_instant(at)}, its driver ran from {_instant(start.at)} to {end} "
                f"(clocks may differ by {SLACK:.0f} s)"
            )
    return cases


def _stale(entries: range, when: str) -> str:
    batches = f"batch {entries[0]}" if len(entries) == 1 else f"the batches {entries[0]} to {entries[-1]}"
    return (
        f"{when}, the sink's manifest had {batches}, and the checkpoint had planned no such batch: it is of an older, "
        "longer run, and Spark skips such batches without reading their input"
    )


def _instant(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z"
