"""What an oracle is told, what it answers, and the Protocol between them.

An oracle states what a stream's output should be, from the whole bounded input, independent of the run under test:
it imports neither the job nor Spark. Nothing that the run under test wrote may lower what is expected of it: a fact of
the checkpoint either is checked against the input and the launcher's own record, or adds a problem. Of the run an
oracle takes which batch read which file, for that decides which rows are late; the watermarks it computes, and those of
the checkpoint are compared with them. Where a job works by the clock, it takes when each batch was planned: the
processing time that Spark gives to all rows and timers of a batch, and gives again when it runs the batch again. What a
run could gain by each fact, and what prevents it: docs/explanation/verification.md.

The oracle of the job `spark_jobs/NAME.py` is the function `expected` in `spark_jobs/oracles/NAME.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.starts import Start


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFacts:
    """What Spark's rate source gave: value v of second s at `began_ms` + s seconds, evenly spread.

    Args:
        began_ms: Unix milliseconds of its second 0, from `sources/0/0`.
        ends: batch -> second that it ends before, from `offsets/BATCH`.
    """

    began_ms: int
    ends: Mapping[int, int]
    rows_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the checkpoint of a bounded run says.

    Args:
        files: batch -> input files that it read, as paths.
        watermarks: batch -> `batchWatermarkMs` of `offsets/BATCH`, Unix milliseconds, for each planned batch: to be
            compared with what the input makes them, never to be believed.
        committed: newest committed batch; None if none was.
        planned: newest planned batch, committed or not; None if none was.
        first: first batch whose output is judged: 0, or for a fork the batch after the one that it was made at.
        times: batch -> `batchTimestampMs` of `offsets/BATCH`, Unix milliseconds: the clock of a job in processing time.
        args: the stream's `args`, for a job whose question has parameters.
        ttl: the stream's `state.ttl`, seconds; None: nothing expires.
        state: batch -> the fields (`VARIABLE.FIELD`) of the state's values, of transformWithState, from this batch on.
        rate: of a stream whose source is no folder but Spark's rate source.
        starts: of the drivers that wrote the checkpoint, as their launcher recorded them. Only these explain that a
            watermark stands still, or that a batch was skipped.
        ended: the run came to the end of its bounded input by itself, and its launcher saw it: what the last watermark
            passed is owed, whether a batch emitted it or not.
    """

    files: Mapping[int, Sequence[Path]]
    watermarks: Mapping[int, int]
    committed: int | None
    planned: int | None = None
    first: int = 0
    times: Mapping[int, int] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    ttl: float | None = None
    state: Mapping[int, frozenset[str]] = field(default_factory=dict)
    rate: RateFacts | None = None
    starts: tuple[Start, ...] = ()
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Where every (row, window) pair of the input went. They balance when `counted` of the output equals `emitted`.

    Args:
        records: input lines; malformed: lines that are no row.
        pairs: (row, window) pairs of the rest.
        dropped: pairs that came after their window was closed.
        emitted: pairs in windows that the output should show, those before `first` apart.
        emitted_before: pairs in windows that were emitted before the first judged batch.
        open: pairs in windows that the watermark has not passed.
    """

    records: int
    malformed: int
    pairs: int
    dropped: int
    emitted: int
    emitted_before: int
    open: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What the output should be.

    Args:
        rows: key -> values; timestamps are aware datetimes in UTC.
        count_column: the value column that counts input rows, for the books; None: there is none.
        problems: what in the facts contradicts the input, in words.
        notes: what a reader of the journal may want to know.
    """

    key_columns: Sequence[str]
    value_columns: Sequence[str]
    rows: Mapping[Key, Values] = field(repr=False)
    books: Books
    count_column: str | None = None
    problems: tuple[str, ...] = ()
    notes: Mapping[str, object] = field(default_factory=dict)


class Oracle(Protocol):
    """Computes the expected output of a bounded run.

    Raises VerificationError if no expectation can be formed (the input cannot be read).
    """

    def __call__(self, inputs: Sequence[Path], facts: RunFacts) -> Expectation: ...
