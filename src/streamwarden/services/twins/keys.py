"""Finds the columns by which rows of a fork and its twin are compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from streamwarden.errors import VerificationError
from streamwarden.lint.plan_reader import identifying_columns
from streamwarden.services.verifying.matching import distinct_keys
from streamwarden.sinks.output import Output

DECLARED: Final = "declared as verification.key"
WHOLE: Final = "whole rows were compared, as a multiset: no column is known to identify a row"


@dataclass(frozen=True, slots=True)
class RowKey:
    """Columns that identify a row of the output; none: whole rows are compared.

    Args:
        origin: where they come from.
        checked: they are unique in the twin's output.
    """

    columns: tuple[str, ...]
    origin: str
    checked: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"rows are identified by {', '.join(self.columns)} ({self.origin})" if self.columns else self.origin

    def has_value(self, name: str, output: Output) -> bool:
        """Whether rows that this key identifies have the column as a value."""
        return bool(self.columns) and name in output.columns and name not in self.columns


def find_key(declared: Sequence[str], of_sink: Sequence[str], plan: str, output: Output) -> RowKey:
    """The key of the twin's output: the drill's, else the sink's, else the columns that the query groups by,
    else the whole row.

    Only a key that is different in each row of the twin is used: in update mode, for example, a topic has several rows
    of one group.

    Args:
        declared: `verification.key`; of_sink: `sink.key`; plan: the query's logical plan.

    Raises VerificationError if the declared key does not identify a row of the twin's output.
    """
    if declared:
        problem = _why_not(declared, output)
        if problem is not None:
            raise VerificationError(
                f"the declared key {', '.join(declared)} does not identify a row: {problem}",
                expected="columns of the output whose values are different in each row",
                where="verification.key, compared with the twin's output",
                next_step="correct it, or remove it: the drill then finds a key, or compares whole rows",
            )
        return RowKey(tuple(declared), DECLARED, checked=True)
    for key in _candidates(of_sink, plan):
        if _why_not(key.columns, output) is None:
            return replace(key, checked=True)
    return RowKey((), WHOLE)


def _candidates(of_sink: Sequence[str], plan: str) -> Iterator[RowKey]:
    if of_sink:
        yield RowKey(tuple(of_sink), "the sink's key")
    columns = identifying_columns(plan)
    if columns:
        yield RowKey(columns, "what the query groups by")


def _why_not(columns: Sequence[str], output: Output) -> str | None:
    missing = [name for name in columns if name not in output.columns]
    if missing:
        return f"the output has no column {missing[0]} (it has {', '.join(output.columns) or 'none'})"
    distinct = distinct_keys(output, columns)
    return None if distinct == output.count else f"{output.count:,} rows have {distinct:,} different values"
