"""The whole bounded input of a run, batch by batch, with each batch's watermark: where an event-time oracle starts.

Of the run only the order counts (which batch read which file). The watermarks are computed from the input and from the
starts of the drivers, which the run did not write; where the checkpoint says otherwise, there is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from streamwarden.errors import VerificationError
from streamwarden.verification.input_lines import lines, require_lines, unreadable
from streamwarden.verification.oracle import RunFacts
from streamwarden.verification.starts import require_known, restarts
from streamwarden.verification.windows import least_watermarks

__all__ = ["InputBatch", "InputReplay", "Side", "moment", "replay_input", "replay_sides", "some", "timeline"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = 5
"""Problems of one kind that are spelled out; the rest are counted."""


@dataclass(frozen=True, slots=True)
class InputBatch(Generic[T]):
    """One batch.

    Args:
        rows: in the order of its files' names and lines.
        closed: what lies at or before this instant (Unix ms) comes too late for this batch: the watermark of the batch
            before it, since nothing later was emitted yet.
        mark: the watermark of this batch: what lies at or before it is emitted, or forgotten, when the batch ends.
    """

    batch: int
    rows: Sequence[T]
    closed: int
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReplay(Generic[T]):
    """A bounded input as a run read it.

    Args:
        batches: batch -> its rows, for every planned batch. Batch None holds rows of files that no batch read.
        marks: batch -> watermark, Unix milliseconds.
        committed: newest committed batch, -1 if none was; that of a batch which is owed counts, see `timeline`.
        records, malformed: lines, and how many of them are no row.
        problems: what in the facts contradicts the input, in words.
    """

    batches: Mapping[int | None, Sequence[T]] = field(repr=False)
    marks: Mapping[int, int]
    committed: int
    records: int
    malformed: int
    problems: tuple[str, ...]

    @property
    def final_mark(self) -> int:
        return self.marks.get(self.committed, 0)

    def steps(self) -> Iterator[InputBatch[T]]:
        """The batches in order. Rows that no batch read are owed all the same: they stand in the first one."""
        unread = self.batches.get(None, ())
        for batch in sorted(self.marks):
            yield InputBatch(
                batch, [*unread, *self.batches.get(batch, ())], self.marks.get(batch - 1, 0), self.marks[batch]
            )
            unread = ()


@dataclass(frozen=True, kw_only=True)
class Side(Generic[T]):
    """One source of a query: how its lines are read, and what its watermark goes by.

    Args:
        decode: a line -> its row, or None if the line is malformed.
        at: a row's event time, Unix milliseconds.
        delay: how far the watermark stays behind the newest event, milliseconds; None: the query has no watermark.
        not_after: rows whose event time lies more than these milliseconds after the modification of their file are
            malformed too; None: any time is possible.
        moves: whether a row moves the watermark; not the rows that a query leaves out before its watermark.
    """

    decode: Callable[[str], T | None]
    at: Callable[[T], int]
    delay: int | None
    not_after: int | None = None
    moves: Callable[[T], bool] = lambda row: True


def replay_input(
    inputs: Sequence[Path],
    facts: RunFacts,
    *,
    decode: Callable[[str], T | None],
    at: Callable[[T], int],
    delay: int | None,
    not_after: int | None = None,
    moves: Callable[[T], bool] = lambda row: True,
) -> InputReplay[T]:
    """`replay_sides` of a query with one source; see `Side` for the arguments."""
    only = Side(decode=decode, at=at, delay=delay, not_after=not_after, moves=moves)
    return _replayed(inputs, facts, [only], lambda path: only)


def replay_sides(inputs: Sequence[Path], facts: RunFacts, sides: Mapping[str, Side[Any]]) -> InputReplay[Any]:
    """Read every line of `inputs` and put each row into its batch.

    Args:
        sides: name of the folder that a file lies in -> the source that reads it. The query's watermark is the least of
            theirs: 0 until each of them has had an event; see `least_watermarks` for a query that was restarted.

    A file that no batch read is a problem; one that two batches read counts once, in the first, and is a problem too.
    Raises VerificationError if a file cannot be read, is of no side, or a batch is not in the facts.
    """

    def side_of(path: Path) -> Side[Any]:
        side = sides.get(path.parent.name)
        if side is None:
            raise VerificationError(
                f"an input file that belongs to no source: {path}",
                expected=f"files in {' or '.join(sides)}",
                where=str(path.parent),
                next_step="move it away, or give the source's parts to the oracle",
            )
        return side

    return _replayed(inputs, facts, list(sides.values()), side_of)


def _replayed(
    inputs: Sequence[Path], facts: RunFacts, sides: Sequence[Side[T]], side_of: Callable[[Path], Side[T]]
) -> InputReplay[T]:
    require_lines(facts.options)
    files = _place(inputs, facts.files)
    _require_every_batch(facts)
    batches: dict[int | None, list[T]] = {batch: [] for batch in sorted(facts.watermarks)}
    batches[None] = []
    tops: dict[int, dict[int, int | None]] = {id(side): dict.fromkeys(facts.watermarks) for side in sides}
    records = malformed = 0
    for name, batch in files.batch_of.items():
        path = files.order[name]
        side = side_of(path)
        latest = None if side.not_after is None else _modified(path) + side.not_after
        rows = []
        for line in lines(path):
            records += 1
            row = side.decode(line)
            if row is None or (latest is not None and side.at(row) > latest):
                malformed += 1
            else:
                rows.append(row)
        batches[batch] += rows
        moving = [side.at(row) for row in rows if side.moves(row)] if side.delay is not None else []
        # A run that came to its end owes the watermark of its whole input, whatever it says that it read.
        read = max(facts.watermarks, default=None) if batch is None and facts.ended else batch
        if read is not None and moving:
            known = tops[id(side)][read]
            tops[id(side)][read] = max(moving) if known is None else max(known, *moving)
    found = timeline([tops[id(side)] for side in sides], [side.delay or 0 for side in sides], facts)
    return InputReplay(
        batches=batches,
        marks=found.marks,
        committed=found.committed,
        records=records,
        malformed=malformed,
        problems=(*files.problems, *found.problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The watermark of each batch by the input, the newest batch whose output is owed, and what contradicts them."""

    marks: Mapping[int, int]
    committed: int
    problems: tuple[str, ...] = ()


