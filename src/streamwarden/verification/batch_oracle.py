"""The batch oracle of a windowed aggregation: reads every line of the whole input and sums it in a plain loop.

A job's own oracle says only how a line becomes a row, the windows, the delay and the names of the columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from streamwarden.errors import VerificationError
from streamwarden.verification.oracle import Books, Expectation, RunFacts
from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.windows import Row, Sliding, aggregate, watermarks

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = 5
"""Problems of one kind that are spelled out; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedQuestion:
    """What a windowed aggregation is asked.

    Args:
        decode: a line of input -> its row, or None if the line is malformed.
        delay: how far the watermark stays behind the newest event, milliseconds.
        group_columns: names of a row's `group`; the key is `window_start` and these.
        amount_columns: names of a row's `amounts`; the values are `window_end` and these, summed.
        count_column: the amount that is 1 in each row, for the books.
    """

    decode: Callable[[str], Row | None]
    windows: Sliding
    delay: int
    group_columns: Sequence[str]
    amount_columns: Sequence[str]
    count_column: str | None = None


def answer(question: WindowedQuestion, inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The output that the question has over `inputs`, for a run that read them in the batches of `facts`.

    The watermarks are computed from the input, not taken from the log; where the two disagree there is a problem.
    A file that no batch read is a problem too, and its rows are owed in full. One that two batches read counts once,
    in the first. Raises VerificationError if a file cannot be read or a batch is not in the facts.
    """
    files = _place(inputs, facts.files)
    _require_every_batch(facts)
    rows, records, malformed = _read(files.order, question.decode)
    batches: dict[int | None, list[Row]] = {batch: [] for batch in sorted(facts.watermarks)}
    batches[None] = []
    for name, batch in files.batch_of.items():
        batches[batch].extend(rows[name])
    top = {batch: max((row.at for row in each), default=None) for batch, each in batches.items() if batch is not None}
    marks = watermarks(top, question.delay)
    totals = aggregate(
        batches.items(),
        marks,
        question.windows,
        committed=-1 if facts.committed is None else facts.committed,
        first=facts.first,
    )
    length = question.windows.length
    final = marks.get(-1 if facts.committed is None else facts.committed, 0)
    return Expectation(
        key_columns=("window_start", *question.group_columns),
        value_columns=("window_end", *question.amount_columns),
        rows=_rows(totals.emitted, length),
        books=Books(
            records=records,
            malformed=malformed,
            pairs=totals.pairs,
            dropped=totals.dropped,
            emitted=totals.emitted_pairs,
            emitted_before=totals.emitted_before,
            open=totals.open_pairs,
        ),
        count_column=question.count_column,
        problems=(*files.problems, *_disagreements(marks, facts.watermarks)),
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "late_rows": totals.late_rows,
            "final_watermark": str(_instant(final)),
        },
    )


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
        *_some("input file never read", unread),
        *_some("input file read twice", twice),
        *_some("file read that is not in the input", foreign),
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


def _read(files: Mapping[str, Path], decode: Callable[[str], Row | None]) -> tuple[dict[str, list[Row]], int, int]:
    """Rows of each file, the number of lines, and how many were malformed. Blank lines are no records."""
    rows: dict[str, list[Row]] = {}
    records = malformed = 0
    for name, path in files.items():
        kept = rows[name] = []
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise VerificationError(
                f"an input file cannot be read: {error}",
                expected="the whole input, as the stream read it",
                where=str(path),
                next_step="restore the file",
            ) from error
        for line in lines:
            if not line.strip():
                continue
            records += 1
            row = decode(line.decode("utf-8", errors="replace"))
            if row is None:
                malformed += 1
            else:
                kept.append(row)
    return rows, records, malformed


def _rows(emitted: Mapping[Key, list[int]], length: int) -> dict[Key, Values]:
    instants: dict[int, tuple[datetime, datetime]] = {}  # a few thousand windows, several hundred thousand keys
    rows: dict[Key, Values] = {}
    for (start, *group), sums in emitted.items():
        assert isinstance(start, int)
        if start not in instants:
            instants[start] = _instant(start), _instant(start + length)
        begin, end = instants[start]
        rows[(begin, *group)] = (end, *sums)
    return rows


def _disagreements(computed: Mapping[int, int], logged: Mapping[int, int]) -> list[str]:
    return _some(
        "watermark that the input does not explain",
        [
            f"batch {batch}: {_instant(logged[batch])} in the offset log, {_instant(computed[batch])} by the input"
            for batch in sorted(logged)
            if computed[batch] != logged[batch]
        ],
    )


def _instant(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _some(what: str, cases: Sequence[str]) -> list[str]:
    named = [f"{what}: {case}" for case in cases[:_NAMED]]
    rest = len(cases) - len(named)
    return [*named, f"{what}: {rest} more"] if rest else named


def json_object(line: str) -> dict[str, object] | None:
    """The JSON object in a line; None if it holds something else."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
