"""Great Expectations as the judge of a reconciliation and of an audit. The only place that imports it, and lazily: it
takes seconds.

The judge trusts no counter. The deviations are counted a second time, in another way (`recount`), and the sums of all
columns of whole numbers are added up. Great Expectations states what it expects of these numbers, of the deviating rows
that the reconciliation names, of the columns and of the books. Only then are the two compared. If they disagree, one of
the verifiers is broken and there is no verdict.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from streamwarden.drills.records.audited import records_of
from streamwarden.drills.records.types import Judgement
from streamwarden.errors import VerificationError
from streamwarden.services.verifying.outputs import Evidence
from streamwarden.services.verifying.recount import Recount, recount
from streamwarden.verification.comparing.balance import AFTER, BEFORE, Audit, Outcome
from streamwarden.verification.comparing.columns import Role
from streamwarden.verification.reconciliation import KINDS, Reconciliation

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_ONE_CONTEXT = Lock()


def import_beside() -> None:
    """Begin to import Great Expectations in a thread, so that the seconds which that takes pass while the outputs are
    read. `judge` waits for it, and raises its errors."""
    Thread(target=_import, name="import great_expectations").start()


def _import() -> None:
    with suppress(Exception, SystemExit):
        _expectations()


def judge(reconciliation: Reconciliation, min_records: int = 1) -> Judgement:
    """Great Expectations' verdict, as suites: the second count, the deviating rows, the columns, the books.

    Args:
        min_records: input records below which a verification proves nothing.

    Raises VerificationError if the reconciliation carries no rows, an expectation could not be evaluated, or the
    verdict and the reconciliation's counters disagree.
    """
    parts = _parts(reconciliation)
    if not parts:
        raise VerificationError(
            "the reconciliation carries no rows",
            expected="the rows that were compared, so that they can be judged again",
            where="Great Expectations",
            next_step="pass on what the reconciliation returned, not a copy from a journal",
        )
    import great_expectations as gx

    counts = {
        name: recount(part.sides, part.keys, part.values, part.tolerances, whole=part.whole)
        for name, part in parts.items()
    }
    with _quiet_context(gx) as context:
        suites = {
            f"{name}{suite}": result
            for name, evidence in parts.items()
            for suite, result in {
                "output": _judge_output(context, f"{name}output", counts[name], _sums(evidence)),
                "comparison": _judge_comparison(context, f"{name}comparison", evidence),
                **_judge_columns(context, f"{name}columns", evidence),
            }.items()
        }
        suites["books"] = _judge_books(context, reconciliation, min_records)
    judgement = _judgement(gx, suites)
    _require_agreement(reconciliation, list(counts.values()), judgement.success, min_records)
    return judgement


def judge_audit(audit: Audit, min_records: int = 1) -> Judgement:
    """Great Expectations' verdict on an audit that balanced the books of a stream or did not, as suites: the totals,
    which are added up a second time; the groups that do not balance; the books.

    Args:
        min_records: input records below which an audit proves nothing.

    Raises VerificationError if an expectation could not be evaluated, or the verdict and the audit disagree.
    """
    import great_expectations as gx
    import pandas as pd

    gaps = _gaps(audit)
    groups = pd.DataFrame([str(group) for group in audit.worst], columns=["problem"], dtype=object)
    books = {
        "records": records_of(audit),
        "groups": audit.entries,
        "unbalanced": audit.unbalanced,
        "problems": len(audit.problems),
    }
    wanted = [_is_at_least("records", min_records), _is_at_least("groups", 1), _is("unbalanced", 0), _is("problems", 0)]
    empty = [_expectations().ExpectColumnValuesToBeNull(column="problem")]
    with _quiet_context(gx) as context:
        suites = {
            "books": _validate(context, "books", _one_row(books), wanted),
            "groups": _validate(context, "groups", groups, empty),
        }
        if gaps:
            suites["totals"] = _validate(context, "totals", _one_row(gaps), [_is(name, 0) for name in gaps])
    judgement = _judgement(gx, suites)
    ours = audit.outcome is Outcome.BALANCED and records_of(audit) >= min_records
    if ours is not judgement.success:
        observed = f"Great Expectations says {judgement.success}; {gaps}"
        raise _disagreement(observed, f"what the audit says: {audit.sentence}")
    return judgement


def _judgement(gx: Any, suites: Mapping[str, Mapping[str, Any]]) -> Judgement:
    success = all(bool(result["success"]) for result in suites.values())
    rows = tuple(_summary(name, row) for name, result in suites.items() for row in result["results"])
    return Judgement(judge=f"great_expectations {gx.__version__}", success=success, expectations=rows, result=suites)


def _gaps(audit: Audit) -> dict[str, int]:
    """Amount -> the total before minus that after, for each amount of whole numbers. Empty if some keys were
    not judged: the totals hold their rows."""
    gaps = {}
    for name in () if audit.unsure else audit.amounts:
        given = [(side, audit.totals[side].get(name) or 0) for side in (*BEFORE, *AFTER) if side in audit.totals]
        if all(isinstance(value, int) for _, value in given):
            gaps[f"gap of {name}"] = sum(int(value) if side in BEFORE else -int(value) for side, value in given)
    return gaps


def _parts(reconciliation: Reconciliation) -> dict[str, Evidence]:
    """Compared outputs: the whole output, or those of several queries, each with a prefix for its suites."""
    evidence = reconciliation.evidence
    if isinstance(evidence, Evidence):
        return {"": evidence}
    several = evidence.items() if isinstance(evidence, Mapping) else ()
    return {f"{name}: ": part for name, part in several if isinstance(part, Evidence)}


def _sums(evidence: Evidence) -> dict[str, tuple[int, int]]:
    """Value column -> its sum in the expected and in the actual rows, for columns that hold whole numbers alone on both
    sides and have no tolerance. The others are judged row by row."""
    sides, sums = evidence.sides, {}
    for name in evidence.values:
        wanted, came = (table.column(sides.columns[name]) for table in (sides.expected, sides.actual))
        if name not in evidence.tolerances and name in sides.whole_numbers and len(came) and not came.null_count:
            sums[name] = _sum(wanted), _sum(came)
    return sums


def _sum(column: pa.ChunkedArray) -> int:
    """The sum, modulo 2^64."""
    import pyarrow.compute as pc

    return int(pc.sum(column).as_py() or 0)


def _judge_output(context: Any, suite: str, counted: Recount, sums: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """The numbers of the second count. One row, so a sum is the number itself, and the result shows it."""
    numbers = {
        "rows": counted.actual,
        **counted.kinds,
        **{f"sum of {name}": came for name, (_, came) in sums.items()},
    }
    wanted = {
        "rows": counted.expected,
        **dict.fromkeys(KINDS, 0),
        **{f"sum of {name}": total for name, (total, _) in sums.items()},
    }
    return _validate(context, suite, _one_row(numbers), [_is(name, number) for name, number in wanted.items()])


def _judge_comparison(context: Any, suite: str, evidence: Evidence) -> dict[str, Any]:
    """The rows that the reconciliation names: each is one unexpected value."""
    import pandas as pd

    rows = [(kind, row) for kind, shown in evidence.deviations.items() for row in shown]
    frame = pd.DataFrame(rows, columns=["deviation", "row"], dtype=object)
    expectations = [
        _expectations().ExpectColumnValuesToNotBeInSet(column="deviation", value_set=[kind]) for kind in KINDS
    ]
    return _validate(context, suite, frame, expectations)


def _judge_columns(context: Any, suite: str, evidence: Evidence) -> dict[str, dict[str, Any]]:
    """The suite of the columns, if anything is known of them: each deviation is one unexpected value."""
    import pandas as pd

    if not evidence.columns:
        return {}
    columns = [{**asdict(column), "role": column.role.value} for column in evidence.columns]
    frame = pd.DataFrame(columns, dtype=object)
    left_out = [column.name for column in evidence.columns if column.role is Role.NOT_JUDGED]
    notes = f"not judged: {', '.join(left_out)}" if left_out else "every column is judged"
    expectation = _expectations().ExpectColumnValuesToBeNull(column="problem", notes=notes)
    return {"columns": _validate(context, suite, frame, [expectation])}


def _judge_books(context: Any, reconciliation: Reconciliation, min_records: int) -> dict[str, Any]:
    books = {
        "records": reconciliation.records,
        "expected_rows": reconciliation.expected,
        "problems": len(reconciliation.problems),
    }
    expectations = [_is_at_least("records", min_records), _is_at_least("expected_rows", 1), _is("problems", 0)]
    return _validate(context, "books", _one_row(books), expectations)


def _one_row(numbers: Mapping[str, int]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([numbers], dtype="int64")


def _is(column: str, number: int) -> Any:
    return _expectations().ExpectColumnSumToBeBetween(column=column, min_value=number, max_value=number)


def _is_at_least(column: str, number: int) -> Any:
    return _expectations().ExpectColumnSumToBeBetween(column=column, min_value=number)


def _expectations() -> Any:
    """The module of expectations; as Any, because it re-exports them without saying so to a type checker."""
    import great_expectations.expectations as gxe

    return gxe


@contextmanager
def _quiet_context(gx: Any) -> Iterator[Any]:
    """A context in memory that sends nothing anywhere and draws no progress bars into a log. One at a time: Great
    Expectations keeps the newest one for the whole process, and looks every thread's data up in it."""
    from great_expectations.data_context.types.base import ProgressBarsConfig

    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with _ONE_CONTEXT:
        context = gx.get_context(mode="ephemeral")
        context.variables.analytics_enabled = False
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        yield context


