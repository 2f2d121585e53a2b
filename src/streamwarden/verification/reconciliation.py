"""Reconciliation: expected rows against actual rows, by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from streamwarden.verification.columns import ColumnReport, Role
from streamwarden.verification.tolerance import Tolerance, comparison

__all__ = ["Key", "Values"]

Key = tuple[object, ...]
Values = tuple[object, ...]

SAMPLES: Final = 5
"""Rows of each kind that are kept as text: enough to start an investigation, few enough to read."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evidence:
    """The rows that a reconciliation compared, so that another program can compare them again.

    Args:
        key_columns, value_columns: names of the parts of each key and of each row's values.
        expected: every key that should be there, with its values.
        actual: every row that a reader of the sink sees.
        tolerances: value column -> how far its numbers may be from the expected ones.
        columns: a report on each column, including those that are not judged.
    """

    key_columns: Sequence[str]
    value_columns: Sequence[str]
    expected: Mapping[Key, Values]
    actual: Sequence[tuple[Key, Values]]
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    columns: Sequence[ColumnReport] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The outcome, in rows. Exactly-once holds when lost, duplicated, unexpected and wrong are all 0, and there is no
    problem. Always: actual = expected - lost + duplicated + unexpected.

    Args:
        expected: rows that the oracle expects; actual: rows that a reader of the sink sees.
        lost: expected keys that are missing.
        duplicated: surplus rows of keys that are expected once.
        unexpected: rows whose key is not expected at all.
        wrong: rows whose key is right and whose values are not.
        records: input records that the expectation was computed from.
        repeated: rows that an at-least-once sink wrote again. A reader recognises them by their event ids, and no other
            number counts them. None: the sink never repeats rows.
        samples: kind -> a few of the rows concerned, as text.
        notes: other observations of the verifier: orphan files, late rows dropped, …
        problems: violations of exactly-once even if the rows agree: an input file never read, a gap in the manifest, a
            watermark that the input does not explain, row counts that do not add up, a column of another type.
        columns: a report on each column of the output and of the oracle; their problems are also in `problems`.
        evidence: the rows themselves; not part of a journal.
    """

    expected: int
    actual: int
    lost: int
    duplicated: int
    unexpected: int
    wrong: int
    records: int = 0
    repeated: int | None = None
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    columns: tuple[ColumnReport, ...] = ()
    evidence: Evidence | None = field(default=None, repr=False, compare=False)

    @property
    def exactly_once(self) -> bool:
        broken = self.lost or self.duplicated or self.unexpected or self.wrong or self.problems
        return self.expected > 0 and not broken

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Columns of the output that the oracle does not mention."""
        return tuple(column.name for column in self.columns if column.role is Role.NOT_JUDGED)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without the evidence."""
        return {
            "expected": self.expected,
            "actual": self.actual,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "unexpected": self.unexpected,
            "wrong": self.wrong,
            "records": self.records,
            "repeated": self.repeated,
            "exactly_once": self.exactly_once,
            "samples": {kind: list(rows) for kind, rows in self.samples.items()},
            "notes": dict(self.notes),
            "problems": list(self.problems),
            "not_judged": list(self.not_judged),
            "columns": [{**asdict(column), "role": column.role.value} for column in self.columns],
        }


def reconcile(
    expected: Mapping[Key, Values],
    actual: Sequence[tuple[Key, Values]],
    *,
    key_columns: Sequence[str] = (),
    value_columns: Sequence[str] = (),
    records: int = 0,
    repeated: int | None = None,
    notes: Mapping[str, object] | None = None,
    problems: Iterable[str] = (),
    tolerances: Mapping[str, Tolerance] | None = None,
    columns: Sequence[ColumnReport] = (),
) -> Reconciliation:
    """Compare by key, as multisets: each expected key once. Values are compared exactly, except in columns that have a
    tolerance. A key that came twice, once right and once not, is one duplicated and one wrong row.

    Args:
        columns: a report on each column; its problem is a problem of the result.
    """
    bounds = dict(tolerances or {})
    same = comparison(bounds, value_columns)
    seen: dict[Key, int] = {}
    found = _Findings()
    duplicated = unexpected = wrong = 0
    for key, values in actual:
        wanted = expected.get(key)
        if wanted is None:
            unexpected += 1
            found.add("unexpected", key, values)
            continue
        times = seen[key] = seen.get(key, 0) + 1
        if times > 1:
            duplicated += 1
            found.add("duplicated", key, values)
        if not same(values, wanted):
            wrong += 1
            found.add("wrong", key, values, wanted)
    lost = len(expected) - len(seen)
    if lost:
        for key, wanted in expected.items():
            if key not in seen and not found.add("lost", key, wanted):
                break
    return Reconciliation(
        expected=len(expected),
        actual=len(actual),
        lost=lost,
        duplicated=duplicated,
        unexpected=unexpected,
        wrong=wrong,
        records=records,
        repeated=repeated,
        samples={kind: tuple(rows) for kind, rows in found.samples.items()},
        notes=dict(notes or {}),
        problems=(*problems, *(column.problem for column in columns if column.problem is not None)),
        columns=tuple(columns),
        evidence=Evidence(key_columns, value_columns, expected, actual, bounds, columns),
    )


class _Findings:
    def __init__(self) -> None:
        self.samples: dict[str, list[str]] = {}

    def add(self, kind: str, key: Key, values: Values, wanted: Values | None = None) -> bool:
        """Keep a sample if there is room for it; False if this kind has enough."""
        rows = self.samples.setdefault(kind, [])
        if len(rows) >= SAMPLES:
            return False
        text = f"{_text(key)}: {_text(values)}"
        rows.append(text if wanted is None else f"{text}, expected {_text(wanted)}")
        return True


def _text(values: tuple[object, ...]) -> str:
    return "(" + ", ".join(str(value) for value in values) + ")"
