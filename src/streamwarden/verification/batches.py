"""The whole bounded input of a run, batch by batch, with each batch's watermark: the basis of an event-time oracle.

Only the order is taken from the run (which batch read which file). The watermarks are computed from the input and from
the starts of the drivers, which the run did not write. If the checkpoint differs, that is a problem.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from streamwarden.errors import VerificationError
from streamwarden.verification.comparing.starts import require_known, restarts
from streamwarden.verification.input_lines import lines, require_lines, unreadable
from streamwarden.verification.oracle import RunFacts
from streamwarden.verification.windows import least_watermarks

__all__ = ["InputBatch", "InputReplay", "Side", "moment", "replay_input", "replay_sides", "some", "timeline"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = 5
"""Problems of one kind that are written out; the others are counted."""


@dataclass(frozen=True, slots=True)
class InputBatch(Generic[T]):
    """The input of one batch.

    Args:
        rows: in the order of its files' names and lines.
        closed: the watermark of the previous batch (Unix ms). A row at or before it comes too late for this batch,
            because nothing later was emitted yet.
        mark: the watermark of this batch. State at or before it is emitted, or forgotten, when the batch ends.
    """

    batch: int
    rows: Sequence[T]
    closed: int
    mark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReplay(Generic[T]):
    """A bounded input as a run read it.

    Args:
        batches: batch -> its rows, for every planned batch. Batch None has the rows of files that no batch read.
        marks: batch -> watermark, Unix milliseconds.
        committed: newest committed batch, -1 if there is none; a batch that is expected counts too, see `timeline`.
        records, malformed: lines, and how many of them are not rows.
        problems: contradictions between the facts and the input, as text.
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
        """The batches in order. Rows that no batch read are also expected: they are in the first batch."""
        unread = self.batches.get(None, ())
        for batch in sorted(self.marks):
            yield InputBatch(
                batch, [*unread, *self.batches.get(batch, ())], self.marks.get(batch - 1, 0), self.marks[batch]
            )
            unread = ()


@dataclass(frozen=True, kw_only=True)
class Side(Generic[T]):
    """One source of a query: how its lines are decoded, and which times move its watermark.

    Args:
        decode: a line -> its row, or None if the line is malformed.
        at: a row's event time, Unix milliseconds.
        delay: how far the watermark stays behind the newest event, milliseconds; None: the query has no watermark.
        not_after: rows whose event time is more than these milliseconds after the modification of their file are
            malformed too; None: any time is valid.
        moves: whether a row moves the watermark: False for rows that the query filters out before its watermark.
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
    return _replay(inputs, facts, [only], lambda path: only)


def replay_sides(inputs: Sequence[Path], facts: RunFacts, sides: Mapping[str, Side[Any]]) -> InputReplay[Any]:
    """Read every line of `inputs` and put each row into its batch.

    Args:
        sides: name of a file's folder -> the source that reads it. The query's watermark is the lowest of theirs: 0
            until each of them has had an event; see `least_watermarks` for a query that was restarted.

    A file that no batch read is a problem. A file that two batches read is one too, and counts once, in the first.
    Raises VerificationError if a file cannot be read, belongs to no side, or a batch is not in the facts.
    """

    def side_of(path: Path) -> Side[Any]:
        side = sides.get(path.parent.name)
        if side is None:
            raise VerificationError(
                f"an input file that belongs to no source: {path}",
                expected=f"files in {' or '.join(sides)}",
                where=str(path.parent),
                next_step="move the file to another folder, or declare the source's parts in the oracle",
            )
        return side

    return _replay(inputs, facts, list(sides.values()), side_of)


def _replay(
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
        # A run that came to its end has the watermark of its whole input, whatever it says that it read.
        read = max(facts.watermarks, default=None) if batch is None and facts.ended else batch
        if read is not None and moving:
            tops_of_batch = tops[id(side)][read]
            tops[id(side)][read] = max(moving) if tops_of_batch is None else max(tops_of_batch, *moving)
    marks = timeline([tops[id(side)] for side in sides], [side.delay or 0 for side in sides], facts)
    return InputReplay(
        batches=batches,
        marks=marks.marks,
        committed=marks.committed,
        records=records,
        malformed=malformed,
        problems=(*files.problems, *marks.problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The watermark of each batch by the input, the newest batch whose output is expected, and contradictions."""

    marks: Mapping[int, int]
    committed: int
    problems: tuple[str, ...] = ()


