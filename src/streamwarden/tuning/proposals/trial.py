"""Judges a trial: the same input under the present settings and under the advised ones, batch by batch.

Each side executed it twice, in the order present, advised, advised, present, so that a machine that becomes slower or
faster meanwhile changes both alike. A pair is the mean of each side for the same input.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streamwarden.lifecycle.settings import HEAP_SHARE
from streamwarden.lifecycle.upgrades.preflight import OutputDifference
from streamwarden.units import format_count, format_duration, format_size

FEWEST: Final = 5
"""Pairs without which nothing is concluded."""

NOTABLE: Final = 0.05
"""Share of a batch by which the median pair has to differ."""

AGREE: Final = 0.75
"""Share of the pairs that have to differ in the same direction."""

NEWEST: Final = 20
MOST: Final = 60
MOST_ROWS: Final = 2_000_000
"""Batches of a trial as a rule, at most, and the rows after which it takes no more."""

Group = tuple[int, int]
"""The first and the last batch of the stream that are executed as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What one side did with the input of a group. Seconds and bytes; the batches' times are those that Spark reports.

    Args:
        seconds: of all batches, those of both runs averaged; longest: of one batch.
        state: largest memory of the state.
    """

    seconds: float
    longest: float
    state: int
    rows: int


@dataclass(frozen=True, slots=True)
class Pair:
    """The same input under both settings."""

    group: Group
    before: Execution
    after: Execution


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """All pairs, of one side. `longest`: the median of its longest batches."""

    seconds: float
    longest: float
    rows_per_second: float
    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial of advised settings.

    Args:
        output: the rows that both wrote; unproven: they cannot be compared.
        heaps: bytes of the driver's heap before and after, where state is on it; None: it is elsewhere, or the heap
            stays as it is.
        seconds: of it all.
    """

    pairs: tuple[Pair, ...]
    output: OutputDifference
    heaps: tuple[int, int] | None = None
    seconds: float = 0.0

    @property
    def batches(self) -> Group:
        return self.pairs[0].group[0], self.pairs[-1].group[1]

    @property
    def before(self) -> Side:
        return _side([pair.before for pair in self.pairs])

    @property
    def after(self) -> Side:
        return _side([pair.after for pair in self.pairs])

    @property
    def ratio(self) -> float:
        """The median of the pairs' seconds, advised by present."""
        return statistics.median(pair.after.seconds / max(pair.before.seconds, 0.001) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the settings are a gain, and why. `refused`: with them the output is another one, or is not known."""

    gain: bool
    why: str
    refused: bool = False


def judge(trial: Trial) -> Verdict:
    """A gain is a shorter batch, or state that has room on the heap again; never with another output."""
    if trial.output.differs:
        return Verdict(False, _difference(trial.output), refused=True)
    if not trial.output.old:
        return Verdict(False, "these batches wrote no row, so that nothing shows that the output stays the same")
    if len(trial.pairs) < FEWEST:
        return Verdict(False, f"only {format_count(len(trial.pairs), 'pair')} of batches: {FEWEST} are needed")
    change = 1 - trial.ratio
    says = f"the same input takes {abs(change):.0%} {'less' if change > 0 else 'more'} time (median of {_of(trial)})"
    if _agree(trial, slower=True):
        return Verdict(False, says)
    if _agree(trial, slower=False):
        return Verdict(True, says)
    room = _room(trial)
    return Verdict(bool(room), room or f"no difference beyond the noise: {says}")


def _of(trial: Trial) -> str:
    return f"{format_count(len(trial.pairs), 'pair')}, {_wins(trial, slower=False)} shorter"


def _wins(trial: Trial, *, slower: bool) -> int:
    return sum((pair.after.seconds > pair.before.seconds) is slower for pair in trial.pairs)


def _agree(trial: Trial, *, slower: bool) -> bool:
    far = trial.ratio >= 1 + NOTABLE if slower else trial.ratio <= 1 - NOTABLE
    return far and _wins(trial, slower=slower) >= AGREE * len(trial.pairs)


def _room(trial: Trial) -> str:
    """State that took too much of the heap, and does not with the advised one."""
    if trial.heaps is None:
        return ""
    before, after = (state / heap for state, heap in zip(_states(trial), trial.heaps, strict=True))
    if not after <= HEAP_SHARE < before:
        return ""
    return f"state takes {after:.0%} of the heap in place of {before:.0%} (at most {HEAP_SHARE:.0%} should be)"


def _states(trial: Trial) -> tuple[int, int]:
    return trial.before.state, trial.after.state


def _difference(output: OutputDifference) -> str:
    if output.unproven:
        return f"the outputs cannot be compared: {output.unproven}"
    kinds = {"of the present settings alone": output.gone, "of the advised ones alone": output.added}
    rows = [f"{format_count(count, 'row')} {what}" for what, count in kinds.items() if count]
    rows += [f"{format_count(output.changed, 'row')} with other values"] if output.changed else []
    return f"the output differs: {', '.join([*rows, *output.columns])}"


def _side(executions: Sequence[Execution]) -> Side:
    seconds = sum(execution.seconds for execution in executions)
    return Side(
        seconds=seconds,
        longest=statistics.median(execution.longest for execution in executions),
        rows_per_second=sum(execution.rows for execution in executions) / max(seconds, 0.001),
        state=max(execution.state for execution in executions),
    )


def groups(batches: Sequence[int], size: int) -> dict[int, Group]:
    """Number of a batch of the trial -> the batches of the stream whose input it has.

    The newest one stays alone: both sides then end with the same watermark, so that both have closed the same windows.
    """
    *earlier, newest = batches
    cuts = [(earlier[at], earlier[min(at + size, len(earlier)) - 1]) for at in range(0, len(earlier), size)]
    return dict(enumerate([*cuts, (newest, newest)], start=batches[0]))


def batches_a_trigger(period: float, trigger: float) -> int:
    """How many of the present batches, one each `period` seconds, one of a trigger of `trigger` seconds replaces."""
    return max(2, math.ceil(trigger / max(period, 0.001) - 0.5))


def largest_size(counts: Sequence[int], size: int, limit: int | None) -> int:
    """The most batches, up to `size`, of which any that follow one another have at most `limit` files or records."""
    if limit is None:
        return size
    fitting = (
        wide
        for wide in range(size, 1, -1)
        if all(sum(counts[at : at + wide]) <= limit for at in range(len(counts) - wide + 1))
    )
    return next(fitting, 1)


def how_many(rows_newest_first: Sequence[tuple[float, int]], size: int, span: float = 3600.0) -> int:
    """How many of the newest batches a trial executes: those of the last hour of input, within the bounds.

    Args:
        rows_newest_first: when each batch began, and its rows; size: batches that are executed as one.
    """
    bound, rows, count = min(MOST, max(NEWEST, 2 * FEWEST * size)), 0, 0
    for at, more in rows_newest_first[:bound]:
        if rows > MOST_ROWS or at < rows_newest_first[0][0] - span:
            break
        rows, count = rows + more, count + 1
    return max(1, count)


def report(trial: Trial) -> Iterator[tuple[str, str, str]]:
    """What was compared, with the present settings and with the advised ones."""
    before, after = trial.before, trial.after
    yield "time for the input", format_duration(before.seconds), format_duration(after.seconds)
    yield "a batch (median)", format_duration(before.longest), format_duration(after.longest)
    yield "rows a second", f"{before.rows_per_second:,.0f}", f"{after.rows_per_second:,.0f}"
    yield "memory of the state", format_size(before.state), format_size(after.state)


def as_document(trial: Trial) -> Mapping[str, object]:
    """The trial for programs."""
    return {
        "batches": list(trial.batches),
        "pairs": len(trial.pairs),
        "before": trial.before,
        "after": trial.after,
        "ratio": trial.ratio,
        "output": trial.output,
        "seconds": trial.seconds,
    }