def _validate(context: Any, name: str, frame: pd.DataFrame, expectations: Sequence[Any]) -> dict[str, Any]:
    from great_expectations import ExpectationSuite

    asset = context.data_sources.add_pandas(name).add_dataframe_asset(name)
    batch = asset.add_batch_definition_whole_dataframe(name).get_batch({"dataframe": frame})
    validation = batch.validate(ExpectationSuite(name=name, expectations=list(expectations)))
    # Through JSON text: a journal holds plain JSON, not the types of a frame.
    result: dict[str, Any] = json.loads(json.dumps(validation.to_json_dict(), default=str))
    for expectation in result["results"]:
        if expectation["exception_info"].get("raised_exception"):
            raise VerificationError(
                f"{expectation['expectation_config']['type']} could not be evaluated: "
                f"{expectation['exception_info'].get('exception_message')}",
                expected="each expectation to be evaluated",
                where=f"Great Expectations, suite {name}",
                next_step="read the message; the output may hold values of an unexpected type",
            )
    return result


def _summary(suite: str, result: Mapping[str, Any]) -> dict[str, Any]:
    config, outcome = result["expectation_config"], result["result"]
    kwargs = {key: value for key, value in config["kwargs"].items() if key != "batch_id"}
    observed = outcome.get("observed_value", outcome.get("unexpected_count"))
    return {
        "suite": suite,
        "name": config["type"],
        "about": kwargs,
        "notes": config.get("notes"),
        "success": bool(result["success"]),
        "observed": observed,
        "unexpected_count": outcome.get("unexpected_count"),
        "unexpected_samples": outcome.get("partial_unexpected_counts") or [],
    }


def _require_agreement(
    reconciliation: Reconciliation, counts: Sequence[Recount], success: bool, min_records: int
) -> None:
    """The two counts were reached in different ways and must say the same."""
    numbers = ("expected", "actual", *KINDS)
    ours: dict[str, object] = {name: getattr(reconciliation, name) for name in numbers}
    ours["success"] = reconciliation.exactly_once and reconciliation.records >= min_records
    theirs = {**{name: sum(getattr(count, name) for count in counts) for name in numbers}, "success": success}
    if ours != theirs:
        raise _disagreement(f"Great Expectations says {theirs}", f"what the reconciliation says: {ours}")


def _disagreement(observed: str, expected: str) -> VerificationError:
    return VerificationError(
        observed,
        expected=expected,
        where="verification",
        next_step="trust neither: one of the two verifiers has a defect",
    )
