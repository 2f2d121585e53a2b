"""Describe the judge's expectations of the output or of the books in sentences. Pure.

A judgement keeps the names and the arguments of Great Expectations' expectations. An expectation that this module does
not know, of another version, is shown with its own name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamwarden.drills.records.types import Judgement
from streamwarden.verification.reconciliation import KINDS

SUM: Final = "expect_column_sum_to_be_between"
NOT_IN: Final = "expect_column_values_to_not_be_in_set"
EMPTY: Final = "expect_column_values_to_be_null"

_ABOUT: Final = {
    "output": "the output, counted a second time",
    "comparison": "the rows that the comparison names",
    "columns": "the columns",
    "books": "the books",
    "groups": "the groups of the audit",
    "totals": "the totals of the audit, added up a second time",
}
"""Suite -> what it is about."""

_COUNTED: Final = {
    "rows": ("the output has {} row", "the output has {} rows"),
    "records": ("{} input record was read", "{} input records were read"),
    "expected_rows": ("{} row is expected", "{} rows are expected"),
    "groups": ("{} group was balanced", "{} groups were balanced"),
    "problems": ("{} problem was found", "{} problems were found"),
    "unbalanced": ("{} group does not balance", "{} groups do not balance"),
    **{kind: (f"{{}} row is {kind}", f"{{}} rows are {kind}") for kind in KINDS},
}
"""Column of a suite -> what its sum counts, of one and of several."""

_NONE: Final = {
    "problems": "no problem was found",
    "unbalanced": "every group balances",
    **{kind: f"no row is {kind}" for kind in KINDS},
}
"""The same for a sum that has to be 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One expectation in words.

    Args:
        about: what it was expected of.
        observed: what was found; empty: the judge does not say.
        examples: rows that do not meet it.
    """

    about: str
    expected: str
    met: bool
    observed: str = ""
    examples: tuple[str, ...] = ()


def expectations_of(judgement: Judgement | None) -> tuple[Expectation, ...]:
    """The expectations in the order in which they were judged; none without a judgement."""
    return () if judgement is None else tuple(_in_words(expectation) for expectation in judgement.expectations)


def _in_words(stored: Mapping[str, Any]) -> Expectation:
    query, _, suite = str(stored.get("suite", "")).rpartition(": ")
    about = _ABOUT.get(suite, suite)
    return Expectation(
        about=f"{query}: {about}" if query else about,
        expected=_expected(str(stored.get("name", "")), stored.get("about") or {}, stored.get("notes")),
        met=bool(stored.get("success")),
        observed=_number(stored.get("observed")),
        examples=_examples(stored),
    )


def _expected(name: str, about: Mapping[str, Any], notes: Any) -> str:
    column = str(about.get("column", ""))
    if name == SUM:
        return _sum(column, about.get("min_value"), about.get("max_value"))
    if name == NOT_IN:
        return f"none is {' or '.join(map(str, about.get('value_set') or ()))}"
    if name == EMPTY:
        return f"none has a problem{f' ({notes})' if notes else ''}"
    arguments = ", ".join(f"{key} {_number(value)}" for key, value in about.items())
    return f"{name}: {arguments}" if arguments else name


def _sum(column: str, least: Any, most: Any) -> str:
    """`exactly 169,610 rows`: a range that is one number, or has no upper end."""
    if least == most == 0 and column in _NONE:
        return _NONE[column]
    if least == most:
        amount = _number(least)
    elif most is None:
        amount = f"at least {_number(least)}"
    else:
        amount = f"between {_number(least)} and {_number(most)}"
    if column in _COUNTED:
        one, several = _COUNTED[column]
        return (one if least == 1 and most in (1, None) else several).format(amount)
    return f"the {column if ' of ' in column else f'sum of {column}'} is {amount}"


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"


def _examples(stored: Mapping[str, Any]) -> tuple[str, ...]:
    """Values that do not meet it. The name of a kind of deviation is none: the expectation names it."""
    if stored.get("name") == NOT_IN:
        return ()
    samples = stored.get("unexpected_samples") or ()
    return tuple(str(sample.get("value", sample)) if isinstance(sample, Mapping) else str(sample) for sample in samples)
