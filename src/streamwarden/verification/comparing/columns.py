"""Compares the columns of an output with those of an oracle: which are judged, and whether their types agree.

A column that the oracle does not name is reported as not judged. It is a deviation if the oracle declares the whole
set. Values are compared elsewhere: `5` equals `5.0` there, although the columns have different types.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streamwarden.units import format_list
from streamwarden.verification.comparing.column_types import ColumnType


class Role(StrEnum):
    KEY = "key"
    VALUE = "value"
    NOT_JUDGED = "not judged"
    ADDITIONAL = "additional"  # the oracle declares the whole set of columns, and this one is not in it


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReport:
    """One column of the output or of the oracle.

    Args:
        expected: the type that it should have, as text; None: any.
        actual: the types that it has; several if files or records differ, empty if the column is missing.
        problem: what is wrong with it, as text; None: nothing.
    """

    name: str
    role: Role
    expected: str | None = None
    actual: tuple[str, ...] = ()
    problem: str | None = None


def report_columns(
    keys: Collection[str],
    expected: Mapping[str, ColumnType | None],
    actual: Mapping[str, Sequence[ColumnType]],
    *,
    complete: bool = False,
) -> tuple[ColumnReport, ...]:
    """A report on each column.

    Args:
        keys: those of the oracle's columns that identify a row.
        expected: the oracle's columns, with their types if it declares them.
        actual: the output's columns, with each type that the sink shows. Empty: nothing was written, so the columns
            are unknown.
        complete: the output may have no other columns than the oracle's.
    """
    if not actual:
        return ()
    judged = [_judged(name, name in keys, kind, actual.get(name)) for name, kind in expected.items()]
    others = [_other(name, actual[name], complete, expected) for name in actual if name not in expected]
    return (*judged, *others)


def _judged(name: str, key: bool, expected: ColumnType | None, actual: Sequence[ColumnType] | None) -> ColumnReport:
    problem = None
    shown = tuple(kind.shown for kind in actual or ())
    wanted = expected.shown if expected is not None else None
    if actual is None:
        problem = f"the output has no column {name}, which the oracle names"
    elif expected is not None and not all(expected.agrees(kind) for kind in actual):
        problem = f"the column {name} is {format_list(shown)} in the output; the oracle expects {wanted}"
    elif not all(one.agrees(other) for one in actual for other in actual):
        problem = f"the column {name} has several types in the output: {format_list(shown)}"
    return ColumnReport(name=name, role=Role.KEY if key else Role.VALUE, expected=wanted, actual=shown, problem=problem)


def _other(name: str, actual: Sequence[ColumnType], complete: bool, expected: Collection[str]) -> ColumnReport:
    shown = tuple(kind.shown for kind in actual)
    if not complete:
        return ColumnReport(name=name, role=Role.NOT_JUDGED, actual=shown)
    kind = f" ({format_list(shown)})" if shown else ""
    problem = (
        f"the output has the additional column {name}{kind}; the oracle declares {', '.join(expected)} and no other"
    )
    return ColumnReport(name=name, role=Role.ADDITIONAL, actual=shown, problem=problem)
