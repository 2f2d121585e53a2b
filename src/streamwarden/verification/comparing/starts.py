"""Where a stream's drivers started: the only reasons why its watermark may not move, or a batch may be skipped.

A start forgets how far each source was (Spark's `WatermarkTracker` of a new run knows one number, the lowest of them),
and Spark does not read a batch again if the folder's manifest already has it. Both reduce a correct run's output. The
checkpoint does not record starts, and a run that lost its rows looks like one that was restarted. Therefore the starts
come from the launcher, which reads the logs before it launches a driver.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from streamwarden.checkpoint.formats.sink import unplanned_entries
from streamwarden.errors import VerificationError

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
        clock_steps: how far a drill let the clock of the driver be off for a while, each in seconds.
        logs_known: False: a driver was launched `at` this time, and what it began with is unknown, because the logs
            could not be read then or an earlier version of the launcher did not record them.
    """

    at: float
    planned: int | None
    committed: int | None
    sink: int | None = None
    ended: float | None = None
    clock_steps: tuple[float, ...] = ()
    logs_known: bool = True

    @property
    def first(self) -> int:
        """The batch that the driver begins with: the planned one again if it was cut, otherwise the next."""
        if self.planned is None:
            return 0
        return self.planned if self.committed is None or self.committed < self.planned else self.planned + 1

    @property
    def is_skip(self) -> bool:
        """Whether Spark skips the first batch: it was cut between its entry in the manifest and its commit."""
        return self.first == self.planned and self.sink is not None and self.sink >= self.first

    @property
    def ahead(self) -> range:
        """Batches that the manifest had and that no driver had planned: they belong to an older, longer run."""
        return unplanned_entries(self.planned, self.sink)

    def lived(self, at: float) -> bool:
        """Whether the driver may have run when its clock showed `at` (Unix seconds), if clocks differ by `SLACK`."""
        last = math.inf if self.ended is None else self.ended + SLACK
        return any(self.at - SLACK <= at - step <= last for step in (0.0, *self.clock_steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """The deviations that starts explain.

    Args:
        first: batches that a driver began with: in them Spark does not know each source's own watermark.
        skipped: those of them that were not read again.
    """

    first: frozenset[int]
    skipped: frozenset[int]


def restarts(starts: Iterable[Start]) -> Restarts:
    """The starts that led to the checkpoint as it is. One before a rewind does not count for batches that ran again."""
    skipped_by_first: dict[int, bool] = {}
    for start in _with_logs(starts):
        skipped_by_first = {batch: skipped for batch, skipped in skipped_by_first.items() if batch < start.first}
        skipped_by_first[start.first] = start.is_skip
    return Restarts(
        first=frozenset(skipped_by_first),
        skipped=frozenset(batch for batch, skipped in skipped_by_first.items() if skipped),
    )


def planner(starts: Sequence[Start], batch: int) -> Start | None:
    """The start of the driver that planned `batch`; None if unknown."""
    after = [start for start in _with_logs(starts) if (-1 if start.planned is None else start.planned) < batch]
    return max(after, key=lambda start: start.at, default=None)


def require_known(starts: Iterable[Start], problems: Sequence[str]) -> None:
    """Refuse a verdict on problems that a start with unknown logs could explain.

    Raises VerificationError if there is such a start and at least one problem.
    """
    unknown = [start for start in starts if not start.logs_known]
    if unknown and problems:
        raise VerificationError(
            f"{problems[0]}; and it is unknown what the driver of {_instant(unknown[0].at)} began with "
            f"({len(unknown)} such drivers)",
            expected="a record of the logs for each driver that was launched on the checkpoint: either a start "
            "explains this, or it is a deviation",
            where="the event `logs_at_launch` of the drivers in the store",
            next_step="drill the stream with `rewind: all`: such a fork depends only on its own drivers",
        )


def stale_entries(starts: Sequence[Start], *, newest: int | None, planned: int | None) -> list[str]:
    """Entries of the sink's manifest that belong to no batch of this checkpoint, as problems.

    Entries that a later start no longer found were removed since, or the fork was made at an earlier batch: no batch
    of this checkpoint was skipped because of them.

    Args:
        newest: newest batch in the manifest now.
        planned: newest batch in `offsets/` now.

    Raises VerificationError if a later start with unknown logs may have found that they were removed.
    """
    entries: list[tuple[range, float]] = []
    for start in _with_logs(starts):
        kept = -1 if start.planned is None or start.sink is None else min(start.planned, start.sink)
        entries = [*_up_to(kept, entries), (start.ahead, start.at)]
    entries = [(batches, at) for batches, at in _up_to(-1 if planned is None else planned, entries) if batches]
    now = unplanned_entries(planned, newest)
    problems = [_stale(batches, f"when the driver of {_instant(at)} started") for batches, at in entries]
    require_known([start for start in starts if entries and start.at > entries[0][1]], problems)
    return [*problems, _stale(now, "now")] if now else problems


def _with_logs(starts: Iterable[Start]) -> list[Start]:
    """The starts with known logs, oldest first."""
    return sorted((start for start in starts if start.logs_known), key=lambda start: start.at)


def _up_to(last: int, entries: Iterable[tuple[range, float]]) -> list[tuple[range, float]]:
    """The stale entries that still exist: a later start did not find the others, or counts them itself."""
    return [(range(batches.start, min(batches.stop, last + 1)), at) for batches, at in entries]


def invented_times(starts: Sequence[Start], times: Mapping[int, int]) -> list[str]:
    """Batches that claim to have been planned when their driver did not run, as cases. Any driver with unknown logs may
    have planned a batch while it ran.

    Args:
        times: batch -> `batchTimestampMs` of `offsets/BATCH`, Unix milliseconds.
    """
    cases = []
    unknown = [start for start in starts if not start.logs_known]
    for batch in sorted(times):
        start, at = planner(starts, batch), times[batch] / 1000
        if start is not None and not start.lived(at) and not any(other.lived(at) for other in unknown):
            end = "now" if start.ended is None else _instant(start.ended)
            cases.append(
                f"batch {batch} says {_instant(at)}, its driver ran from {_instant(start.at)} to {end} "
                f"(clocks may differ by {SLACK:.0f} s)"
            )
    return cases


def _stale(entries: range, when: str) -> str:
    batches = f"batch {entries[0]}" if len(entries) == 1 else f"the batches {entries[0]} to {entries[-1]}"
    return (
        f"{when}, the sink's manifest had {batches}, which the checkpoint had not planned: they belong to an older, "
        "longer run, and Spark skips such batches without reading their input"
    )


def _instant(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}Z"
