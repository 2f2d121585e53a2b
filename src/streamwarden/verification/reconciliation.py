"""Reconciliation: the outcome of a comparison of expected rows with actual rows, by key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from streamwarden.verification.comparing.columns import ColumnReport, Role

__all__ = ["Key", "Values"]

Key = tuple[object, ...]
Values = tuple[object, ...]

SAMPLES: Final = 5
"""Rows of each kind that are kept as text: enough to start an investigation, few enough to read."""

LATE_ROWS: Final = "late_rows"
"""The note of an oracle that says how many input rows were late, and so dropped."""

CHANGED_BY_COPIES: Final = "rows_changed_by_copies"
"""The note that says how many rows of the expected output differ from those without the copies of input files."""


KINDS: Final = ("lost", "duplicated", "unexpected", "wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviations:
    """Numbers of rows that are not as expected.

    Args:
        lost: expected keys that are missing.
        duplicated: surplus rows of keys that are expected once.
        unexpected: rows whose key is not expected at all.
        wrong: rows whose key is right and whose values are not.
    """

    lost: int
    duplicated: int
    unexpected: int
    wrong: int

    @property
    def kinds(self) -> dict[str, int]:
        return {kind: getattr(self, kind) for kind in KINDS}

    @property
    def rows_differ(self) -> bool:
        return any(self.kinds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation(Deviations):
    """The outcome, in rows. Exactly-once holds when lost, duplicated, unexpected and wrong are all 0, and there is no
    problem. Always: actual = expected - lost + duplicated + unexpected.

    Args:
        expected: rows that the oracle expects; actual: rows that a reader of the sink sees.
        records: input records that the expectation was computed from.
        repeated: rows that an at-least-once sink wrote again. A reader recognises them by their event ids, and no other
            number counts them. None: the sink never repeats rows.
        samples: kind -> a few of the rows concerned, as text: key, values, the batch that wrote the row and its input,
            as far as these are known.
        notes: other observations of the verifier: orphan files, late rows dropped, …
        problems: violations of exactly-once even if the rows agree: an input file never read, a gap in the manifest, a
            watermark that the input does not explain, row counts that do not add up, a column of another type.
        columns: a report on each column of the output and of the oracle; their problems are also in `problems`.
        evidence: what was compared, for a judge that counts again; not part of a journal.
    """

    expected: int
    actual: int
    records: int = 0
    repeated: int | None = None
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    columns: tuple[ColumnReport, ...] = ()
    evidence: object = field(default=None, repr=False, compare=False)

    @property
    def exactly_once(self) -> bool:
        return self.expected > 0 and not (self.rows_differ or self.problems)

    @property
    def not_judged(self) -> tuple[str, ...]:
        """Columns of the output that the oracle does not mention."""
        return tuple(column.name for column in self.columns if column.role is Role.NOT_JUDGED)

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without the evidence."""
        return {
            "expected": self.expected,
            "actual": self.actual,
            **self.kinds,
            "records": self.records,
            "repeated": self.repeated,
            "exactly_once": self.exactly_once,
            "samples": {kind: list(rows) for kind, rows in self.samples.items()},
            "notes": dict(self.notes),
            "problems": list(self.problems),
            "not_judged": list(self.not_judged),
            "columns": [{**asdict(column), "role": column.role.value} for column in self.columns],
        }
