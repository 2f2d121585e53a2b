"""Great Expectations as the judge of a reconciliation. The only place that imports it, and lazily: it takes seconds.

The judge trusts no counter. It gets the rows, matches them again with pandas (an outer join; the reconciliation uses
dictionaries), states its expectations on what it finds, and only then are the two compared. If they disagree, one of
the verifiers is broken and there is no verdict.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from streamwarden.drills.ports import Judgement
from streamwarden.errors import VerificationError
from streamwarden.verification.columns import Role
from streamwarden.verification.reconciliation import Evidence, Reconciliation
from streamwarden.verification.tolerance import Tolerance, is_nan, number

if TYPE_CHECKING:
    import pandas as pd

_PRESENCE: Final = "presence"
_VALUES: Final = "values"
_BOTH: Final = "expected and actual"
_EQUAL: Final = "equal"


def judge(reconciliation: Reconciliation, min_records: int = 1) -> Judgement:
    """Great Expectations' verdict, as suites: the output's rows, expected against actual, the columns, the books.

    Args:
        min_records: input records below which a verification proves nothing.

    Raises VerificationError if the reconciliation carries no rows, an expectation could not be evaluated, or the
    verdict and the reconciliation's counters disagree.
    """
    evidence = reconciliation.evidence
    if evidence is None:
        raise VerificationError(
            "the reconciliation carries no rows",
            expected="the rows that were compared, so that they can be judged again",
            where="Great Expectations",
            next_step="pass on what reconcile() returned, not a copy from a journal",
        )
    import great_expectations as gx

    wanted, actual = _frames(evidence)
    context = _quiet_context(gx)
    suites = {
        "output": _validate(context, "output", actual, _of_output(evidence, wanted, actual)),
        "comparison": _validate(context, "comparison", _compare(evidence, wanted, actual), _of_comparison()),
        **_columns(context, evidence),
        "books": _validate(context, "books", _books(reconciliation), _of_books(min_records)),
    }
    success = all(bool(result["success"]) for result in suites.values())
    rows = [_summary(name, each) for name, result in suites.items() for each in result["results"]]
    _require_agreement(reconciliation, suites, success, min_records)
    return Judgement(
        judge=f"great_expectations {gx.__version__}", success=success, expectations=tuple(rows), result=suites
    )


def _frames(evidence: Evidence) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Expected and actual rows. Keys stay Python objects, so that no type is guessed into equality."""
    import pandas as pd

    columns = [*evidence.key_columns, *evidence.value_columns]
    frames = []
    for rows in (evidence.expected.items(), evidence.actual):
        frame = pd.DataFrame([(*key, *values) for key, values in rows], columns=columns, dtype=object)
        frames.append(frame)
    return frames[0], frames[1]


