"""The input of an oracle, its result, and the Protocol between them.

An oracle computes a stream's expected output from the whole bounded input, independently of the run under test:
it imports neither the job nor Spark. Nothing that the run under test wrote may lower what is expected of it: a fact of
the checkpoint is either compared with the input and the launcher's own record, or adds a problem. From the run an
oracle takes which batch read which file, because that decides which rows are late. It computes the watermarks, and
compares those of the checkpoint with them. For a job in processing time, it takes when each batch was planned: Spark
gives that time to all rows and timers of a batch, and gives it again when the batch runs again. What a run could gain
by each fact, and what prevents it: docs/explanation/verification.md.

The oracle of the job `spark_jobs/NAME.py` is the function `expected` in `spark_jobs/oracles/NAME.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from streamwarden.errors import VerificationError
from streamwarden.verification.comparing.column_types import ColumnType, parse_type, sample, type_of_values
from streamwarden.verification.comparing.starts import Start
from streamwarden.verification.reconciliation import Key, Values
from streamwarden.verification.tolerance import Tolerance

__all__ = ["Expectation", "RateFacts", "RowCounts", "RunFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateFacts:
    """The rows of Spark's rate source: value v of second s at `began_ms` + s seconds, evenly spread.

    Args:
        began_ms: Unix milliseconds of its second 0, from `sources/0/0`.
        ends: batch -> second that it ends before, from `offsets/BATCH`.
    """

    began_ms: int
    ends: Mapping[int, int]
    rows_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The facts of a bounded run: what its checkpoint says, and what its launcher recorded.

    Args:
        files: batch -> input files that it read, as paths.
        watermarks: batch -> `batchWatermarkMs` of `offsets/BATCH`, Unix milliseconds, for each planned batch. Compare
            them with those that the input gives; never rely on them.
        committed: newest committed batch; None if there is none.
        planned: newest planned batch, committed or not; None if there is none.
        first: first batch whose output is judged: 0, or for a fork the batch after the one at which it was made.
        times: batch -> `batchTimestampMs` of `offsets/BATCH`, Unix milliseconds: the clock of a job in processing time.
        args: the stream's `args`, for a job whose question has parameters.
        ttl: the stream's `state.ttl`, seconds; None: nothing expires.
        state: batch -> the fields (`VARIABLE.FIELD`) of the state's values, of transformWithState, from this batch on.
        rate: for a stream whose source is Spark's rate source instead of a folder.
        starts: of the drivers that wrote the checkpoint, as their launcher recorded them. Only these explain that a
            watermark does not move, or that a batch was skipped.
        ended: the run came to the end of its bounded input by itself, as its launcher recorded: everything that the
            last watermark passed is expected, whether a batch emitted it or not.
        options: of the stream's source; with some of them a record is not a line.
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
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Where every (row, window) pair of the input went. The output has to count `emitted` pairs.

    Args:
        records: input lines; malformed: lines that are not rows.
        pairs: (row, window) pairs of the other lines.
        dropped: pairs that came after their window was closed.
        emitted: pairs in windows that the output should show, without those before `first`.
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
    """The expected output.

    Args:
        rows: key -> values; timestamps are aware datetimes in UTC.
        count_column: the value column that counts input rows, to compare with `counts`; None: there is none.
        problems: contradictions between the facts and the input, as text.
        notes: additional information for readers of the journal.
        types: column -> its type in Spark's DDL (`BIGINT`, `array<string>`). For a column that is not listed only the
            kind of its expected values is compared: an `int` is any of TINYINT to BIGINT, never a DOUBLE.
        complete: `key_columns` and `value_columns` are all columns of the output, and another one is a deviation.
            Otherwise another column is reported as not judged.
        tolerances: value column -> how far its numbers may be from the expected ones. Without one, values are compared
            exactly, so declare one for each column of FLOAT or DOUBLE whose value depends on the order in which Spark
            adds (`sum`, `avg`, …).

    Raises VerificationError if `types` or `tolerances` name an unknown column, or a type does not exist in Spark.
    """

    key_columns: Sequence[str]
    value_columns: Sequence[str]
    rows: Mapping[Key, Values] = field(repr=False)
    counts: RowCounts
    count_column: str | None = None
    problems: tuple[str, ...] = ()
    notes: Mapping[str, object] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    complete: bool = False
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, names, columns in (
            ("types", self.types, (*self.key_columns, *self.value_columns)),
            ("tolerances", self.tolerances, self.value_columns),
        ):
            unknown = [name for name in names if name not in columns]
            if unknown:
                raise _undeclared(f"`{what}` names the column {unknown[0]}", f"one of {', '.join(columns)}")
        for name, written in self.types.items():
            _parsed(name, written)

    def column_types(self) -> dict[str, ColumnType | None]:
        """Each column's type: the declared one, otherwise the kind of its values; None if unknown."""
        return {
            name: _parsed(name, self.types[name]) if name in self.types else type_of_values(self._values(name))
            for name in (*self.key_columns, *self.value_columns)
        }

    def samples(self) -> dict[str, object]:
        """Column -> a value that shows its type, of each column that has one in the expected rows."""
        return {name: sample(self._values(name)) for name in (*self.key_columns, *self.value_columns)}

    def _values(self, column: str) -> Iterator[object]:
        if column in self.key_columns:
            at = list(self.key_columns).index(column)
            return (key[at] for key in self.rows)
        at = list(self.value_columns).index(column)
        return (values[at] for values in self.rows.values())


def _parsed(column: str, written: str) -> ColumnType:
    try:
        return parse_type(written)
    except ValueError as error:
        raise _undeclared(
            f"the column {column} is declared as {written!r}", "a type as Spark's DDL writes it"
        ) from error


def _undeclared(observed: str, expected: str) -> VerificationError:
    return VerificationError(
        observed, expected=expected, where="the oracle's Expectation", next_step="correct the oracle"
    )


class Oracle(Protocol):
    """Computes the expected output of a bounded run.

    Raises VerificationError if no expectation can be formed (the input cannot be read).
    """

    def __call__(self, inputs: Sequence[Path], facts: RunFacts) -> Expectation: ...
