"""Compares two outputs, column by column: the actual output of a run and the expected one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from streamwarden.services.verifying.comparables import Comparables, comparables
from streamwarden.services.verifying.matching import Pair, match, match_rows
from streamwarden.sinks.output import Output, Part, Row
from streamwarden.verification.comparing.columns import ColumnReport
from streamwarden.verification.comparing.samples import Sample
from streamwarden.verification.reconciliation import SAMPLES, Reconciliation
from streamwarden.verification.tolerance import Tolerance

InputOf = Callable[[int], str | None]
"""The input of a batch as text, such as `flights-0: 500 to 1000`; None if it is unknown."""
InputLike = Callable[[Mapping[str, object]], str]
"""The input records that have the values of a key, as text; empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The input of a reconciliation, so that another program can recount.

    Args:
        sides: the rows of both outputs.
        keys, values: names of the columns.
        whole: the keys are whole rows, and may occur several times.
        tolerances: value column -> how far its numbers may be from the expected ones.
        deviations: kind -> some of the rows that deviate, as text: more than the samples.
        columns: a report on each column, including those that are not judged.
    """

    sides: Comparables = field(repr=False)
    keys: Sequence[str]
    values: Sequence[str]
    whole: bool = False
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    deviations: Mapping[str, Sequence[str]] = field(default_factory=dict)
    columns: Sequence[ColumnReport] = ()


def compare_outputs(
    expected: Output,
    actual: Output,
    *,
    key: Sequence[str],
    checked: bool = False,
    records: int = 0,
    tolerances: Mapping[str, Tolerance] | None = None,
    ignored: Iterable[str] = (),
    notes: Mapping[str, object] | None = None,
    input_of: InputOf | None = None,
) -> Reconciliation:
    """Reconcile the rows of `actual` with those of `expected`.

    Args:
        key: the columns that identify a row. Empty: the whole row, as a multiset: a row that is expected three times
            and came twice is one lost row.
        checked: the caller has verified that expected keys are unique.
        records: input records that both outputs come from.
        ignored: columns that are not compared.
        input_of: the input of a batch of `actual`, for the samples.

    Raises VerificationError if two expected rows have the same key.
    """
    left_out = set(ignored)
    columns = [name for name in dict.fromkeys((*expected.columns, *actual.columns)) if name not in left_out]
    return reconcile_outputs(
        expected,
        actual,
        keys=list(key) or columns,
        values=[name for name in columns if name not in key] if key else [],
        whole=not key,
        checked=checked,
        records=records,
        tolerances=tolerances or {},
        notes=notes or {},
        problems=(*expected.problems, *actual.problems),
        input_of=input_of,
    )


def reconcile_outputs(
    expected: Output,
    actual: Output,
    *,
    keys: Sequence[str],
    values: Sequence[str],
    whole: bool = False,
    checked: bool = False,
    records: int = 0,
    tolerances: Mapping[str, Tolerance],
    notes: Mapping[str, object],
    problems: Iterable[str] = (),
    columns: Sequence[ColumnReport] = (),
    input_of: InputOf | None = None,
    input_like: InputLike | None = None,
) -> Reconciliation:
    """Compare by key, as multisets: each expected key once. Values are compared exactly, except in columns that have a
    tolerance. A key that came twice, once right and once not, is one duplicated and one wrong row.

    Args:
        whole: the keys are whole rows, and may occur several times.
        checked: the caller has verified that expected keys are unique.
        columns: a report on each column; its problem is a problem of the result.
        input_like: finds the input of a lost row, if no batch of `expected` is known to have made it.

    Raises VerificationError if two expected rows have the same key.
    """
    bounds = {name: bound for name, bound in tolerances.items() if name in values}
    sides = comparables(expected, actual, [*keys, *values], as_numbers=bounds)
    matches = match_rows(sides, keys) if whole else match(sides, keys, values, bounds, checked=checked)
    show = _Samples(expected, actual, keys, values, input_of, input_like)
    return Reconciliation(
        expected=expected.count,
        actual=actual.count,
        **matches.kinds,
        records=records,
        repeated=actual.repeated,
        samples={
            kind: tuple(str(show.with_origin(pair)) for pair in pairs[:SAMPLES])
            for kind, pairs in matches.examples.items()
        },
        notes=notes,
        problems=(*problems, *(column.problem for column in columns if column.problem is not None)),
        columns=tuple(columns),
        evidence=Evidence(
            sides=sides,
            keys=keys,
            values=values,
            whole=whole,
            tolerances=bounds,
            deviations={kind: list(map(show, pairs)) for kind, pairs in matches.examples.items()},
            columns=columns,
        ),
    )


@dataclass(eq=False)
class _Samples:
    """Shows rows as text."""

    expected: Output
    actual: Output
    keys: Sequence[str]
    values: Sequence[str]
    input_of: InputOf | None
    input_like: InputLike | None

    def __call__(self, pair: Pair) -> str:
        """`(key): (values)`, with the expected values of a row that is wrong."""
        if pair.actual is None:
            assert pair.expected is not None  # a row is on one side at least
            return self._shown(*self.expected.locate(pair.expected))
        text = self._shown(*self.actual.locate(pair.actual))
        if pair.expected is None:
            return text
        part, at = self.expected.locate(pair.expected)
        return f"{text}, expected {_text(part.row(at, self.values))}"

    def with_origin(self, pair: Pair) -> Sample:
        """The row, the batch that wrote it, and that batch's input, as far as these are known."""
        if pair.actual is None:
            return Sample(self(pair), due=self._due(pair))
        batch = self._batch(self.actual, *self.actual.locate(pair.actual))
        return Sample(self(pair), batch, self._read(batch))

    def _due(self, pair: Pair) -> str:
        """The input that should have made a lost row: that of the batch in which an unbroken run wrote it."""
        assert pair.expected is not None  # a row is on one side at least
        part, at = self.expected.locate(pair.expected)
        batch = self._batch(self.expected, part, at)
        if batch is not None:
            read = self._read(batch)
            return f"batch {batch}" + (f", which read {read}" if read else "")
        key = dict(zip(self.keys, part.row(at, self.keys), strict=True))
        return "" if self.input_like is None else self.input_like(key)

    def _read(self, batch: int | None) -> str:
        return "" if batch is None or self.input_of is None else self.input_of(batch) or ""

    def _shown(self, part: Part, at: int) -> str:
        key = part.row(at, self.keys)
        if not self.values:  # a whole row: without a key its column names identify the values
            return _text(tuple(f"{name}={value}" for name, value in zip(self.keys, key, strict=True)))
        return f"{_text(key)}: {_text(part.row(at, self.values))}"

    def _batch(self, output: Output, part: Part, at: int) -> int | None:
        if part.batches is not None:
            batch: int | None = part.batches[at].as_py()
            return batch
        if part.file is None:
            return None
        return (self._file_batches if output is self.actual else self._expected_batches).get(part.file)

    @cached_property
    def _file_batches(self) -> Mapping[str, int]:
        return self.actual.file_batches()

    @cached_property
    def _expected_batches(self) -> Mapping[str, int]:
        return self.expected.file_batches()


def _text(values: Row) -> str:
    return "(" + ", ".join(str(value) for value in values) + ")"