def timeline(highest: Sequence[Mapping[int, int | None]], delays: Sequence[int], facts: RunFacts) -> Timeline:
    """The watermarks of a run whose sources had these newest events; see `least_watermarks`.

    Raises VerificationError if the checkpoint differs and a start whose logs are unknown could explain it.

    If a run came to the end of its input, everything that ended before the last watermark of the input is expected,
    whether or not the run says that a batch emitted it: if the last rows moved the watermark, Spark then runs a batch
    without data. Only after a start it does not, because the new driver does not know that a batch moved it.
    """
    explained = restarts(facts.starts)
    marks = least_watermarks(highest, delays, facts.watermarks, explained)
    committed = -1 if facts.committed is None else facts.committed
    last = max(marks)
    problems = disagreements(marks, facts.watermarks)
    # A start only keeps a watermark from moving, so it cannot explain a higher one.
    lower = {batch: mark for batch, mark in facts.watermarks.items() if mark < marks[batch]}
    require_known(facts.starts, disagreements(marks, lower))
    moved = marks[last] > marks.get(last - 1, 0)
    if facts.ended and moved and committed == last - 1 and last not in explained.first:
        unfinished = (
            f"batch {committed} moved the watermark to {moment(marks[last])}, and no batch followed it: what ended by "
            "then is expected in the output (Spark runs a batch without data by itself)"
        )
        require_known(facts.starts, [unfinished])
        return Timeline(marks=marks, committed=last, problems=(*problems, unfinished))
    marks.pop(last)
    return Timeline(marks=marks, committed=committed, problems=tuple(problems))


def moment(milliseconds: int) -> datetime:
    """Unix milliseconds as an aware datetime, as the timestamps of an output are read."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True, slots=True)
class _Placement:
    order: Mapping[str, Path]
    batch_of: Mapping[str, int | None]
    problems: tuple[str, ...]


def _place(inputs: Sequence[Path], read: Mapping[int, Sequence[Path]]) -> _Placement:
    """Each input file's batch. Files are matched by name, because a fork reads links to them in its own folder."""
    order = {path.name: path for path in inputs}
    if len(order) < len(inputs):
        raise VerificationError(
            f"{len(inputs) - len(order)} input files have the same name as another one",
            expected="a unique name for each input file",
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
            f"the offset log no longer has batch {missing[0]} ({len(missing)} batches are missing)",
            expected=f"each batch from 0 to {last}, because any of them decides which rows were late",
            where="offsets/",
            next_step="verify a run of fewer batches, or raise spark.sql.streaming.minBatchesToRetain",
        )


def _modified(path: Path) -> int:
    """Modification time in Unix milliseconds, the precision that Spark uses."""
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError as error:
        raise unreadable(path, error) from error


def disagreements(computed: Mapping[int, int], logged: Mapping[int, int]) -> list[str]:
    """Watermarks of the checkpoint that differ from those of the input, as problems."""
    return some(
        "watermark that the input does not explain",
        [
            f"batch {batch}: {moment(logged[batch])} in the offset log, {moment(computed[batch])} by the input"
            for batch in sorted(logged)
            if computed[batch] != logged[batch]
        ],
    )


def some(what: str, cases: Sequence[str]) -> list[str]:
    """A few of the cases as problems, and the number of the others."""
    named = [f"{what}: {case}" for case in cases[:_NAMED]]
    rest = len(cases) - len(named)
    return [*named, f"{what}: {rest} more"] if rest else named
