"""The batch oracle of a windowed aggregation: reads every line of the whole input and sums it in a plain loop.

A job's own oracle defines only how a line becomes a row, the windows, the delay and the names of the columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from streamwarden.verification.batches import moment, replay_input
from streamwarden.verification.oracle import Expectation, RowCounts, RunFacts
from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.tolerance import Tolerance
from streamwarden.verification.windows import Row, Sliding, aggregate

__all__ = ["WindowedQuestion", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedQuestion:
    """The definition of a windowed aggregation.

    Args:
        decode: a line of input -> its row, or None if the line is malformed.
        delay: how far the watermark stays behind the newest event, milliseconds.
        not_after: rows whose event time is more than these milliseconds after the modification of their file are
            malformed; None: none are.
        group_columns: names of a row's `group`; the key is `window_start` and these.
        amount_columns: names of a row's `amounts`; the values are `window_end` and these, summed.
        count_column: the amount that is 1 in each row, to compare with `counts`.
        types, complete, tolerances: of the output's columns; see `Expectation`.
    """

    decode: Callable[[str], Row | None]
    windows: Sliding
    delay: int
    group_columns: Sequence[str]
    amount_columns: Sequence[str]
    not_after: int | None = None
    count_column: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)


def answer(question: WindowedQuestion, inputs: Sequence[Path], facts: RunFacts) -> Expectation:
    """The expected output for `inputs`, for a run that read them in the batches of `facts`.

    The watermarks are computed from the input, not taken from the log; if the two differ, that is a problem. A file
    that no batch read is a problem too, and all its rows are expected. A file that two batches read counts once, in
    the first. Raises VerificationError if a file cannot be read or a batch is not in the facts.
    """
    run = replay_input(
        inputs,
        facts,
        decode=question.decode,
        at=lambda row: row.at,
        delay=question.delay,
        not_after=question.not_after,
    )
    totals = aggregate(run.batches.items(), run.marks, question.windows, committed=run.committed, first=facts.first)
    return Expectation(
        key_columns=("window_start", *question.group_columns),
        value_columns=("window_end", *question.amount_columns),
        rows=_rows(totals.emitted, question.windows.length),
        counts=RowCounts(
            records=run.records,
            malformed=run.malformed,
            pairs=totals.pairs,
            dropped=totals.dropped,
            emitted=totals.emitted_pairs,
            emitted_before=totals.emitted_before,
            open=totals.open_pairs,
        ),
        count_column=question.count_column,
        types=question.types,
        complete=question.complete,
        tolerances=question.tolerances,
        problems=run.problems,
        notes={
            "batches": len(facts.watermarks),
            "input_files": len(inputs),
            "late_rows": totals.late_rows,
            "final_watermark": str(moment(run.final_mark)),
        },
    )


def _rows(emitted: Mapping[Key, list[int]], length: int) -> dict[Key, Values]:
    instants: dict[int, tuple[datetime, datetime]] = {}  # a few thousand windows, several hundred thousand keys
    rows: dict[Key, Values] = {}
    for (start, *group), sums in emitted.items():
        assert isinstance(start, int)
        if start not in instants:
            instants[start] = moment(start), moment(start + length)
        begin, end = instants[start]
        rows[(begin, *group)] = (end, *sums)
    return rows
