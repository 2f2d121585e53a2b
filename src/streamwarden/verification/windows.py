"""The rules of event-time windows with a watermark in append mode, as Spark defines them, implemented independently.

- A window is [start, start + length); starts are multiples of the slide since the Unix epoch, so a row is in
  length / slide windows.
- The watermark of batch b is the largest event time in the batches before b, minus the delay. It never goes back, and
  is 0 before any event.
- A row of batch b is late for a window iff the window's end <= the watermark of batch b - 1 (of batch b - 1, not b,
  because only what batch b - 1 emitted is closed). The same row can be late for one window and in time for the next.
- Batch b emits, after its rows were added, each window whose end <= the watermark of batch b.

All times are Unix milliseconds.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streamwarden.verification.comparing.starts import Restarts
from streamwarden.verification.reconciliation import Key

__all__ = ["Row", "Sliding"]

Group = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `length` that begin every `slide` (equal: tumbling). Raises ValueError unless 0 < slide <= length."""

    length: int
    slide: int

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.length:
            raise ValueError(f"slide {self.slide} is not above 0 and at most the length {self.length}")

    def starts(self, at: int) -> range:
        """Starts of the windows that `at` is in, ascending."""
        last = at - at % self.slide
        first = last - (self.length - (at - last) - 1) // self.slide * self.slide
        return range(first, last + 1, self.slide)


class Row(NamedTuple):
    """One input row: its time, its grouping keys, and the numbers to sum."""

    at: int
    group: Group
    amounts: tuple[int, ...]


@dataclass(slots=True)
class Totals:
    """The result for a bounded input.

    Args:
        emitted: (window start, *group) -> sums, for windows that the watermark passed in a judged batch.
        pairs, dropped, emitted_pairs, emitted_before, open_pairs: (row, window) pairs.
        late_rows: rows that were late for at least one window.
    """

    emitted: dict[Key, list[int]] = field(default_factory=dict)
    pairs: int = 0
    dropped: int = 0
    late_rows: int = 0
    emitted_pairs: int = 0
    emitted_before: int = 0
    open_pairs: int = 0


def least_watermarks(
    highest: Sequence[Mapping[int, int | None]], delays: Sequence[int], batches: Iterable[int], restarts: Restarts
) -> dict[int, int]:
    """The watermark of each batch of a query with several sources, and that of the next batch.

    It is the lowest watermark of the sources, 0 until each has had an event. How far each source is, is only in the
    driver's memory; the offset log has the lowest. A start therefore forgets it, and the watermark does not move until
    each source has had an event again (measured on Spark 4.3: the `WatermarkTracker` of a new run knows one number). If
    a folder's manifest has a batch that runs again because it was not committed, Spark does not read it: its events
    never move the watermark. Nothing else keeps it from moving. The offset log's own values are not used here, because
    the run under test wrote them.

    Args:
        highest: for each source, the largest event time in each batch (None: it had no event), Unix milliseconds.
        delays: for each source, milliseconds.
    """
    result: dict[int, int] = {}
    forgotten: tuple[int | None, ...] = (None,) * len(delays)
    tops, current, following = forgotten, 0, 0
    for batch in sorted(batches):
        current = result[batch] = max(current, _least(tops, delays))
        if batch in restarts.first:
            tops = forgotten
        if batch not in restarts.skipped:
            tops = tuple(map(_newer, tops, [of_source[batch] for of_source in highest]))
        following = batch + 1
    result[following] = max(current, _least(tops, delays))
    return result


def _least(tops: Sequence[int | None], delays: Sequence[int]) -> int:
    return min(0 if top is None else top - delay for top, delay in zip(tops, delays, strict=True))


def _newer(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


def aggregate(
    batches: Iterable[tuple[int | None, Iterable[Row]]],
    marks: Mapping[int, int],
    sliding: Sliding,
    *,
    committed: int,
    first: int = 0,
) -> Totals:
    """Sum the rows of each batch into their windows, and compute the output after batch `committed`.

    Args:
        batches: batch -> its rows. Batch None has the rows of files that no batch read: nothing could make them late,
            so their windows expect them.
        marks: batch -> watermark.
        first: windows that were emitted before this batch are left out of `emitted`.
    """
    totals = Totals()
    sums: dict[Key, list[int]] = {}
    for batch, rows in batches:
        closed = 0 if batch is None else marks.get(batch - 1, 0)
        _add(rows, closed, sliding, sums, totals)
    final = marks.get(committed, 0)
    before = marks.get(first - 1, 0)
    for key, sum_ in sums.items():
        start, pairs = key[0], sum_[-1]
        assert isinstance(start, int)
        end = start + sliding.length
        if end > final:
            totals.open_pairs += pairs
        elif end <= before:
            totals.emitted_before += pairs
        else:
            totals.emitted[key] = sum_[:-1]
            totals.emitted_pairs += pairs
    return totals


def _add(rows: Iterable[Row], closed: int, sliding: Sliding, sums: dict[Key, list[int]], totals: Totals) -> None:
    """Add one batch's rows. The last number of each sum counts the pairs."""
    length = sliding.length
    for row in rows:
        late = 0
        starts = sliding.starts(row.at)
        for start in starts:
            if start + length <= closed:
                late += 1
                continue
            key = (start, *row.group)
            sum_ = sums.get(key)
            if sum_ is None:
                sums[key] = [*row.amounts, 1]
            else:
                for index, amount in enumerate(row.amounts):
                    sum_[index] += amount
                sum_[-1] += 1
        totals.pairs += len(starts)
        totals.dropped += late
        totals.late_rows += late > 0
