"""What a run came to, computed from when its rows came out. Pure; times are Unix seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.side_by_side.verdicts import Verdict

ONE_COMMIT = 0.5
"""Rows that come out within so many seconds belong to one commit: no rate can be computed from them."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One row of the table.

    Args:
        rate: input rows a second while the run caught up; None: it caught up in one commit.
        caught_up: seconds from the launch to the last output of what was there before.
        latencies: seconds from when a record was sent to when the row that it completes could be read.
        checkpoints: seconds of each checkpoint as the contender itself reports them; none: it reports no such time.
        memory: most resident bytes of all processes of the run at one time.
        recovery: seconds from the SIGKILL to the first new row that could be read.
    """

    rate: float | None
    caught_up: float
    latencies: Sequence[float]
    checkpoints: Sequence[float]
    memory: int
    recovery: float | None
    verdict: Verdict


def rate(points: Iterable[tuple[int, float]]) -> float | None:
    """Input rows a second, from (number of the record that completed a row, when that row came out).

    Counts from the first commit, so that the start of the process is not part of it. None if all came out in one.
    """
    by_time = sorted((at, number) for number, at in points)
    if not by_time:
        return None
    began = by_time[0][0]
    first = max(number for at, number in by_time if at <= began + ONE_COMMIT)
    last = max(number for _, number in by_time)
    ended = min(at for at, number in by_time if number == last)
    return (last - first) / (ended - began) if ended > began + ONE_COMMIT else None


def latencies(points: Iterable[tuple[int, float]], sent: Mapping[int, float]) -> list[float]:
    """Seconds of each row whose completing record is in `sent`."""
    return [at - sent[number] for number, at in points if number in sent]


def percentile(values: Sequence[float], share: float) -> float | None:
    """The least value that this share of all do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, -(-round(share * len(values) * 1000) // 1000) - 1)]


def recovery(first_seen: Iterable[float], killed_at: float, settled: float) -> float | None:
    """Seconds from the kill to the first row that had not come out before it.

    Args:
        settled: seconds after the kill in which rows may still arrive that were committed before it.
    """
    after = [at for at in first_seen if at > killed_at + settled]
    return min(after) - killed_at if after else None