def _compare(evidence: Evidence, wanted: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Outer join by key: where each row was found, and whether its values agree (null where there is no pair)."""
    keys, names = list(evidence.key_columns), list(evidence.value_columns)
    joined = wanted.merge(actual, how="outer", on=keys, suffixes=("_expected", "_actual"), indicator=_PRESENCE)
    joined[_PRESENCE] = joined[_PRESENCE].map(
        {"both": _BOTH, "left_only": "expected only", "right_only": "actual only"}
    )
    joined[_PRESENCE] = joined[_PRESENCE].astype(object)
    same = [True] * len(joined)
    for name in names:
        equal = _equality(evidence.tolerances.get(name))
        pairs = zip(same, joined[f"{name}_expected"], joined[f"{name}_actual"], strict=True)
        same = [so_far and equal(wanted, found) for so_far, wanted, found in pairs]
    joined[_VALUES] = [_EQUAL if each else "different" for each in same]
    joined.loc[joined[_PRESENCE] != _BOTH, _VALUES] = None
    return joined


def _equality(tolerance: Tolerance | None) -> Callable[[object, object], bool]:
    """Whether two values are equal; by a formula that is written a second time, so that two of them have to agree."""

    def equal(wanted: object, actual: object) -> bool:
        if wanted == actual:  # nearly every pair: the rest is asked of the others alone
            return True
        if is_nan(wanted) or is_nan(actual):
            return is_nan(wanted) and is_nan(actual)
        if tolerance is None:
            return False
        one, other = number(wanted), number(actual)
        if one is None or other is None:
            return False
        return math.isclose(one, other, rel_tol=tolerance.relative, abs_tol=tolerance.absolute)

    return equal


def _columns(context: Any, evidence: Evidence) -> dict[str, dict[str, Any]]:
    """The suite of the columns, if anything is known of them: each deviation is one unexpected value."""
    import pandas as pd

    if not evidence.columns:
        return {}
    columns = [{**asdict(column), "role": column.role.value} for column in evidence.columns]
    frame = pd.DataFrame(columns, dtype=object)
    left_out = [column.name for column in evidence.columns if column.role is Role.NOT_JUDGED]
    notes = f"not judged: {', '.join(left_out)}" if left_out else "every column is judged"
    return {
        "columns": _validate(
            context, "columns", frame, [_kinds().ExpectColumnValuesToBeNull(column="problem", notes=notes)]
        )
    }


def _books(reconciliation: Reconciliation) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "records": reconciliation.records,
                "expected_rows": reconciliation.expected,
                "problems": len(reconciliation.problems),
            }
        ]
    )


def _of_output(evidence: Evidence, wanted: pd.DataFrame, actual: pd.DataFrame) -> list[Any]:
    gxe = _kinds()
    expectations: list[Any] = [
        gxe.ExpectTableRowCountToEqual(value=len(wanted)),
        _unique(evidence.key_columns),
    ]
    for name in evidence.value_columns:
        # Sums only where both sides hold numbers. A column of another type, or with a tolerance, is judged row by row
        # in the comparison.
        if name in evidence.tolerances:
            continue
        if len(actual) and _all_integers(wanted[name]) and _all_integers(actual[name]):
            total = int(wanted[name].sum())
            actual[name] = actual[name].astype("int64")
            expectations.append(gxe.ExpectColumnSumToBeBetween(column=name, min_value=total, max_value=total))
    return expectations


def _unique(columns: Sequence[str]) -> Any:
    gxe = _kinds()
    if len(columns) == 1:  # which the expectation of compound columns refuses
        return gxe.ExpectColumnValuesToBeUnique(column=columns[0])
    return gxe.ExpectCompoundColumnsToBeUnique(column_list=list(columns))


def _all_integers(column: pd.Series[Any]) -> bool:
    return all(type(value) is int for value in column)


def _of_comparison() -> list[Any]:
    gxe = _kinds()
    return [
        gxe.ExpectColumnValuesToBeInSet(column=_PRESENCE, value_set=[_BOTH]),
        gxe.ExpectColumnValuesToBeInSet(column=_VALUES, value_set=[_EQUAL]),
    ]


def _of_books(min_records: int) -> list[Any]:
    gxe = _kinds()
    # One row, so a sum is the number itself, and the result shows it.
    return [
        gxe.ExpectColumnSumToBeBetween(column="records", min_value=min_records),
        gxe.ExpectColumnSumToBeBetween(column="expected_rows", min_value=1),
        gxe.ExpectColumnSumToBeBetween(column="problems", min_value=0, max_value=0),
    ]


def _kinds() -> Any:
    """The module of expectations; as Any, because it re-exports them without saying so to a type checker."""
    import great_expectations.expectations as gxe

    return gxe


def _quiet_context(gx: Any) -> Any:
    """A context in memory that sends nothing anywhere and draws no progress bars into a log."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    context = gx.get_context(mode="ephemeral")
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _validate(context: Any, name: str, frame: pd.DataFrame, expectations: Sequence[Any]) -> dict[str, Any]:
    from great_expectations import ExpectationSuite

    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
    validation = batch.validate(ExpectationSuite(name=name, expectations=list(expectations)))
    # Through JSON text: what goes into a journal is plain JSON, whatever types a frame had.
    result: dict[str, Any] = json.loads(json.dumps(validation.to_json_dict(), default=str))
    for each in result["results"]:
        if each["exception_info"].get("raised_exception"):
            raise VerificationError(
                f"{each['expectation_config']['type']} could not be evaluated: "
                f"{each['exception_info'].get('exception_message')}",
                expected="each expectation to be evaluated",
                where=f"Great Expectations, suite {name}",
                next_step="read the message; the output may hold values of an unexpected type",
            )
    return result


def _summary(suite: str, result: Mapping[str, Any]) -> dict[str, Any]:
    config, seen = result["expectation_config"], result["result"]
    kwargs = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    observed = seen.get("observed_value", seen.get("unexpected_count"))
    return {
        "suite": suite,
        "name": config["type"],
        "about": kwargs,
        "notes": config.get("notes"),
        "success": bool(result["success"]),
        "observed": observed,
        "unexpected_count": seen.get("unexpected_count"),
        "unexpected_samples": seen.get("partial_unexpected_counts") or [],
    }


def _require_agreement(
    reconciliation: Reconciliation, suites: Mapping[str, Mapping[str, Any]], success: bool, min_records: int
) -> None:
    """The judge and the counters were reached in different ways and must say the same."""

    def count(suite: str, kind: str, key: str, column: str | None = None) -> int:
        for each in suites[suite]["results"]:
            config = each["expectation_config"]
            if config["type"] == kind and config["kwargs"].get("column") == column:
                return int(each["result"].get(key) or 0)
        raise KeyError(kind)

    in_set = "expect_column_values_to_be_in_set"
    rows = count("output", "expect_table_row_count_to_equal", "observed_value")
    misplaced = count("comparison", in_set, "unexpected_count", _PRESENCE)
    different = count("comparison", in_set, "unexpected_count", _VALUES)
    ours = {
        "rows": reconciliation.actual,
        "lost and unexpected": reconciliation.lost + reconciliation.unexpected,
        "wrong": reconciliation.wrong,
        "success": reconciliation.exactly_once and reconciliation.records >= min_records,
    }
    theirs = {"rows": rows, "lost and unexpected": misplaced, "wrong": different, "success": success}
    if ours != theirs:
        raise VerificationError(
            f"Great Expectations says {theirs}",
            expected=f"what the reconciliation says: {ours}",
            where="verification",
            next_step="trust neither: one of the two verifiers has a defect",
        )