def timeline(highest: Sequence[Mapping[int, int | None]], delays: Sequence[int], facts: RunFacts) -> Timeline:
    """The watermarks of a run whose sources had these newest events; see `least_watermarks`.

    Raises VerificationError if the checkpoint says otherwise and a start whose logs are not known could explain it.

    A run that came to the end of its input owes what ended before the last watermark that the input gives, whether it
    says that a batch emitted it or not: after the last rows Spark runs a batch without data, if they moved the
    watermark. Only after a start it does not: the new driver knows nothing of a batch that moved it.
    """
    explained = restarts(facts.starts)
    marks = least_watermarks(highest, delays, facts.watermarks, explained)
    committed = -1 if facts.committed is None else facts.committed
    last = max(marks)
    problems = disagreements(marks, facts.watermarks)
    # A start only lets a watermark stand, so it cannot explain a higher one.
    lower = {batch: mark for batch, mark in facts.watermarks.items() if mark < marks[batch]}
    require_known(facts.starts, disagreements(marks, lower))
    moved = marks[last] > marks.get(last - 1, 0)
    if facts.ended and moved and committed == last - 1 and last not in explained.first:
        unfinished = (
            f"batch {committed} moved the watermark to {moment(marks[last])}, and no batch followed it: what ended by "
            "then is owed (Spark runs a batch without data by itself)"
        )
        require_known(facts.starts, [unfinished])
        return Timeline(marks=marks, committed=last, problems=(*problems, unfinished))
    marks.pop(last)
    return Timeline(marks=marks, committed=committed, problems=tuple(problems))


def moment(milliseconds: int) -> datetime:
    """Unix milliseconds as an aware datetime, the form in which an output's timestamps are read."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True, slots=True)
class _Placement:
    order: Mapping[str, Path]
    batch_of: Mapping[str, int | None]
    problems: tuple[str, ...]


def _place(inputs: Sequence[Path], read: Mapping[int, Sequence[Path]]) -> _Placement:
    """Each input file's batch. Files are matched by name: a fork reads links to them in a folder of its own."""
    order = {path.name: path for path in inputs}
    if len(order) < len(inputs):
        raise VerificationError(
            f"{len(inputs) - len(order)} input files share their name with another one",
            expected="names that tell the input files apart",
            where=str(inputs[0].parent),
            next_step="rename them, or verify one folder at a time",
        )
    batch_of: dict[str, int | None] = {}
    twice, foreign = [], []
    for batch in sorted(read):
        for path in read[batch]:
            if path.name not in order:
                foreign.append(path.name)
            elif path.name in batch_of:
                twice.append(f"{path.name} (batches {batch_of[path.name]} and {batch})")
            else:
                batch_of[path.name] = batch
    unread = [name for name in order if name not in batch_of]
    batch_of.update(dict.fromkeys(unread))
    problems = (
        *some("input file never read", unread),
        *some("input file read twice", twice),
        *some("file read that is not in the input", foreign),
    )
    return _Placement(order, batch_of, problems)


def _require_every_batch(facts: RunFacts) -> None:
    last = -1 if facts.committed is None else facts.committed
    missing = [batch for batch in range(last + 1) if batch not in facts.watermarks]
    missing += [batch for batch in facts.files if batch not in facts.watermarks]
    if missing:
        raise VerificationError(
            f"the offset log no longer has batch {missing[0]} ({len(missing)} batches in all)",
            expected=f"each batch from 0 to {last}, since any of them decides which rows were late",
            where="offsets/",
            next_step="verify a run of fewer batches, or raise spark.sql.streaming.minBatchesToRetain",
        )


def _modified(path: Path) -> int:
    """Unix milliseconds, all that Spark knows of it."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise unreadable(path, error) from error


def disagreements(computed: Mapping[int, int], logged: Mapping[int, int]) -> list[str]:
    """Watermarks of the checkpoint that are not what the input makes them, as problems."""
    return some(
        "watermark that the input does not explain",
        [
            f"batch {batch}: {moment(logged[batch])} in the offset log, {moment(computed[batch])} by the input"
            for batch in sorted(logged)
            if computed[batch] != logged[batch]
        ],
    )


def some(what: str, cases: Sequence[str]) -> list[str]:
    """A few of the cases as problems, and the number of the rest."""
    named = [f"{what}: {case}" for case in cases[:_NAMED]]
    rest = len(cases) - len(named)
    return [*named, f"{what}: {rest} more"] if rest else named
